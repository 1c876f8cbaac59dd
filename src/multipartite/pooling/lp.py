"""Lp pooling, as torch has it: the p-norm of a window; here with padding, dilation and gradients at zero."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.errors import InputError
from multipartite.pooling.sums import window_sum
from multipartite.pooling.window import Pool, Size, Window, widened

__all__ = ["LPPool1d", "LPPool2d", "LPPool3d", "lp_pool"]

_PLAIN = 4.0  # up to this power, float32 holds what any activation of note becomes


def lp_pool(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    p: float = 2.0,
) -> Tensor:
    r"""Pool by the p-norm (Sermanet et al., Convolutional Neural Networks Applied to House Numbers, 2012).

    .. math:: s = \Big(\frac{K}{n} \sum_{k=1}^n |a_k|^p\Big)^{1/p}

    with the K places of the kernel and the n of them that are no padding: ``nn.LPPool2d``, also where a window reaches
    beyond the input. Two things differ from it: a negative number counts by its size whatever p is, where torch gives
    NaN for odd p; and a window of zeros has the gradient 0, where torch's is NaN.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; padding is not counted.
    p : float
        From 1, which is the sum, to infinity, which is the maximum of the sizes.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> lp_pool(torch.tensor([[[3.0, -4.0, 0.0, 0.0]]]), 2)
    tensor([[[5., 0.]]])
    """
    _checked(p)
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode), p)


def _pool(x: Tensor, window: Window, p: float) -> Tensor:
    x, batched = window.as_batch(x)
    pooled = _norm(widened(x), window, p).to(x.dtype)
    return pooled if batched else pooled[0]


def _norm(a: Tensor, window: Window, p: float) -> Tensor:
    if p == math.inf:
        return window.highest(a.abs())
    if p > _PLAIN:
        return _scaled_norm(a.abs(), window, p)
    total = _total(a.square() if p == 2 else a.abs() ** p, window)
    if p == 1:
        return total
    tiny = torch.finfo(a.dtype).tiny
    safe = total.clamp_min(tiny)  # the root of zero has no slope
    root = safe.sqrt() if p == 2 else safe ** (1 / p)
    return F.threshold(root, 1.001 * tiny ** (1 / p), 0.0)


def _total(power: Tensor, window: Window) -> Tensor:
    total = window_sum(power, window)
    return total * _lack(power, window) if window.ceil_mode or any(window.padding) else total


def _lack(a: Tensor, window: Window) -> Tensor:
    """Places of the kernel for every one that is no padding."""
    return math.prod(window.kernel_size) / window_sum(a.new_ones(1, 1, *a.shape[2:]), window)


def _scaled_norm(a: Tensor, window: Window, p: float) -> Tensor:
    """Take the powers of every window as multiples of its largest number, so that none is too large or too small."""
    views = list(window.views(a, 0.0))
    largest = reduce(torch.maximum, views).detach()
    unit = torch.where(largest > 0, largest, 1)
    total = reduce(torch.add, [(view / unit) ** p for view in views]) * _lack(a, window)
    return largest * total.clamp_min(0.5) ** (1 / p)  # at least 1 but in windows of zeros, which have no slope


def _checked(p: float) -> float:
    if isinstance(p, bool) or not isinstance(p, int | float) or not p >= 1:
        raise InputError(f"p must be a number from 1 to infinity, got {p!r}")
    return p


class _LPPool(Pool):
    shown = ("p",)

    def __init__(self, *sizes: Any, p: float = 2.0, **window: Any) -> None:
        super().__init__(*sizes, **window)
        self.p = _checked(p)

    def pool(self, x: Tensor) -> Tensor:
        """Pool x."""
        return _pool(x, self.window, self.p)


class LPPool1d(_LPPool, dims=1):
    """Module form of :func:`lp_pool` for (N, C, L)."""


class LPPool2d(_LPPool, dims=2):
    """Module form of :func:`lp_pool` for (N, C, H, W)."""


class LPPool3d(_LPPool, dims=3):
    """Module form of :func:`lp_pool` for (N, C, D, H, W)."""
