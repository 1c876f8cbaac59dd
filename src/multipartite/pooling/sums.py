"""Weighted sums over every window, axis by axis: what averages and filters are made of.

A sum over k x k places whose weights are a product, one factor an axis, costs 2 k steps a pixel instead of k x k, in
any memory layout; torch's own average pooling is several times slower where the channels do not lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.instance_ranking import is_channels_last
from multipartite.pooling.window import Window, widened

__all__ = ["window_mean", "window_spread", "window_sum"]

Taps: TypeAlias = tuple[tuple[float, ...], ...]
_Steps: TypeAlias = list[tuple[int, tuple[float, ...], int, int]]  # axis, its taps, stride, dilation


def window_sum(x: Tensor, window: Window, taps: Sequence[Sequence[float]] | None = None) -> Tensor:
    """Sum of every window, each place weighted by the product of its taps, one an axis; padding counts as zero.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
    window : Window
    taps : one sequence of `kernel_size` numbers an axis, optional
        Ones where not given.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> window_sum(torch.tensor([[[1.0, 2.0, 3.0]]]), Window.of(2, 1, dims=1), [[1.0, 10.0]])
    tensor([[[21., 32.]]])
    """
    if taps is None and _is_for_torch(x, window):
        sizes = (window.kernel_size, window.stride, window.padding, window.ceil_mode)
        return F.avg_pool2d(x, *sizes, divisor_override=1)
    out = window.out_size(x.shape[2:])
    padded = window.padded(x, 0.0, out)
    steps = _steps(window, taps)
    if torch.compiler.is_compiling():  # a compiler finds the backward by itself
        return _contract(padded, steps, out)
    total: Tensor = _Sum.apply(padded, steps, out, False)  # type: ignore[no-untyped-call]
    return total


def window_spread(y: Tensor, window: Window, x: Tensor) -> Tensor:
    """Transpose of :func:`window_sum`: every pixel of a map as x gets the sum of y over the windows that it is in.

    Examples
    --------
    >>> window_spread(torch.tensor([[[1.0, 10.0]]]), Window.of(2, 1, dims=1), torch.zeros(1, 1, 3))
    tensor([[[ 1., 11., 10.]]])
    """
    if _is_for_torch(x, window):
        sizes = (window.kernel_size, window.stride, window.padding, window.ceil_mode)
        return torch.ops.aten.avg_pool2d_backward(y, x, *sizes, True, 1)
    spatial = tuple(x.shape[2:])
    sides = window.sides(spatial, tuple(y.shape[2:]))
    size = tuple(before + n + after for n, (before, after) in zip(spatial, sides, strict=True))
    spread: Tensor = _Sum.apply(y, _steps(window), size, True)  # type: ignore[no-untyped-call]
    for axis, (n, (before, _)) in enumerate(zip(spatial, sides, strict=True), 2):
        spread = spread.narrow(axis, before, n)
    return spread


def window_mean(x: Tensor, window: Window) -> Tensor:
    """Mean of every window without its padding, (N, C, *out).

    Examples
    --------
    >>> window_mean(torch.tensor([[[2.0, 4.0, 9.0]]]), Window.of(2, 2, 1, dims=1))
    tensor([[[2.0000, 6.5000]]])
    """
    if _is_for_torch(x, window):
        sizes = (window.kernel_size, window.stride, window.padding, window.ceil_mode)
        return F.avg_pool2d(widened(x), *sizes, count_include_pad=False).to(x.dtype)
    total = window_sum(widened(x), window)
    if window.ceil_mode or any(window.padding):
        mean = total / window_sum(total.new_ones(1, 1, *x.shape[2:]), window)
    else:
        mean = total / math.prod(window.kernel_size)
    return mean.to(x.dtype)


def _is_for_torch(x: Tensor, window: Window) -> bool:
    """Whether torch's own average pooling is the fastest: where the channels of a pixel lie side by side."""
    return window.dims == 2 and max(window.dilation) == 1 and is_channels_last(x)


def _steps(window: Window, taps: Sequence[Sequence[float]] | None = None) -> _Steps:
    weights: Taps = tuple(
        (1.0,) * k if taps is None else tuple(taps[axis]) for axis, k in enumerate(window.kernel_size)
    )
    return [(axis, weights[axis], window.stride[axis], window.dilation[axis]) for axis in reversed(range(window.dims))]


def _contract(x: Tensor, steps: _Steps, out: tuple[int, ...]) -> Tensor:
    for axis, taps, s, d in steps:
        places = [_line(x, axis, i * d, s, out[axis]) for i in range(len(taps))]
        total = places[0] if taps[0] == 1 and len(taps) > 1 else places[0] * taps[0]
        for i in range(1, len(taps)):
            # the first sum makes a map of its own, to which the others are added
            total = (total.add if i == 1 else total.add_)(places[i], alpha=taps[i])
        x = total
    return x


def _expand(grad: Tensor, steps: _Steps, spatial: tuple[int, ...]) -> Tensor:
    """Transpose of :func:`_contract`: every pixel gets from all windows that it is in."""
    for axis, taps, s, d in reversed(steps):
        length = grad.shape[2 + axis]
        shape = list(grad.shape)
        shape[2 + axis] = spatial[axis]
        if is_channels_last(grad):
            total = grad.new_zeros(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
        else:
            total = grad.new_zeros(shape)
        for i, tap in enumerate(taps):
            _line(total, axis, i * d, s, length).add_(grad, alpha=tap)
        grad = total
    return grad


def _line(x: Tensor, axis: int, start: int, stride: int, length: int) -> Tensor:
    """Every `stride`-th line along an axis, `length` of them: a view."""
    view = x.narrow(2 + axis, start, (length - 1) * stride + 1)
    return view if stride == 1 else view[(slice(None),) * (2 + axis) + (slice(None, None, stride),)]


class _Sum(torch.autograd.Function):
    """A linear map, :func:`_contract` or :func:`_expand`: each is the transpose, and so the gradient, of the other."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, steps: _Steps, size: tuple[int, ...], transposed: bool) -> Tensor:
        return (_expand if transposed else _contract)(x, steps, size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.steps, ctx.size, ctx.transposed = inputs
        ctx.came = tuple(x.shape[2:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return _Sum.apply(grad, ctx.steps, ctx.came, not ctx.transposed), None, None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, x: Tensor, *_: None) -> Tensor:
        return _Sum.forward(x, ctx.steps, ctx.size, ctx.transposed)
