"""What the pooling layers of a network do to one image: scores, picks, class evidence; numbers and a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset
from multipartite.experiments.report.lettering import columns, lettering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Explanation", "Look", "draw", "explain", "look"]

_INK, _QUIET, _ACCENT, _WRONG = "#1d2733", "#9aa7b4", "#e4572e", "#b3243b"
_SHOWN = 10  # classes in the bars


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
    score : Tensor of shape (h, w)
        In [0, 1].
    picks : Tensor of shape (h, w)
        Activation that a pixel hands on, summed over the channels: zero where nothing is picked. The sum over all
        pixels is that of the pooled map, whatever the pooling.
    origin, pitch : float
        The centre of pixel (i, j) lies at image pixel origin + pitch * (i, j).
    """

    layer: str
    kind: str
    score: Tensor
    picks: Tensor
    origin: float
    pitch: float


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
    >>> from multipartite.experiments.run.setup import assemble, prepare
    >>> from multipartite.experiments.run.config import RunConfig
    >>> config = RunConfig("digits")
    >>> data = prepare(config)
    >>> seen = explain(assemble(config, data).eval(), data, 7)
    >>> [each.layer for each in seen.looks], tuple(seen.looks[0].score.shape)
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
    """Send one image (1, C, H, W) through, and look at every layer whose name begins with ``pool``."""
    looks = []
    origin, pitch = 0.0, 1.0
    x = x.detach()
    for name, layer in net.named_children():
        if name.startswith("pool"):
            kind = "score" if hasattr(layer, "score") else "energy"
            looks.append(Look(name, kind, _score(layer, x), _picks(layer, x), origin, pitch))
        origin, pitch = _downwards(layer, origin, pitch)
        with torch.no_grad():
            x = layer(x)
    return x, looks


def _score(layer: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        supervised: Any = layer if hasattr(layer, "score") else None
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


def _downwards(layer: nn.Module, origin: float, pitch: float) -> tuple[float, float]:
    """Place of the pixels that come out of a convolution or pooling, given that of those that go in."""
    window = getattr(layer, "window", layer)
    if not hasattr(window, "kernel_size"):
        return origin, pitch
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
    >>> look = Look("pool1", "score", torch.rand(4, 4), torch.rand(4, 4), 0.0, 1.0)
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
    figure.text(0.03, 0.93, title, fontsize=20, fontweight="bold", color=_INK)
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


def _extent(look: Look) -> tuple[float, float, float, float]:
    """Where the map lies on the image: left, right, bottom, top."""
    height, width = look.score.shape
    before = look.origin - look.pitch / 2
    return before, before + width * look.pitch, before + height * look.pitch, before


def _draw_score(axes: Axes, seen: Explanation, look: Look) -> None:
    axes.imshow(look.score.numpy(), cmap="magma", extent=_extent(look), interpolation="nearest", vmin=0, vmax=1)
    axes.set_facecolor("black")
    _frame(axes, seen)
    height, width = look.score.shape
    axes.set_title(f"{look.layer}, {height} x {width}", fontsize=14, color=_INK)


def _draw_picks(axes: Axes, seen: Explanation, look: Look) -> None:
    _draw_image(axes, seen, alpha=0.35)
    share = look.picks.clamp_min(0).numpy() / max(float(look.picks.max()), 1e-30)
    rows, columns = np.nonzero(share > 0.003)
    x, y = (look.origin + look.pitch * place for place in (columns, rows))
    across = 165.0 * look.pitch / max(seen.image.shape[1:])  # points across one pixel of the map, about
    axes.scatter(x, y, s=0.8 * across**2 * share[rows, columns], color=_ACCENT, linewidths=0, alpha=0.9)


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
