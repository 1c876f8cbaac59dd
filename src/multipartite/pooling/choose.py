"""Choose, the second of two steps: of every window of a scored map, what stays.

``hard`` keeps the pixel with the highest score, ``stochastic`` draws one by its score, ``soft`` takes a weighted mean,
and ``lines`` keeps rows and columns of the whole map, so that neighbours stay neighbours. What is drawn in training
is its expectation in evaluation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multipartite.errors import InputError, unknown
from multipartite.instance_ranking import is_channels_last, is_eager, is_exporting
from multipartite.pooling.sums import window_mean
from multipartite.pooling.window import Window

__all__ = [
    "ASSIGNMENTS",
    "Choice",
    "crossings",
    "draw",
    "draw_lines",
    "expectation",
    "expected_lines",
    "line_shares",
    "pick",
    "scattered",
    "soft_weights",
    "take",
    "taken",
    "uniform",
    "uniform_like",
    "weighted_mean",
]

ASSIGNMENTS = ("hard", "soft", "stochastic", "lines")

_TRIFLE = 1e-25  # of the highest score of an image: what a pixel without any score weighs
_LARGE = 1 << 22  # numbers from which a gradient that is written once pays for its own small overhead


@dataclass(frozen=True)
class Choice:
    """What becomes of a scored map.

    Parameters
    ----------
    assignment : {"hard", "soft", "stochastic", "lines"}
        Which of the four.
    temperature : float > 0
        Of `soft` and `stochastic`; infinite is uniform.
    focus : float in [0, 1) or "auto"
        Of `lines`: which share of the lines goes where the scores are; 0 is uniform, "auto" what the layer learns.

    Examples
    --------
    >>> Choice("stochastic", math.inf).blind, Choice("lines", focus=0.5).blind
    (True, False)
    """

    assignment: str
    temperature: float = 1.0
    focus: float | str = 0.0

    def __post_init__(self) -> None:
        if self.assignment not in ASSIGNMENTS:
            raise unknown("assignment", self.assignment, ASSIGNMENTS)
        if not isinstance(self.temperature, int | float) or not self.temperature > 0:
            raise InputError(f"temperature must be positive, got {self.temperature!r}")
        if self.focus != "auto" and (not isinstance(self.focus, int | float) or not 0 <= self.focus < 1):
            raise InputError(f"focus must lie in [0, 1) or be 'auto', got {self.focus!r}")

    @property
    def blind(self) -> bool:
        """Whether no score is looked at."""
        return self.focus == 0 if self.assignment == "lines" else self.temperature == math.inf and self.mixes

    @property
    def trusts(self) -> bool:
        """Whether the layer is to learn how far to trust its scores."""
        return self.assignment == "lines" and self.focus == "auto"

    @property
    def mixes(self) -> bool:
        """Whether pixels are averaged in evaluation."""
        return self.assignment != "hard"

    @property
    def draws(self) -> bool:
        """Whether pixels are drawn in training."""
        return self.assignment in ("stochastic", "lines")


# Draws: one random number a window


def uniform(shape: Sequence[int], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Random numbers in [0, 1), of the type and on the device of `like`.

    Examples
    --------
    >>> uniform((2, 3), torch.zeros(1, dtype=torch.float64), torch.Generator().manual_seed(0)).dtype
    torch.float64
    """
    if generator is None:  # named, even as None, it would tie a compiled graph to one size
        return torch.rand(tuple(shape), dtype=like.dtype, device=like.device)
    return torch.rand(tuple(shape), dtype=like.dtype, device=like.device, generator=generator)


