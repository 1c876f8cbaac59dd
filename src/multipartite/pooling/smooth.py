"""Smooth a map with binomial weights, reflected at its borders: what blur pooling does, and one way to gather."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.instance_ranking import as_channels_last, is_channels_last
from multipartite.pooling.window import widened
from multipartite.statistics import full_precision

__all__ = ["GATHERED_WIDTH", "smooth"]

GATHERED_WIDTH = 3  # of what is gathered; its mean over cells of two is blur pooling with four taps

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def smooth(x: Tensor, width: int, stride: tuple[int, ...] | None = None) -> Tensor:
    """Filter every channel with binomial weights along every axis (width 3: 1/4, 1/2, 1/4), and subsample.

    The map is reflected at its borders, as often as it takes where it is smaller than the filter. An even filter
    reaches one pixel further at the end than at the beginning.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Maps.
    width : int
        Taps of the filter; 1 leaves the maps as they are.
    stride : tuple of int, optional
        Every so manieth pixel of an axis stays; all by default.

    Returns
    -------
    Tensor of shape (N, C, *out)
        In the layout of x.

    Examples
    --------
    >>> smooth(torch.tensor([[[3.0, 3.0, 0.0, 0.0]]]), 3)
    tensor([[[3.0000, 2.2500, 0.7500, 0.0000]]])
    """
    dims = x.ndim - 2
    maps = as_channels_last(x) if dims == 2 else x  # in which torch filters faster
    y = _reflected(widened(maps), width)
    taps = y.new_tensor([math.comb(width - 1, i) / 2 ** (width - 1) for i in range(width)])
    kernel = taps
    for _ in range(dims - 1):
        kernel = kernel[..., None] * taps
    with full_precision(x):
        weight = kernel.expand(y.shape[1], 1, *kernel.shape)
        smoothed = _CONV[dims](y, weight, stride=stride or 1, groups=y.shape[1]).to(x.dtype)
    return smoothed if is_channels_last(x) else smoothed.contiguous()


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
