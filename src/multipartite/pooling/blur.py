"""Blur pooling, after Zhang (2019): max at stride one, then a binomial filter with a stride."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.errors import InputError
from multipartite.instance_ranking import as_channels_last, is_channels_last
from multipartite.pooling.gather import gather
from multipartite.pooling.window import Pool, Size, Window, widened
from multipartite.statistics import full_precision

__all__ = ["BlurPool1d", "BlurPool2d", "BlurPool3d", "blur_pool"]

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def blur_pool(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    width: int = 4,
) -> Tensor:
    """Pool without aliasing (Zhang, Making Convolutional Networks Shift-Invariant Again, 2019).

    Every pixel takes the maximum of the window around it, at stride one. The map, reflected at its borders, is then
    filtered with binomial weights along every axis (width 3: 1/4, 1/2, 1/4) and subsampled. An even filter reaches
    one pixel further at the end than at the beginning, as in the author's code. A map that is smaller than the
    filter is reflected as often as it takes.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; `padding` is that of the maximum.
    width : int
        Taps of the filter; 1 is max pooling.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> blur_pool(torch.tensor([[[1.0, 3.0, 0.0, 0.0, 0.0]]]), 2, width=3)
    tensor([[[3.0000, 0.7500]]])
    """
    _check(width)
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode), width)


def _pool(x: Tensor, window: Window, width: int) -> Tensor:
    x, batched = window.as_batch(x)
    maps = as_channels_last(x) if window.dims == 2 else x  # in which torch pools and filters faster
    y = _reflected(widened(gather(maps, window, "max")), width)
    taps = y.new_tensor([math.comb(width - 1, i) / 2 ** (width - 1) for i in range(width)])
    kernel = taps
    for _ in range(window.dims - 1):
        kernel = kernel[..., None] * taps
    with full_precision(x):
        weight = kernel.expand(y.shape[1], 1, *kernel.shape)
        pooled = _CONV[window.dims](y, weight, stride=window.stride, groups=y.shape[1]).to(x.dtype)
    pooled = pooled if is_channels_last(x) else pooled.contiguous()
    return pooled if batched else pooled[0]


def _reflected(y: Tensor, width: int) -> Tensor:
    """Pad every axis by what the filter lacks, mirrored at the first and the last pixel."""
    if width == 1:
        return y
    before, after = (width - 1) // 2, width // 2
    if not torch.compiler.is_compiling() and min(y.shape[2:]) > after:  # a graph is for any size
        return F.pad(y, [before, after] * (y.ndim - 2), mode="reflect")
    z = y.movedim(1, -1) if is_channels_last(y) else y
    first = 1 if z is not y else 2  # of the spatial dimensions
    for axis in range(first, first + y.ndim - 2):
        n = z.shape[axis]
        place = torch.arange(n + width - 1, device=y.device) - before
        period = torch.full_like(place, torch.sym_max(2 * (n - 1), 1))
        place = place.remainder(period)
        z = z.index_select(axis, torch.minimum(place, period - place))
    return z.movedim(-1, 1) if first == 1 else z


def _check(width: int) -> None:
    if not isinstance(width, Integral) or width < 1:
        raise InputError(f"width must be a whole number of taps from 1, got {width!r}")


class _BlurPool(Pool):
    shown = ("width",)

    def __init__(self, *sizes: Any, width: int = 4, **window: Any) -> None:
        super().__init__(*sizes, **window)
        _check(width)
        self.width = width

    def pool(self, x: Tensor) -> Tensor:
        """Pool x."""
        return _pool(x, self.window, self.width)


class BlurPool1d(_BlurPool, dims=1):
    """Module form of :func:`blur_pool` for (N, C, L).

    Examples
    --------
    >>> BlurPool1d(2, width=3)
    BlurPool1d(kernel_size=(2,), stride=(2,), padding=(0,), dilation=(1,), ceil_mode=False, width=3)
    """


class BlurPool2d(_BlurPool, dims=2):
    """Module form of :func:`blur_pool` for (N, C, H, W)."""


class BlurPool3d(_BlurPool, dims=3):
    """Module form of :func:`blur_pool` for (N, C, D, H, W)."""
