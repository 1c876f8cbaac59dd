"""Blur pooling, after Zhang (2019): max at stride one, then a binomial filter with a stride."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from torch import Tensor

from multipartite.errors import InputError
from multipartite.instance_ranking import as_channels_last, is_channels_last
from multipartite.pooling.gather import gather
from multipartite.pooling.smooth import smooth
from multipartite.pooling.window import Pool, Size, Window

__all__ = ["BlurPool1d", "BlurPool2d", "BlurPool3d", "blur_pool"]


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

    Every pixel takes the maximum of the window around it, at stride one. The map is then filtered with binomial
    weights and subsampled, as :func:`multipartite.pooling.smooth.smooth` does; an even filter reaches one pixel further
    at the end than at the beginning, as in the author's code.

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
    >>> import torch
    >>> blur_pool(torch.tensor([[[1.0, 3.0, 0.0, 0.0, 0.0]]]), 2, width=3)
    tensor([[[3.0000, 0.7500]]])
    """
    _check(width)
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode), width)


def _pool(x: Tensor, window: Window, width: int) -> Tensor:
    x, batched = window.as_batch(x)
    maps = as_channels_last(x) if window.dims == 2 else x  # in which torch pools and filters faster
    pooled = smooth(gather(maps, window, "max"), width, window.stride)
    pooled = pooled if is_channels_last(x) else pooled.contiguous()
    return pooled if batched else pooled[0]


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
