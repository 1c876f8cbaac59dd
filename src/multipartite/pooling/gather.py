"""Gather, the first of two steps: at stride one, every pixel takes something from the window around it.

Any pooling with a stride is two steps (the view of Zhai et al., S3Pool, 2017): gather, and then choose what stays of
every cell of `stride` pixels. Max pooling gathers the maximum and keeps the first pixel of the cell; blur pooling
smooths what it gathers and keeps the first pixel; the paper's Alg. 3 gathers nothing and keeps the best pixel.

Here the window keeps its kernel, padding and dilation and moves by one. With ``ceil_mode`` the map reaches as far as
the last window of the stride does, so that the cells that tile it are as many as the outputs of ``nn.MaxPool``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.errors import unknown
from multipartite.instance_ranking import as_channels_last, by_images, is_channels_last
from multipartite.pooling import native
from multipartite.pooling.choose import draw, expectation, pick, scattered, take, taken
from multipartite.pooling.smooth import GATHERED_WIDTH, smooth
from multipartite.pooling.window import Window, widened
from multipartite.registry import Registry

__all__ = ["GATHERS", "check_gather", "gather", "max_at", "origins"]

Gather: TypeAlias = Callable[[Tensor, Window, tuple[int, ...], bool, torch.Generator | None], Tensor]


def check_gather(how: str | None) -> None:
    """Refuse an unknown way to gather."""
    if how is not None and how not in GATHERS:
        raise unknown("gather", how, [*GATHERS, "None"])


def gather(
    x: Tensor,
    window: Window,
    how: str,
    *,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Pool at stride one.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Activations.
    window : Window
        Whose kernel, padding and dilation count; the stride tells how far the map reaches with ``ceil_mode``.
    how : {"max", "blur", "average", "stochastic"}
        What a pixel takes: the maximum; the mean of the maxima around it, weighted 1, 2, 1 along every axis; the mean
        without padding; or a draw after Zeiler and Fergus, whose expectation it is in evaluation.

    Returns
    -------
    Tensor of shape (N, C, *gathered)

    Examples
    --------
    >>> gather(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), Window.of(2, dims=1), "max")
    tensor([[[3., 3., 2.]]])
    """
    check_gather(how)
    sliding = replace(window, stride=(1,) * window.dims)
    return GATHERS[how](x, sliding, window.gathered_size(x.shape[2:]), training, generator)


def _maximum(x: Tensor, window: Window, size: tuple[int, ...], *_: Any) -> Tensor:
    found = native.gathered(x, window, "max", size) if native.handles(x, window) else None
    if found is not None:
        return found
    if not (x.requires_grad and torch.is_grad_enabled()):
        return _along_axes(x, window, size, -math.inf, torch.maximum)
    # torch's own for the gradient, all to the first of equals; it is fast where the channels lie side by side
    y = window.padded(as_channels_last(x), -math.inf, size)
    y = replace(window, padding=(0,) * window.dims, ceil_mode=False).highest(y)
    return y if is_channels_last(x) else y.contiguous()


def _blurred(x: Tensor, window: Window, size: tuple[int, ...], *rest: Any) -> Tensor:
    found = native.gathered(x, window, "blur", size) if native.handles(x, window) else None
    if found is not None:
        return found
    return smooth(_maximum(x, window, size, *rest), GATHERED_WIDTH)


def _average(x: Tensor, window: Window, size: tuple[int, ...], *_: Any) -> Tensor:
    total = _along_axes(x, window, size, 0.0, torch.add)
    ones = x.new_ones(1, 1, *x.shape[2:])
    return total / _along_axes(ones, window, size, 0.0, torch.add)


def _stochastic(
    x: Tensor, window: Window, size: tuple[int, ...], training: bool, generator: torch.Generator | None
) -> Tensor:
    a = x.clamp_min(0)
    chances = widened(a.detach())
    if training:
        return take(a, draw(chances, window, size, generator=generator), window)
    return expectation(a, chances, window, size if window.ceil_mode else None)