def draw(
    score: Tensor,
    window: Window,
    out: tuple[int, ...] | None = None,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw one pixel of every window with probability proportional to score^(1/temperature).

    One uniform number a window finds its place in the running sum of the scores. Where nothing scores, all pixels
    are alike; padding is never drawn.

    Parameters
    ----------
    score : Tensor of shape (N, groups, *spatial)
        Scores, not negative; with an infinite temperature only their shape counts.

    Returns
    -------
    Tensor of shape (N, groups, *out)
        Flat indices, as torch's pooling gives them.

    Examples
    --------
    >>> draw(torch.tensor([[[0.0, 1.0, 2.0, 0.0]]]), Window.of(2, dims=1))
    tensor([[[1, 2]]])
    """
    spatial = score.shape[2:]
    out = window.out_size(spatial) if out is None else out
    chances = _chances(score, window, out, temperature)
    running = list(itertools.accumulate(chances))
    mark = (1 - uniform_like(running[-1], generator)) * running[-1]  # above 0
    place = torch.zeros_like(mark, dtype=torch.uint8 if len(chances) < 256 else torch.int64)
    for below in running[:-1]:  # as many places are passed as running sums are below the mark
        place = place + (below < mark)
    return window.starts(spatial, out, score.device) + _looked_up(window.offsets(spatial, score.device), place)


def uniform_like(total: Tensor, generator: torch.Generator | None) -> Tensor:
    """Random numbers in [0, 1) that lie in memory as `total` does.

    Examples
    --------
    >>> uniform_like(torch.zeros(2, 3, 4).movedim(-1, 1), None).stride()
    (12, 1, 4)
    """
    if is_channels_last(total):
        return uniform((len(total), *total.shape[2:], total.shape[1]), total, generator).movedim(-1, 1)
    return uniform(total.shape, total, generator)


def _looked_up(table: Tensor, place: Tensor) -> Tensor:
    """``table[place]``, in the memory layout of `place`."""
    last = is_channels_last(place)
    order = place.movedim(1, -1) if last else place
    found = table.index_select(0, order.reshape(-1).long()).reshape(order.shape)
    return found.movedim(-1, 1) if last else found


def _chances(score: Tensor, window: Window, out: tuple[int, ...] | None, temperature: float) -> list[Tensor]:
    """Chances of every place of a window, up to a factor: score^(1/temperature), alike where nothing scores."""
    if temperature == 1 and not is_exporting():
        return list(window.views((score if _is_moderate(score) else _scaled(score)) + _TRIFLE, 0.0, out))
    inside = list(window.views(torch.ones_like(score[:1, :1]), 0.0, out))
    if temperature == math.inf:
        return [within.expand(*score.shape[:2], *within.shape[2:]) for within in inside]
    views = list(window.views(_scaled(score) if temperature == 1 else score, 0.0, out))
    if temperature != 1:
        highest = views[0]
        for view in views[1:]:
            highest = torch.maximum(highest, view)
        highest = highest.clamp_min(torch.finfo(score.dtype).tiny)
        views = [_power(view / highest, temperature) for view in views]
    if is_exporting():  # an optimiser of graphs may take a trifle for nothing
        total = sum(views[1:], views[0])
        return [torch.where(total > 0, view, within) for view, within in zip(views, inside, strict=True)]
    return [view + _TRIFLE * within for view, within in zip(views, inside, strict=True)]


def _scaled(score: Tensor) -> Tensor:
    """Scores as multiples of the highest of their image."""
    highest = score.amax(tuple(range(1, score.ndim)), keepdim=True)
    return score / highest.clamp_min(torch.finfo(score.dtype).tiny)


def _is_moderate(score: Tensor) -> bool:
    """Whether sums of scores are neither too large nor so small that a trifle would count, as far as it can be told."""
    if score.device.type != "cpu" or not score.numel() or not is_eager(score):
        return False
    highest = score.amax(tuple(range(1, score.ndim)))
    return bool(((highest == 0) | ((highest > 1e-10) & (highest < 1e30))).all())


def _power(score: Tensor, temperature: float) -> Tensor:
    return score.clamp_min(0) ** (1 / temperature)


# Expectations


def expectation(
    x: Tensor, score: Tensor, window: Window, out: tuple[int, ...] | None = None, temperature: float = 1.0
) -> Tensor:
    """Mean of every window, weighted by score^(1/temperature): what :func:`draw` picks on average.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Activations.
    score : Tensor of shape (N, groups, *spatial)
        Scores, not negative; where nothing scores, all pixels are alike.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> expectation(torch.tensor([[[4.0, 8.0]]]), torch.tensor([[[1.0, 1.0]]]), Window.of(2, dims=1))
    tensor([[[6.]]])
    """
    narrow = any(n < k for n, k in zip(x.shape[2:], window.kernel_size, strict=True))  # torch averages no such maps
    if (
        is_exporting()
        or narrow
        or out is not None
        or max(window.dilation) > 1
        or (temperature != 1 and window.overlaps)
    ):
        return weighted_mean(x, _chances(score, window, out, temperature), window, out)
    if temperature == math.inf:
        return window_mean(x, window)
    if temperature == 1:
        weight = _scaled(score)
    else:
        weight = _power(score / _spread_out(_highest(score, window), window, score.shape[2:]), temperature)
    weight = ((weight + _TRIFLE) / math.prod(window.kernel_size)).to(x.dtype)  # so that no sum is too large
    g = score.shape[1]
    if g == 1:
        return window_mean(x * weight, window) / window_mean(weight, window)
    parts = x.reshape(x.shape[0], g, x.shape[1] // g, *x.shape[2:]) * weight[:, :, None]
    sums, totals = window_mean(parts.flatten(1, 2), window), window_mean(weight, window)
    return (sums.reshape(x.shape[0], g, -1, *sums.shape[2:]) / totals[:, :, None]).flatten(1, 2)


def _highest(score: Tensor, window: Window) -> Tensor:
    best = window.best(score)
    highest = score.flatten(2).gather(2, best.flatten(2)).reshape(best.shape)
    return highest.clamp_min(torch.finfo(score.dtype).tiny)


def _spread_out(cells: Tensor, window: Window, spatial: torch.Size) -> Tensor:
    """Give every pixel the number of its window, where windows do not overlap."""
    index = torch.zeros((), dtype=torch.int64, device=cells.device)
    for n, s, p, o in zip(spatial, window.stride, window.padding, cells.shape[2:], strict=True):
        line = (torch.arange(n, device=cells.device) + p).div(s, rounding_mode="floor").clamp_max(o - 1)
        index = index[..., None] * o + line
    return cells.flatten(2).index_select(2, index.flatten()).reshape(*cells.shape[:2], *spatial)


def soft_weights(score: Tensor, window: Window, temperature: float) -> list[Tensor]:
    """Softmax of score / (temperature * mean score of the window), a map for every place of the window.

    Examples
    --------
    >>> soft_weights(torch.tensor([[[1.0, 1.0]]]), Window.of(2, dims=1), 1.0)
    [tensor([[[0.5000]]]), tensor([[[0.5000]]])]
    """
    scores = torch.stack(list(window.views(score, -math.inf)))
    inside = scores > -math.inf
    if temperature == math.inf:  # also keeps 0 * inf out of the gradient
        return list(inside.to(score) / inside.sum(0, keepdim=True))
    finite = torch.where(inside, scores, 0)
    mean = (finite / inside.sum(0, keepdim=True)).sum(0, keepdim=True)  # divided first: a sum may be too large
    logits = finite / (temperature * mean.clamp_min(torch.finfo(score.dtype).tiny))
    return list(torch.where(inside, logits, -math.inf).softmax(0))


def weighted_mean(x: Tensor, weights: list[Tensor], window: Window, out: tuple[int, ...] | None = None) -> Tensor:
    """Mean of every window with a weight (N, groups, *out) for every place of it.

    Examples
    --------
    >>> half = torch.full((1, 1, 1), 0.5)
    >>> weighted_mean(torch.tensor([[[2.0, 4.0]]]), [half, half], Window.of(2, dims=1))
    tensor([[[3.]]])
    """
    N, C = x.shape[:2]
    g = weights[0].shape[1]
    total, sums = sum(weights[1:], weights[0]), None
    for weight, view in zip(weights, window.views(x, 0.0, out), strict=True):
        part = view.reshape(N, g, C // g, *view.shape[2:]) * (weight / total)[:, :, None]
        sums = part if sums is None else sums + part
    assert sums is not None
    return sums.flatten(1, 2).to(x.dtype)


# Lines: rows and columns of the whole map


def line_shares(score: Tensor, focus: float | Tensor, axis: int) -> Tensor:
    """Sum up, line by line, F of the density of lines along an axis, p_i = (1 - focus) / n + focus * share of line i.

    Parameters
    ----------
    score : Tensor of shape (N, groups, *spatial)
        Scores, not negative; where nothing scores, all lines are alike.
    focus : float or Tensor of shape (groups,)
        Which share of the lines goes where the scores are.
    axis : int
        Which of the spatial axes, from 0.

    Returns
    -------
    Tensor of shape (N, groups, n)
        Ends with 1.

    Examples
    --------
    >>> line_shares(torch.tensor([[[1.0, 0.0, 0.0, 3.0]]]), 0.5, 0)
    tensor([[[0.2500, 0.3750, 0.5000, 1.0000]]])
    """
    n, tiny = score.shape[2 + axis], torch.finfo(score.dtype).tiny
    others = tuple(d for d in range(2, score.ndim) if d != 2 + axis)
    highest = score.amax(tuple(range(2, score.ndim)), keepdim=True).clamp_min(tiny)
    lines = (score / highest).sum(others) if others else score / highest  # [N, g, n]; a sum of scores may be too large
    total = lines.sum(-1, keepdim=True)
    share = torch.where(total > 0, lines / total.clamp_min(tiny), 1 / n)
    weight = torch.as_tensor(focus, dtype=score.dtype, device=score.device).reshape(-1, 1)
    running = ((1 - weight) / n + weight * share).cumsum(-1)
    return running / running[..., -1:]


def draw_lines(
    score: Tensor,
    out: tuple[int, ...],
    focus: float | Tensor = 0.0,
    whole: Sequence[bool] = (False, False, False),
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw lines along every axis, one a stratum [k/m, (k+1)/m] of its density, so that they are sorted.

    Parameters
    ----------
    score : Tensor of shape (N, groups, *spatial)
        Scores, not negative.
    out : tuple of int
        How many lines m each axis keeps.
    focus : float or Tensor of shape (groups,)
        Which share of the lines goes where the scores are.
    whole : sequence of bool
        Which axes keep all their lines.

    Returns
    -------
    Tensor of shape (N, groups, *out)
        Flat indices of the pixels where the lines cross.

    Examples
    --------
    >>> draw_lines(torch.tensor([[[0.0, 0.0, 1.0, 1.0]]]), (2,), focus=0.999)
    tensor([[[2, 3]]])
    """
    N, g, *spatial = score.shape
    drawn: list[Tensor] = []
    for axis, (n, m) in enumerate(zip(spatial, out, strict=True)):
        lines = torch.arange(m, device=score.device).expand(N, g, -1)
        if not whole[axis]:
            F = line_shares(score, focus, axis)
            marks = (lines + uniform((N, g, m), F, generator)) / m
            lines = torch.searchsorted(F, marks, right=True).clamp_max(n - 1)
        drawn.append(lines)
    return crossings(drawn, tuple(spatial))


def crossings(lines: Sequence[Tensor], spatial: tuple[int, ...]) -> Tensor:
    """Flat indices of the pixels where lines cross.

    Parameters
    ----------
    lines : one Tensor of shape (..., m) an axis
        Which lines of each axis.
    spatial : tuple of int
        How many lines each axis has.

    Returns
    -------
    Tensor of shape (..., *out)

    Examples
    --------
    >>> crossings([torch.tensor([0, 2]), torch.tensor([1, 3])], (3, 4))
    tensor([[ 1,  3],
            [ 9, 11]])
    """
    flat = lines[0]
    for axis in range(1, len(lines)):
        line = lines[axis]
        flat = flat[..., None] * spatial[axis] + line.reshape(*line.shape[:-1], *[1] * axis, line.shape[-1])
    return flat


def expected_lines(
    x: Tensor,
    score: Tensor,
    out: tuple[int, ...],
    focus: float | Tensor = 0.0,
    whole: Sequence[bool] = (False, False, False),
) -> Tensor:
    """Keep of x what :func:`draw_lines` keeps on average: a small matrix product along every axis.

    R[k, i] = m |[F_(i-1), F_i] cut with [k/m, (k+1)/m]|, and the output is R x along that axis.

    Examples
    --------
    >>> x = torch.tensor([[[1.0, 3.0, 5.0, 7.0]]])
    >>> expected_lines(x, x, (2,))
    tensor([[[2., 6.]]])
    """
    for axis, m in enumerate(out):
        if not whole[axis]:
            x = _along(_overlaps(line_shares(score, focus, axis), m).to(x.dtype), x, axis)
    return x


def _overlaps(F: Tensor, m: int) -> Tensor:
    """Share of every line in every stratum, R of shape (N, groups, m, n)."""
    high = F[..., None, :] * m
    low = torch.cat([torch.zeros_like(F[..., :1]), F[..., :-1]], -1)[..., None, :] * m
    k = torch.arange(m, dtype=F.dtype, device=F.device)[:, None]
    return (torch.minimum(high, k + 1) - torch.maximum(low, k)).clamp_min(0)


def _along(R: Tensor, x: Tensor, axis: int) -> Tensor:
    """Multiply R (N, groups, m, n) along one axis of x (N, C, *spatial), in the layout of x."""
    N, C, *spatial = x.shape
    g, m, n = R.shape[1:]
    before, after = math.prod(spatial[:axis]), math.prod(spatial[axis + 1 :])
    shape = (*spatial[:axis], m, *spatial[axis + 1 :])
    if g == 1 and is_channels_last(x):  # [N, before, n, after * C]
        rows = x.movedim(1, -1).reshape(N, before, n, after * C)
        return (R @ rows).reshape(N, *shape, C).movedim(-1, 1)
    if after == 1:  # rows of numbers, of which each is mixed
        return (x.reshape(N, g, C // g * before, n) @ R.mT).reshape(N, C, *shape)
    rows = x.reshape(N, g, C // g * before, n, after)
    return (R[:, :, None] @ rows).reshape(N, C, *shape)


# Picks


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


def take(x: Tensor, indices: Tensor, window: Window) -> Tensor:
    """Take from x the numbers that `indices` (N, C, *out) names, channel by channel; `window` is where they are from.

    Examples
    --------
    >>> x = torch.arange(8.0).reshape(1, 2, 4)
    >>> take(x, torch.tensor([[[1, 2], [0, 3]]]), Window.of(2, dims=1))
    tensor([[[1., 2.],
             [4., 7.]]])
    """
    tracing = torch.jit.is_tracing()  # type: ignore[no-untyped-call, attr-defined]
    if torch.compiler.is_compiling() or tracing or not (x.requires_grad and torch.is_grad_enabled()):
        return taken(x, indices)
    numbers: Tensor = _Take.apply(x, indices, window)  # type: ignore[no-untyped-call]
    return numbers


def taken(x: Tensor, indices: Tensor) -> Tensor:
    """Numbers of x at flat indices (N, C, *out), channel by channel, in the memory layout of x."""
    if is_channels_last(x):
        rows, order = x.movedim(1, -1).flatten(1, -2), indices.movedim(1, -1)
        return rows.gather(1, order.flatten(1, -2)).reshape(order.shape).movedim(-1, 1)
    return x.flatten(2).gather(2, indices.flatten(2)).reshape(indices.shape)


def scattered(grad: Tensor, indices: Tensor, like: Tensor, window: Window) -> Tensor:
    """Sum numbers (N, C, *out) into zeros like (N, C, *spatial), at flat indices: the transpose of :func:`taken`."""
    if window.dims == 2 and tuple(grad.shape[2:]) == window.out_size(like.shape[2:]):
        sizes = (window.kernel_size, window.stride, window.padding, window.dilation, window.ceil_mode)
        result: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(grad, like, *sizes, indices)
        return result  # torch's own kernel for the same thing, in any layout
    N, C = grad.shape[:2]
    zeros = torch.zeros_like(like).flatten(2)
    return zeros.scatter_add(2, indices.reshape(N, C, -1), grad.reshape(N, C, -1)).reshape(like.shape)


class _Take(torch.autograd.Function):
    """Numbers at indices, whose gradient torch's max pooling knows how to send back."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, indices: Tensor, window: Window) -> Tensor:
        return taken(x, indices)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, indices, ctx.window = inputs
        ctx.save_for_backward(x, indices)
        ctx.save_for_forward(indices)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, indices = ctx.saved_tensors
        return scattered(grad, indices, x, ctx.window), None, None

    @staticmethod
    def jvp(ctx: Any, x: Tensor, *_: None) -> Tensor:
        (indices,) = ctx.saved_tensors
        return taken(x, indices)


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
