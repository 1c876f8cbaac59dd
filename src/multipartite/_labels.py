"""Which rows count for which class: what users may give as labels, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multipartite.errors import InputError

__all__ = ["Labels"]


@dataclass(frozen=True)
class Labels:
    """Which rows count for which class: an index a row, or a weight a class."""

    index: Tensor  # [N], in [0, c)
    soft: Tensor | None  # [N, c], in which case `index` is not used
    weight: Tensor | None  # [N]; None where every row counts once
    num_classes: int

    @classmethod
    def of(cls, y: Tensor, num_classes: int, ignore_index: int) -> Labels:
        """Read and check labels as a user gives them."""
        if y.ndim == 2 and y.shape[1] == num_classes:  # soft, or one-hot
            _require((y >= 0) & torch.isfinite(y), y, "soft labels must be finite and not negative, got {}")
            soft = y.double()
            return cls(y[:, 0], soft, soft.sum(1), num_classes)
        if y.ndim != 1 or y.is_floating_point() or y.is_complex():
            raise InputError(
                f"labels must be (N,) class indices or (N, {num_classes}) weights, "
                f"got {str(y.dtype).removeprefix('torch.')} of shape {tuple(y.shape)}"
            )
        y = y.long()  # eight bits cannot hold every class or ignored index
        if y.device.type == "cpu" and len(y) and y.min() >= 0 and y.max() < num_classes:
            return cls(y, None, None, num_classes)  # as most are: every row counts once
        kept = y != ignore_index
        legal = ~kept | ((y >= 0) & (y < num_classes))
        _require(legal, y, f"labels must lie in [0, {num_classes}) for num_classes={num_classes}, got {{}}")
        weight = None if y.device.type == "cpu" and kept.all() else kept.double()
        return cls(torch.where(kept, y, 0), None, weight, num_classes)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Any) -> Labels:
        soft, weight = (None if t is None else t[rows] for t in (self.soft, self.weight))
        return Labels(self.index[rows], soft, weight, self.num_classes)

    def sums(self, rows: Tensor) -> Tensor:
        """Weighted sums of `rows` [N, k] over every class, [c, k]."""
        if self.soft is not None:
            return self.soft.T.to(rows) @ rows
        if self.weight is not None:
            rows = rows * self.weight[:, None].to(rows)
        return rows.new_zeros(self.num_classes, rows.shape[1]).index_add_(0, self.index, rows)

    def rescaled_sums(self, rows: Tensor) -> Tensor:
        """Weighted sums of rows that were multiplied by the root of their weight before."""
        if self.weight is not None:
            rows = rows / _positive(self.weight.sqrt())[:, None].to(rows)
        return self.sums(rows)

    def mix(self, a: Tensor) -> Tensor:
        """For every row the mean, by its weights, of one vector a class, [N, k]."""
        if self.soft is None or self.weight is None:
            return a.index_select(0, self.index)
        return (self.soft / _positive(self.weight)[:, None]).to(a) @ a


def _require(legal: Tensor, values: Tensor, message: str) -> None:
    if values.device.type == "cpu":
        if not legal.all():
            raise InputError(message.format(values[~legal][0].item()))
    else:  # checked on the device, without waiting for it
        torch._assert_async(legal.all(), message.format("others"))


def _positive(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 1)
