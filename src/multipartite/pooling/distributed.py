"""Statistics of many processes joined into one, with a single exchange of O(c d + d^2) numbers."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from multipartite.statistics import ClassStatistics

__all__ = ["all_reduce"]


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
