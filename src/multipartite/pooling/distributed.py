"""Statistics of many processes joined into one, with a single exchange of O(c d + d^2) numbers.

All processes of a group must take the same number of steps, with labels in all of them or in none; how many
images a process has in a step is its own affair, and may be zero. What a process saw is kept apart until a refit
is due, and then joined, so every process folds the same factor out of the same numbers. ``max_rows`` bounds what
each process looks at: with None, the factor is that of one process over the joined batch; with a number, the
processes together see more rows than one process alone would.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from multipartite.statistics import ClassStatistics

__all__ = ["GroupHandle", "all_reduce"]


class GroupHandle:
    """A process group that is handed on, not copied, when the layer that holds it is copied.

    Examples
    --------
    >>> import copy
    >>> handle = GroupHandle(None)
    >>> copy.deepcopy(handle) is handle
    True
    """

    def __init__(self, group: Any) -> None:
        self.group = group

    def __deepcopy__(self, memo: Any) -> GroupHandle:
        return self


def all_reduce(local: ClassStatistics, origin: Tensor, group: Any = None) -> ClassStatistics:
    """Join the statistics of all processes of `group`; every one gets the same.

    Moments about a common origin add up, so one sum over all processes is exact.

    Parameters
    ----------
    local : ClassStatistics
        What this process has seen.
    origin : Tensor of shape (c, num_features)
        The same in every process and near the class means, so that no digits are lost.
    """
    seen = (local.count > 0)[:, None]
    delta = (local.mean - origin) * seen
    parts = [local.count, local.count[:, None] * delta, local.scatter + local.gram(delta, local.count)]
    flat = torch.cat([p.reshape(-1) for p in parts])
    dist.all_reduce(flat, group=group)
    count, sums, scatter = (
        piece.reshape(p.shape) for piece, p in zip(flat.split([p.numel() for p in parts]), parts, strict=True)
    )
    joined = local.empty()
    delta = sums / torch.where(count > 0, count, 1)[:, None]
    joined.count.copy_(count)
    joined.mean.copy_((origin + delta) * (count > 0)[:, None])
    joined.scatter.copy_(scatter - joined.gram(delta, count))
    return joined
