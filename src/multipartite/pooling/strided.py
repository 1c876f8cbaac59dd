"""Strided pooling: the first pixel of every window stays, as a convolution with a stride leaves it."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from multipartite.instance_ranking import is_channels_last, is_eager
from multipartite.pooling.window import Pool, Size, Window

__all__ = ["StridedPool1d", "StridedPool2d", "StridedPool3d", "strided_pool"]


def strided_pool(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Subsample: nothing is gathered, and the first pixel of every window that is not padding stays.

    It is what Springenberg et al. (Striving for Simplicity, 2015) put in the place of pooling, the stride alone; and
    the least that any pooling has to beat.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; the kernel counts for the size of the output only.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> strided_pool(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), 2)
    tensor([[[1., 3.]]])
    """
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode))


def _pool(x: Tensor, window: Window) -> Tensor:
    if is_eager(x) and not any(window.padding):  # a view that is sooner made than slices, and so is its gradient
        return x.as_strided(*_firsts(window, x.shape, x.stride(), x.dtype)).clone()
    x, batched = window.as_batch(x)
    out = window.out_size(x.shape[2:])
    y = x.movedim(1, -1) if is_channels_last(x) else x
    first = 1 if y is not x else 2  # of the spatial dimensions
    for axis, (s, p, d, o) in enumerate(zip(window.stride, window.padding, window.dilation, out, strict=True), first):
        if p:
            start = torch.arange(o, device=x.device) * s - p
            steps = (-start).clamp_min(0).add(d - 1).div(d, rounding_mode="floor")  # through the padding
            y = y.index_select(axis, start + steps * d)
        else:
            y = y[(slice(None),) * axis + (slice(0, (o - 1) * s + 1, s),)]
    y = y.movedim(-1, 1).clone() if first == 1 else y.clone()  # never a view: an in-place step after it is harmless
    return y if batched else y[0]


@lru_cache(maxsize=1024)
def _firsts(
    window: Window, shape: torch.Size, strides: tuple[int, ...], dtype: torch.dtype
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Size and strides of the view of every window's first pixel, where none is padding."""
    window.check_input(shape, dtype)
    lead = len(shape) - window.dims
    steps = tuple(n * s for n, s in zip(strides[lead:], window.stride, strict=True))
    return (*shape[:lead], *window.out_size(shape[lead:])), (*strides[:lead], *steps)


class _StridedPool(Pool):
    def pool(self, x: Tensor) -> Tensor:
        """Pool x."""
        return _pool(x, self.window)


class StridedPool1d(_StridedPool, dims=1):
    """Module form of :func:`strided_pool` for (N, C, L)."""


class StridedPool2d(_StridedPool, dims=2):
    """Module form of :func:`strided_pool` for (N, C, H, W)."""


class StridedPool3d(_StridedPool, dims=3):
    """Module form of :func:`strided_pool` for (N, C, D, H, W)."""
