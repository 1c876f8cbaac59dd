"""Picking: all channels of a group from one pixel, in whichever layout they lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["is_channels_last", "pick"]

_LARGE = 1 << 22  # numbers from which a gradient that is written once pays for its own small overhead


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side in memory."""
    return x.shape[1] > 1 and x.stride(1) == 1 and x.movedim(1, -1).is_contiguous()


def pick(x: Tensor, indices: Tensor, *, distinct: bool = False) -> Tensor:
    """Take from x the pixels that `indices` names, all channels of a group from one pixel.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Activations; the output keeps their memory format.
    indices : Tensor of shape (N, groups, *out)
        Flat index into the spatial dimensions, as torch's pooling returns it.
    distinct : bool
        Whether no pixel of a group is named twice, as where windows do not overlap: gradients need not be summed.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> x = torch.arange(8.0).reshape(1, 2, 4)
    >>> pick(x, torch.tensor([[[1, 2]]]))
    tensor([[[1., 2.],
             [5., 6.]]])
    """
    N, C = x.shape[:2]
    g, out = indices.shape[1], indices.shape[2:]
    d = C // g
    if is_channels_last(x):  # whole rows of d numbers
        L = math.prod(x.shape[2:])
        image = torch.arange(N, device=x.device).reshape(N, 1, 1) * L
        group = torch.arange(g, device=x.device)
        rows = ((indices.flatten(2).transpose(1, 2) + image) * g + group).reshape(-1)  # [N, Lo, g]
        table = x.movedim(1, -1).reshape(N * L * g, d)
        once = distinct and torch.is_grad_enabled() and not torch.compiler.is_compiling()  # a graph is for any size
        take: Callable[[Tensor, Tensor], Tensor] = _DistinctRows.apply if once and table.numel() > _LARGE else _rows
        picked = take(table, rows)
        return picked.reshape(N, *out, C).movedim(-1, 1)
    index = indices.reshape(N, g, 1, math.prod(out)).expand(-1, -1, d, -1)
    picked = x.reshape(N, g, d, math.prod(x.shape[2:])).gather(3, index)
    return picked.reshape(N, C, *out)


def _rows(table: Tensor, rows: Tensor) -> Tensor:
    return table.index_select(0, rows)


class _DistinctRows(torch.autograd.Function):
    """``table.index_select(0, rows)`` for rows that differ: the backward writes each row once, picked or zero.

    Torch's own fills the gradient with zeros, then adds to it. That is faster for small tables, and for contiguous
    layouts of any size, where single numbers would have to be written instead of rows.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(table: Tensor, rows: Tensor) -> Tensor:
        return _rows(table, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        table, rows = inputs
        ctx.save_for_backward(rows)
        ctx.save_for_forward(rows)
        ctx.length = len(table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        nowhere = len(rows)
        narrow = torch.int32 if ctx.length < 1 << 31 else torch.int64
        origin = rows.new_full((ctx.length,), nowhere, dtype=narrow)  # which row of grad, the last one being zero
        origin[rows] = torch.arange(nowhere, device=rows.device, dtype=narrow)
        return torch.cat([grad, torch.zeros_like(grad[:1])]).index_select(0, origin), None

    @staticmethod
    def jvp(ctx: Any, table: Tensor, rows: None) -> Tensor:
        (index,) = ctx.saved_tensors
        return _rows(table, index)
