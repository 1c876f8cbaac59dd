"""What many processes share: each keeps what it saw since the last refit, and all of them join it in one exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from multipartite.errors import InputError
from multipartite.statistics import ClassStatistics

__all__ = ["GroupHandle", "Pending"]


@dataclass
class Pending:
    """What this process alone has seen since the last refit, kept apart until all processes join theirs.

    Attributes
    ----------
    statistics : ClassStatistics
        Of the batches since then.
    kept : float
        Share of the statistics before them that they leave.
    turns, missing : int
        Batches since then, and how many of them came without labels.
    """

    statistics: ClassStatistics
    kept: float = 1.0
    turns: int = 0
    missing: int = 0

    def join(self, origin: Tensor, group: Any = None) -> ClassStatistics | None:
        """Add up what all processes of `group` saw; None where none of them had labels.

        Moments about a common origin add up, so one sum over all processes is exact.

        Parameters
        ----------
        origin : Tensor of shape (c, num_features)
            The same in every process and near the class means, so that no digits are lost.
        """
        local = self.statistics
        delta = (local.mean - origin) * local.present[:, None]
        parts = [local.count, local.count[:, None] * delta, local.scatter + local.gram(delta, local.count)]
        flat = torch.cat([*(p.reshape(-1) for p in parts), local.count.new_tensor([self.missing])])
        dist.all_reduce(flat, group=group)
        *sums, missing = flat.split([*(p.numel() for p in parts), 1])
        if lacking := int(missing):
            everybody = self.turns * dist.get_world_size(group)
            if lacking == everybody:
                return None
            raise InputError(
                f"labels must reach every process or none, but {lacking} of the {everybody} batches that the processes "
                "had since the last refit came without: open multipartite.supervise in all of them"
            )
        count, weighted, scatter = (piece.reshape(p.shape) for piece, p in zip(sums, parts, strict=True))
        joined = local.empty()
        delta = weighted / torch.where(count > 0, count, 1)[:, None]
        joined.count.copy_(count)
        joined.mean.copy_((origin + delta) * (count > 0)[:, None])
        joined.scatter.copy_(scatter - joined.gram(delta, count))
        return joined


class GroupHandle:
    """A process group that is handed on, not copied, when the layer that holds it is copied."""

    def __init__(self, group: Any) -> None:
        self.group = group

    def __deepcopy__(self, memo: Any) -> GroupHandle:
        return self
