"""Fractional max pooling, after Graham (2014): the maximum of regions whose places are drawn, as torch draws them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.errors import InputError
from multipartite.instance_ranking import as_channels_last, is_channels_last
from multipartite.pooling import native
from multipartite.pooling.choose import uniform
from multipartite.pooling.gather import gather
from multipartite.pooling.window import Pool, Size, Window
from multipartite.statistics import full_precision

__all__ = ["FractionalPool1d", "FractionalPool2d", "FractionalPool3d", "fractional_pool"]


def fractional_pool(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    generator: torch.Generator | None = None,
    training: bool = False,
) -> Tensor:
    r"""Pool by the maximum of drawn regions (Graham, Fractional Max-Pooling, 2014; ``nn.FractionalMaxPool2d``).

    Along an axis of n pixels, m regions of the kernel's k pixels begin at

    .. math:: \lfloor (i + u) \alpha \rfloor - \lfloor u \alpha \rfloor, \qquad \alpha = (n - k) / (m - 1)

    and the last at n - k. In training u is drawn uniformly from [0, 1) for every image, channel and axis, as torch
    does; in evaluation it is 1/2, so that the regions are fixed. m is the size that max pooling with the same arguments
    has. Where :math:`\alpha` is a whole number, as for a kernel and stride of 2 on an even size, all u give the same
    regions: there is no choice, and it is max pooling.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; padding is never picked. A dilation other than 1 is refused.
    training : bool
        Draw the regions (True) or take the fixed ones.
    generator : torch.Generator, optional
        What to draw from; torch's own by default.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> fractional_pool(torch.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]]), 3, 1)
    tensor([[[3., 4., 5., 6.]]])
    """
    window = Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode)
    _check(window)
    return _pool(x, window, training, generator)


def _pool(x: Tensor, window: Window, training: bool, generator: torch.Generator | None) -> Tensor:
    x, batched = window.as_batch(x)
    out = window.out_size(x.shape[2:])
    a = window.padded(x, -torch.inf, out)
    if training:
        samples = uniform((*x.shape[:2], window.dims), x, generator)
        with full_precision(x):
            pooled = _of_maxima(a, window.kernel_size, out, samples)
            if pooled is None:
                pooled = _at_drawn(a, window.kernel_size, out, samples)
        pooled = as_channels_last(pooled) if is_channels_last(x) else pooled
    else:
        pooled = a.movedim(1, -1) if is_channels_last(a) else a
        first = 1 if pooled is not a else 2  # of the spatial dimensions
        for axis, (k, m) in enumerate(zip(window.kernel_size, out, strict=True), first):
            pooled = _at_fixed(pooled, axis, k, m)
        pooled = pooled.movedim(-1, 1) if first == 1 else pooled
    return pooled if batched else pooled[0]


def _of_maxima(a: Tensor, kernel: tuple[int, ...], out: tuple[int, ...], samples: Tensor) -> Tensor | None:
    """Maxima of the regions that `samples` (N, C, dims) place, out of all that the compiled kernel gathers.

    It works on many channels at once, and so gathers all maxima sooner than torch finds those that are drawn. None
    where there is no kernel for a map.
    """
    window = Window.of(kernel, 1, dims=len(kernel))
    if not native.handles(a, window):
        return None
    y, at = gather(a, window, "max"), torch.zeros((), dtype=torch.int64)
    for axis, (n, m) in enumerate(zip(y.shape[2:], out, strict=True)):
        start = _drawn(samples[..., axis], n - 1, m).long()
        at = at[..., None] * n + start.reshape(*start.shape[:2], *[1] * axis, m)  # [N, C, *out so far]
    if is_channels_last(y):
        y, at = y.movedim(1, -1), at.movedim(1, -1)
        return y.flatten(1, -2).gather(1, at.flatten(1, -2)).unflatten(1, out).movedim(-1, 1)
    return y.flatten(2).gather(2, at.flatten(2)).unflatten(2, out)


def _drawn(u: Tensor, room: int, m: int) -> Tensor:
    """Where m regions begin along an axis, for numbers u (N, C): (N, C, m)."""
    i, u = torch.arange(m, device=u.device), u[..., None]
    alpha = room / max(m - 1, 1)
    return torch.where(i == m - 1, room, ((i + u) * alpha).floor() - (u * alpha).floor())


def _at_drawn(a: Tensor, kernel: tuple[int, ...], out: tuple[int, ...], samples: Tensor) -> Tensor:
    """Maxima of the regions that `samples` (N, C, dims) place, by torch's own where it takes them."""
    if len(out) == 1:  # a map of one row
        samples = torch.cat([torch.zeros_like(samples), samples], -1)
        return _at_drawn(a[:, :, None], (1, *kernel), (1, *out), samples)[:, :, 0]
    if len(out) == 2:  # torch's first number is that of the width
        flat: Tensor = F.fractional_max_pool2d(a, kernel, out, _random_samples=samples.flip(-1))
        return flat
    if all(m + k - 1 < n for m, k, n in zip(out, kernel, a.shape[2:], strict=True)):
        volume: Tensor = F.fractional_max_pool3d(a, kernel, out, _random_samples=samples)
        return volume
    for axis, (k, m) in enumerate(zip(kernel, out, strict=True)):  # torch refuses an axis without a choice
        start = _drawn(samples[..., axis], a.shape[2 + axis] - k, m).long()
        start = start.reshape(*start.shape[:2], *[1] * axis, m, *[1] * (2 - axis))
        shape = (*a.shape[: 2 + axis], m, *a.shape[3 + axis :])
        a = torch.stack([a.gather(2 + axis, (start + step).expand(shape)) for step in range(k)]).amax(0)
    return a


def _at_fixed(a: Tensor, axis: int, k: int, m: int) -> Tensor:
    """Maxima of the regions with u = 1/2 along one axis."""
    room, twice = a.shape[axis] - k, 2 * torch.sym_max(m - 1, 1)  # alpha = 2 room / twice
    i = torch.arange(m, device=a.device)
    start = ((2 * i + 1) * room).div(twice, rounding_mode="floor") - room // twice
    start = torch.where(i == m - 1, room, start)
    highest = a.index_select(axis, start)
    for step in range(1, k):
        highest = torch.maximum(highest, a.index_select(axis, start + step))
    return highest


def _check(window: Window) -> None:
    if max(window.dilation) > 1:
        raise InputError(f"fractional pooling has no dilation: leave it at 1, got {window.dilation}")


class _FractionalPool(Pool):
    def __init__(self, *sizes: Any, **window: Any) -> None:
        super().__init__(*sizes, **window)
        _check(self.window)

    def pool(self, x: Tensor) -> Tensor:
        """Pool x: at drawn regions in training, at fixed ones in evaluation."""
        return _pool(x, self.window, self.training, self.generator)


class FractionalPool1d(_FractionalPool, dims=1):
    """Module form of :func:`fractional_pool` for (N, C, L)."""


class FractionalPool2d(_FractionalPool, dims=2):
    """Module form of :func:`fractional_pool` for (N, C, H, W)."""


class FractionalPool3d(_FractionalPool, dims=3):
    """Module form of :func:`fractional_pool` for (N, C, D, H, W)."""
