"""What the pooling layers of a network do to one image: scores, picks, class evidence; numbers and a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data.dataset import Dataset
from multipartite.experiments.report.lettering import columns, lettering
from multipartite.experiments.run.networks import pooling_layers
from multipartite.pooling.choose import expected_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Explanation", "Look", "Map", "draw", "explain", "look"]

_INK, _QUIET, _ACCENT, _WRONG, _LINES = "#1d2733", "#9aa7b4", "#e4572e", "#b3243b", "#2563eb"
_SHOWN = 10  # classes in the bars

Place: TypeAlias = tuple[float, float]  # of a map on the image: origin and pitch


@dataclass(frozen=True)
class Map:
    """A map (h, w) over the image: the centre of its pixel (i, j) lies at image pixel origin + pitch * (i, j).

    Examples
    --------
    >>> Map(torch.zeros(4, 4), 0.5, 2.0).extent
    (-0.5, 7.5, 7.5, -0.5)
    """

    values: Tensor
    origin: float
    pitch: float

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Where it lies on the image: left, right, bottom, top."""
        height, width = self.values.shape
        before = self.origin - self.pitch / 2
        return before, before + width * self.pitch, before + height * self.pitch, before


@dataclass(frozen=True)
class Look:
    """One pooling layer on one image.

    Attributes
    ----------
    layer : str
        Its name in the network.
    kind : {"score", "energy"}
        What `score` shows: the score of a supervised layer, the mean over its groups; the energy of the
        activations for any other.
    steps : str
        The two steps of a supervised layer in words, what it gathers and how it chooses; empty for any other.
    score : Map
        In [0, 1]; of the gathered map, where the layer gathers.
    picks : Map
        Activation that a pixel hands on, summed over the channels: zero where nothing is picked. The sum over all
        pixels is that of the pooled map, whatever the pooling.
    rows, columns : tuple of float
        Where on the image the rows and columns lie that a layer of lines keeps, on average over what it may draw;
        empty for any other.
    """

    layer: str
    kind: str
    steps: str
    score: Map
    picks: Map
    rows: tuple[float, ...] = ()
    columns: tuple[float, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """One image through one network: the image (C, H, W), its pooling layers, the probabilities (classes,)."""

    image: Tensor
    label: int
    class_names: tuple[str, ...]
    probabilities: Tensor
    looks: list[Look]


def explain(net: nn.Module, data: Dataset, index: int) -> Explanation:
    """Send the test image `index` through a trained network in evaluation mode, and look.

    Examples
    --------
    >>> from multipartite.experiments.run.training import assemble, prepare
    >>> from multipartite.experiments.run.config import RunConfig
    >>> config = RunConfig("digits")
    >>> data = prepare(config)
    >>> seen = explain(assemble(config, data).eval(), data, 7)
    >>> [each.layer for each in seen.looks], tuple(seen.looks[0].score.values.shape)
    (['pool1', 'pool2'], (8, 8))
    """
    count = len(data.test)
    if not 0 <= index < count:
        raise InputError(f"index must lie in [0, {count}), the test images of {data.name}, got {index}")
    image = data.test.images[index]
    logits, looks = look(net, data.normalise(image[None]))
    return Explanation(
        image=image,
        label=int(data.test.labels[index]),
        class_names=data.class_names,
        probabilities=logits[0].softmax(0),
        looks=looks,
    )


def look(net: nn.Module, x: Tensor) -> tuple[Tensor, list[Look]]:
    """Send one image (1, C, H, W) through any network, and look at its pooling layers in the order of their turn.

    Where a map lies on the image follows from the windows of the layers before it; maps of one size, as they are
    added or joined by skip connections, lie alike.
    """
    met: dict[str, tuple[Tensor, Place]] = {}
    places: dict[tuple[int, ...], Place] = {tuple(x.shape[2:]): (0.0, 1.0)}

    def place(size: tuple[int, ...]) -> Place:
        pitch = x.shape[2] / size[0]  # where nobody told: spread over the whole image
        return places.get(size, ((pitch - 1) / 2, pitch))

    def pooled(name: str) -> Callable[..., None]:
        def note(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
            met.setdefault(name, (given[0].detach(), place(tuple(given[0].shape[2:]))))

        return note

    def moved(layer: nn.Module, given: tuple[Any, ...], result: Any) -> None:
        if given and isinstance(given[0], Tensor) and isinstance(result, Tensor) and result.ndim == 4:
            before, after = tuple(given[0].shape[2:]), tuple(result.shape[2:])
            places[after] = _downwards(layer, before[0] / after[0], *place(before))

    layers = {found.name: found.layer for found in pooling_layers(net, x)}
    inside = {id(part) for layer in layers.values() for part in layer.modules()} - {id(e) for e in layers.values()}
    handles = [layer.register_forward_pre_hook(pooled(name)) for name, layer in layers.items()]
    windows = [e for e in net.modules() if _has_window(e) and e not in layers.values() and id(e) not in inside]
    handles += [layer.register_forward_hook(moved) for layer in (*windows, *layers.values())]
    try:
        with torch.no_grad():
            logits = net(x)
    finally:
        for handle in handles:
            handle.remove()
    if not met:
        raise InputError("this network has no pooling layer to look at: only max pooling and what replaces it counts")
    return logits, [_look(name, layers[name], *seen) for name, seen in met.items()]


def _look(name: str, layer: nn.Module, x: Tensor, place: Place) -> Look:
    supervised: Any = layer if hasattr(layer, "score") else None
    gather = getattr(layer, "gather", None)
    scored = _downwards(layer, 1.0, *place)[0] if gather else place[0], place[1]  # the gathered map moves by one
    rows, columns = _lines(supervised, x) if getattr(layer, "assignment", None) == "lines" else ((), ())
    return Look(
        layer=name,
        kind="score" if supervised else "energy",
        steps=f"gather {gather or 'nothing'}, choose {layer.assignment}" if hasattr(layer, "assignment") else "",
        score=Map(_score(supervised, x), *scored),
        picks=Map(_picks(layer, x), *place),
        rows=tuple(scored[0] + scored[1] * line for line in rows),
        columns=tuple(scored[0] + scored[1] * line for line in columns),
    )


@torch.no_grad()
def _score(supervised: Any, x: Tensor) -> Tensor:
    maps = supervised.score(x) if supervised else x.square().sum(1, keepdim=True)  # [1, groups, h, w]
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    scaled = (maps - low) / (high - low).clamp_min(torch.finfo(maps.dtype).tiny)
    mean: Tensor = scaled.mean((0, 1))
    return mean


def _picks(layer: nn.Module, x: Tensor) -> Tensor:
    """Gradient times activation: a pooling is linear in x once its weights are settled."""
    x = x.clone().requires_grad_()
    with torch.enable_grad():
        (weight,) = torch.autograd.grad(layer(x).sum(), x)
    handed: Tensor = (weight * x).detach().sum((0, 1))
    return handed


@torch.no_grad()
def _lines(layer: Any, x: Tensor) -> tuple[list[float], list[float]]:
    """Mean place of every row and column that stays, in pixels of the scored map; the mean over the groups."""
    scores = layer.score(x)  # [1, groups, h, w]
    focus = (0.0 if layer.trust is None else layer.trust) if layer.focus == "auto" else layer.focus
    whole = [layer.gather is not None and stride == 1 for stride in layer.window.stride]
    out = layer.window.out_size(x.shape[2:])
    found = []
    for axis in (2, 3):
        shape = [scores.shape[axis] if d == axis else 1 for d in range(4)]
        ramp = torch.arange(scores.shape[axis], dtype=scores.dtype).reshape(shape).expand_as(scores)
        kept = expected_lines(ramp, scores, out, focus, whole)  # [1, groups, m, n], alike along the other axis
        found.append(kept.mean((0, 1, 5 - axis)).tolist())
    return found[0], found[1]


def _has_window(layer: nn.Module) -> bool:
    return hasattr(getattr(layer, "window", layer), "kernel_size")


def _downwards(layer: nn.Module, ratio: float, origin: float, pitch: float) -> Place:
    """Place of the pixels that come out of a convolution or pooling, given that of those that go in.

    Where a layer does not tell its window, `ratio`, the side of its input over that of its output, must do.
    """
    if not _has_window(layer):
        return origin + pitch * (ratio - 1) / 2, pitch * ratio
    window = getattr(layer, "window", layer)
    kernel, stride, padding, dilation = (
        _one(getattr(window, name, 1)) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    return origin + pitch * (dilation * (kernel - 1) / 2 - padding), pitch * stride


def _one(size: int | tuple[int, ...]) -> int:
    return size if isinstance(size, int) else size[0]


def draw(seen: Explanation, title: str = "") -> Figure:
    """Draw an explanation, 16 by 9.

    Parameters
    ----------
    seen : Explanation
        What :func:`explain` gave.
    title : str
        Above everything.

    Examples
    --------
    >>> import torch
    >>> flat = torch.zeros(1, 4, 4, dtype=torch.uint8)
    >>> flat_map = Map(torch.rand(4, 4), 0.0, 1.0)
    >>> look = Look("pool1", "score", "gather max, choose lines", flat_map, flat_map, rows=(0.5, 2.5), columns=(1.0,))
    >>> figure = draw(Explanation(flat, 0, ("cat", "dog"), torch.tensor([0.9, 0.1]), [look]), "max")
    >>> len(figure.axes)
    4
    """
    with lettering([title, *seen.class_names]) as legible:
        names = tuple(legible(name, f"class {label}") for label, name in enumerate(seen.class_names))
        return _slide(replace(seen, class_names=names), legible(title))


def _slide(seen: Explanation, title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpecFromSubplotSpec

    figure = Figure(figsize=(12.8, 7.2), dpi=150, facecolor="white")
    layers = len(seen.looks)
    names = 0.065 * min(18, max(map(columns, seen.class_names))) + 0.1  # room for the names of the classes
    widths = [1.25, 0.05, 1.15 * layers, names, 1.2]
    grid = figure.add_gridspec(1, 5, width_ratios=widths, left=0.03, right=0.97, top=0.82, bottom=0.05, wspace=0.06)
    size = 20 if len(title) < 70 else 13
    figure.text(0.03, 0.93, "\n".join(textwrap.wrap(title, 108)), fontsize=size, fontweight="bold", color=_INK)
    figure.text(0.03, 0.885, _verdict(seen), fontsize=14, color=_INK if _right(seen) else _WRONG)

    axes = figure.add_subplot(grid[0, 0])
    _draw_image(axes, seen)
    axes.set_title(f"image: {seen.class_names[seen.label]}", fontsize=14, color=_INK, pad=8)

    maps = GridSpecFromSubplotSpec(2, layers, grid[0, 2], wspace=0.06, hspace=0.06)
    for i, look in enumerate(seen.looks):
        above, below = figure.add_subplot(maps[0, i]), figure.add_subplot(maps[1, i])
        _draw_score(above, seen, look)
        _draw_picks(below, seen, look)
        above.set_anchor("S")  # the two rows meet in the middle
        below.set_anchor("N")
        if i == 0:
            above.set_ylabel(look.kind, fontsize=14, color=_INK)
            below.set_ylabel("handed on", fontsize=14, color=_INK)
    _draw_classes(figure.add_subplot(grid[0, 4]), seen)
    return figure


def _right(seen: Explanation) -> bool:
    return int(seen.probabilities.argmax()) == seen.label


def _verdict(seen: Explanation) -> str:
    best = int(seen.probabilities.argmax())
    share = f"{100 * float(seen.probabilities[best]):.1f}%"
    said = f"the network says {seen.class_names[best]} ({share})"
    return said if _right(seen) else f"{said}, the label says {seen.class_names[seen.label]}"


def _frame(axes: Axes, seen: Explanation) -> None:
    height, width = seen.image.shape[1:]
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), xticks=[], yticks=[], aspect="equal")
    for side in axes.spines.values():
        side.set_color(_QUIET)


def _draw_image(axes: Axes, seen: Explanation, alpha: float = 1.0) -> None:
    pixels = seen.image.movedim(0, -1).numpy()
    if pixels.shape[-1] == 3:
        axes.imshow(pixels, alpha=alpha)
    else:
        axes.imshow(pixels[..., 0], cmap="gray_r", alpha=alpha, vmin=0, vmax=max(1, int(pixels.max())))
    _frame(axes, seen)


def _draw_score(axes: Axes, seen: Explanation, look: Look) -> None:
    values = look.score.values.numpy()
    axes.imshow(values, cmap="magma", extent=look.score.extent, interpolation="nearest", vmin=0, vmax=1)
    axes.set_facecolor("black")
    _draw_lines(axes, look, "white")
    _frame(axes, seen)
    height, width = values.shape
    axes.set_title(f"{look.layer}, {height} x {width}\n", fontsize=14, color=_INK, pad=3)
    axes.text(0.5, 1.02, look.steps, fontsize=10, color=_INK, ha="center", va="bottom", transform=axes.transAxes)


def _draw_picks(axes: Axes, seen: Explanation, look: Look) -> None:
    _draw_image(axes, seen, alpha=0.35)
    _draw_lines(axes, look, _LINES)
    picks = look.picks
    share = picks.values.clamp_min(0).numpy() / max(float(picks.values.max()), 1e-30)
    rows, columns = np.nonzero(share > 0.003)
    x, y = (picks.origin + picks.pitch * place for place in (columns, rows))
    across = 165.0 * picks.pitch / max(seen.image.shape[1:])  # points across one pixel of the map, about
    axes.scatter(x, y, s=0.8 * across**2 * share[rows, columns], color=_ACCENT, linewidths=0, alpha=0.9)


def _draw_lines(axes: Axes, look: Look, colour: str) -> None:
    """Draw the rows and columns that stay as a grid over the map."""
    left, right, bottom, top = look.score.extent
    axes.hlines(look.rows, left, right, colors=colour, linewidths=0.9, alpha=0.75)
    axes.vlines(look.columns, top, bottom, colors=colour, linewidths=0.9, alpha=0.75)


def _draw_classes(axes: Axes, seen: Explanation) -> None:
    order = seen.probabilities.argsort(descending=True)[:_SHOWN].tolist()
    if seen.label not in order:
        order[-1] = seen.label
    if len(seen.class_names) <= _SHOWN:
        order = sorted(order)
    values = [100 * float(seen.probabilities[c]) for c in order]
    colours = [_ACCENT if c == seen.label else _QUIET for c in order]
    places = range(len(order))
    axes.barh(places, values, color=colours, height=0.7)
    for place, value in zip(places, values, strict=True):
        axes.text(value + 2, place, f"{value:.1f}", va="center", fontsize=11, color=_INK)
    axes.set_yticks(places, [seen.class_names[c][:18] for c in order], fontsize=12, color=_INK)
    axes.set(xlim=(0, 118), ylim=(len(order) - 0.4, -0.6), xticks=[])
    axes.set_title("class evidence, %", fontsize=14, color=_INK, pad=8)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(_QUIET)
    axes.tick_params(length=0)
