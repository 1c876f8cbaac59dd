"""S3Pool, after Zhai et al. (2017): max at stride one, then rows and columns that are drawn strip by strip."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from multipartite.errors import InputError
from multipartite.pooling import native
from multipartite.pooling.choose import crossings, pick, uniform
from multipartite.pooling.gather import gather
from multipartite.pooling.sums import window_mean
from multipartite.pooling.window import Pool, Size, Window, one_a_dimension

__all__ = ["S3Pool1d", "S3Pool2d", "S3Pool3d", "s3_pool"]


def s3_pool(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    grid_size: Size | None = None,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Pool by stochastic spatial sampling (Zhai et al., S3Pool: Pooling with Stochastic Spatial Sampling, 2017).

    Every pixel takes the maximum of the window around it, at stride one. Along every axis that map is cut into strips
    of `grid_size` lines, and in training ``grid_size / stride`` lines of each are drawn without replacement and kept in
    their order, the same lines for the whole batch and all channels, as in the authors' code; the last strip may be
    shorter and then gives the rest. In evaluation the map is averaged over cells of `stride`, which is the expectation
    of the draws where a strip is one cell, and the authors' choice for larger ones.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``.
    grid_size : int or tuple of int, optional
        Lines of a strip, multiples of the stride; the stride itself by default. The larger, the more the map is
        distorted.
    training : bool
        Draw (True) or average.
    generator : torch.Generator, optional
        What to draw from; torch's own by default.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> s3_pool(torch.tensor([[[1.0, 3.0, 2.0, 0.0, 4.0]]]), 2)
    tensor([[[3., 3.]]])
    """
    window = Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode)
    return _pool(x, window, _checked(grid_size, window), training, generator)


def _pool(
    x: Tensor, window: Window, grid: tuple[int, ...], training: bool, generator: torch.Generator | None
) -> Tensor:
    x, batched = window.as_batch(x)
    if training:
        size, out = window.gathered_size(x.shape[2:]), window.out_size(x.shape[2:])
        lines = [
            draw_strips(n, m, s, g, x.device, generator)
            for n, m, s, g in zip(size, out, window.stride, grid, strict=True)
        ]
        pooled = _kept(x, window, crossings(lines, size).expand(len(x), 1, *out), size)
    else:
        pooled = window_mean(gather(x, window, "max"), window.cells)
    return pooled if batched else pooled[0]


def _kept(x: Tensor, window: Window, chosen: Tensor, size: tuple[int, ...]) -> Tensor:
    """Keep what chosen pixels gathered."""
    pooled = native.max_at(x, window, chosen, size) if native.handles(x, window) else None
    return pick(gather(x, window, "max"), chosen, distinct=True) if pooled is None else pooled


def draw_strips(
    length: int,
    count: int,
    stride: int,
    grid: int,
    device: torch.device | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw `count` of `length` lines, out of every strip of `grid` lines grid / stride, in their order.

    Examples
    --------
    >>> draw_strips(5, 5, 1, 2)
    tensor([0, 1, 2, 3, 4])
    """
    quota = grid // stride
    strips = -(-count // quota)
    order = torch.arange(strips * grid, device=device)
    keys = uniform((strips * grid,), torch.empty(0, device=device), generator)
    keys = torch.where(order < length, keys, 2.0).reshape(strips, grid)  # lines that are not there come last
    drawn = keys.argsort(-1)[:, :quota] + order[::grid, None]
    return drawn.flatten()[:count].sort().values


def _checked(grid_size: Size | None, window: Window) -> tuple[int, ...]:
    if grid_size is None:
        return window.stride
    grid = one_a_dimension("grid_size", grid_size, window.dims, least=1)
    if any(g % s for g, s in zip(grid, window.stride, strict=True)):
        raise InputError(
            f"grid_size must be a multiple of stride={window.stride}, so that every strip keeps a whole number of "
            f"lines, got {grid}"
        )
    return grid


class _S3Pool(Pool):
    shown = ("grid_size",)

    def __init__(self, *sizes: Any, grid_size: Size | None = None, **window: Any) -> None:
        super().__init__(*sizes, **window)
        _checked(grid_size, self.window)
        self.grid_size = grid_size

    def pool(self, x: Tensor) -> Tensor:
        """Pool x: draw lines in training, average in evaluation."""
        return _pool(x, self.window, _checked(self.grid_size, self.window), self.training, self.generator)


class S3Pool1d(_S3Pool, dims=1):
    """Module form of :func:`s3_pool` for (N, C, L)."""


class S3Pool2d(_S3Pool, dims=2):
    """Module form of :func:`s3_pool` for (N, C, H, W)."""


class S3Pool3d(_S3Pool, dims=3):
    """Module form of :func:`s3_pool` for (N, C, D, H, W)."""