def _along_axes(
    x: Tensor, window: Window, size: tuple[int, ...], fill: float, join: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Join shifted maps along one axis after the other: a few passes over memory in any layout, whatever the kernel."""
    for axis, (k, p, d, o) in enumerate(
        zip(window.kernel_size, window.padding, window.dilation, size, strict=True), start=2
    ):
        beyond = o + d * (k - 1) - p - x.shape[axis]
        if p or window.ceil_mode:
            pads = [0, 0] * (x.ndim - 1 - axis) + [p, torch.sym_max(0, beyond)]
            x = F.pad(x, pads, value=fill)
        first = x.narrow(axis, 0, o)
        joined = first
        for i in range(1, k):
            joined = join(joined, x.narrow(axis, i * d, o))
        x = joined
    return x


GATHERS: Registry[Gather] = Registry(
    "gather", {"max": _maximum, "blur": _blurred, "average": _average, "stochastic": _stochastic}
)


# The maximum at chosen pixels alone


def max_at(
    x: Tensor, window: Window, chosen: Tensor, size: tuple[int, ...] | None = None, gathered: Tensor | None = None
) -> Tensor:
    """Values of the gathered maximum at chosen pixels; the gradient goes to where each maximum came from.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Activations.
    chosen : Tensor of shape (N, groups, *out)
        Flat indices into the gathered map.
    size : tuple of int, optional
        Spatial size of the gathered map.
    gathered : Tensor of shape (N, C, *size), optional
        The map where it is known; without it, maxima are taken at the chosen pixels alone.

    Returns
    -------
    Tensor of shape (N, C, *out)
    """
    size = window.gathered_size(x.shape[2:]) if size is None else size
    if gathered is not None and not (x.requires_grad and torch.is_grad_enabled()):
        return pick(gathered, chosen)
    tracing = torch.jit.is_tracing()  # type: ignore[no-untyped-call, attr-defined]
    if torch.compiler.is_compiling() or tracing:  # they trace no function of autograd, nor need one
        return taken(x, _maxima(x.detach(), window, chosen, size)[1])
    values: Tensor = _MaxAt.apply(x, chosen, window, size)[0]  # type: ignore[no-untyped-call]
    return values


def origins(x: Tensor, window: Window, chosen: Tensor) -> Tensor:
    """Find where the maxima at chosen pixels come from, channel by channel: flat indices into x."""
    return _maxima(x.detach(), window, chosen, window.gathered_size(x.shape[2:]))[1]


def _maxima(x: Tensor, window: Window, chosen: Tensor, size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Maxima of the windows at chosen pixels, and the flat index into x of the first of equals, both (N, C, *out)."""
    share = math.prod(window.kernel_size) * math.prod(chosen.shape[2:]) / math.prod(x.shape[2:])
    both: tuple[Tensor, Tensor] = by_images(
        lambda part, some: _maxima_of_few(part, window, some, size), x, chosen, width=max(1.0, share)
    )
    return both


def _maxima_of_few(x: Tensor, window: Window, chosen: Tensor, size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Find the maxima and their origins for a few images.

    The pixels of every window are laid side by side, and torch's own max pooling looks at them, which it does fast
    where the channels of a pixel lie side by side too.
    """
    N, C, *spatial = x.shape
    g, *out = chosen.shape[1:]
    L, K = math.prod(spatial), math.prod(window.kernel_size)
    looked_at = _looked_at(window, chosen, size, tuple(spatial)).reshape(N, g, -1, K).transpose(1, 2)  # [N, Lo, g, K]
    rows = looked_at + torch.arange(N, device=x.device).reshape(N, 1, 1, 1) * L
    if g > 1:
        rows = rows * g + torch.arange(g, device=x.device).reshape(g, 1)
    table = as_channels_last(x).movedim(1, -1).reshape(N * L * g, C // g)
    laid_out = table.index_select(0, rows.flatten())
    highest, at = F.max_pool2d(laid_out.reshape(1, -1, K, C // g).movedim(-1, 1), (1, K), return_indices=True)
    index = looked_at.flatten().index_select(0, at.movedim(1, -1).flatten())
    both = (part.reshape(N, *out, C).movedim(-1, 1) for part in (highest.movedim(1, -1), index))
    values, origin = both if is_channels_last(x) else (part.contiguous() for part in both)
    return values, origin


def _looked_at(window: Window, chosen: Tensor, size: tuple[int, ...], spatial: tuple[int, ...]) -> Tensor:
    """Flat index of every place of the windows at `chosen`, (..., places); padding is replaced by the nearest place."""
    if not window.ceil_mode and not any(window.padding):
        start = torch.zeros((), dtype=chosen.dtype, device=chosen.device)
        for q, n in zip(_coordinates(chosen, size), spatial, strict=True):
            start = start * n + q
        return start[..., None] + window.offsets(spatial, chosen.device)
    flat = chosen[..., None].new_zeros(1)
    for q, k, p, d, n in zip(
        _coordinates(chosen, size), window.kernel_size, window.padding, window.dilation, spatial, strict=True
    ):
        here = q[..., None] + (torch.arange(k, device=chosen.device) * d - p)
        below, above = (-here).clamp_min(0), (here - (n - 1)).clamp_min(0)
        here = here + (_steps(below, d) - _steps(above, d)) * d  # by whole steps, to a place of the same window
        flat = (flat[..., :, None] * n + here[..., None, :]).flatten(-2)
    return flat


def _steps(distance: Tensor, dilation: int) -> Tensor:
    return distance if dilation == 1 else (distance + (dilation - 1)).div(dilation, rounding_mode="floor")


def _coordinates(flat: Tensor, size: tuple[int, ...]) -> list[Tensor]:
    found: list[Tensor] = []
    for n in reversed(size):
        found.insert(0, flat % n)
        flat = flat.div(n, rounding_mode="floor")
    return found


class _MaxAt(torch.autograd.Function):
    """Maxima of the windows at chosen pixels, and their origins; the gradient goes to the origins."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, chosen: Tensor, window: Window, size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        return _maxima(x, window, chosen, size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, _, ctx.window, _ = inputs
        _, origin = output
        ctx.mark_non_differentiable(origin)
        ctx.save_for_backward(x, origin)
        ctx.save_for_forward(origin)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, None, None, None]:
        x, origin = ctx.saved_tensors
        return scattered(grad, origin, x, ctx.window), None, None, None

    @staticmethod
    def jvp(ctx: Any, x: Tensor, *_: None) -> tuple[Tensor, None]:
        (origin,) = ctx.saved_tensors
        return taken(x, origin), None
