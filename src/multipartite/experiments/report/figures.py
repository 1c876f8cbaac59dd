"""Pictures: errors and curves of a report, ranks and cost of a summary, and what each pooling looks at.

For the last, the gallery, the network with the lowest seed of every pooling is opened, and what its first pooling
layer does to a few test images is drawn over them, by the same code as ``multipartite explain``.
"""

from __future__ import annotations

import base64
import io
import re
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data.dataset import Dataset
from multipartite.experiments.report.collection import Collection
from multipartite.experiments.report.explanation import Look, Map, look
from multipartite.experiments.report.tables import METRICS, Curve, Row
from multipartite.experiments.run import checkpoint
from multipartite.experiments.run.store import Run
from multipartite.experiments.run.training import assemble, prepare

__all__ = ["Gallery", "Strip", "cost_figure", "curve_figure", "error_figure", "gallery", "rank_figure"]

Pixels = np.ndarray[Any, Any]  # (H, W, 3) in 0 to 1

_IMAGES = 6
_POOLINGS = 12
_ORANGE = np.array([1.0, 0.62, 0.1], np.float32)
_SCALE = 3  # screen pixels an image pixel, so that grids stay sharp when zoomed


def error_figure(rows: Sequence[Row]) -> bytes:
    """Draw training and test error of every pooling, from ring to disc."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.2 + 0.45 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        colour = _colour(place)
        axes.plot([row.train.mean, row.test.mean], [place, place], color=colour, alpha=0.4, linewidth=3)
        axes.plot(row.train.values, [place] * row.train.n, "o", color=colour, alpha=0.3, markersize=4)
        axes.plot(row.test.values, [place] * row.test.n, "o", color=colour, alpha=0.3, markersize=4)
        axes.plot(row.train.mean, place, "o", color=colour, fillstyle="none", markersize=9)
        axes.plot(row.test.mean, place, "o", color=colour, markersize=9)
    axes.set_yticks(range(len(rows)), [_broken(row.pooling) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("error, %: training (ring) to test (disc); small dots are seeds")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.2)
    return _png(figure)


def curve_figure(drawn: Sequence[Curve]) -> bytes:
    """Draw the curves over the epochs, a panel a metric."""
    from matplotlib.figure import Figure

    poolings = list(dict.fromkeys(curve.pooling for curve in drawn))
    metrics = list(dict.fromkeys(curve.metric for curve in drawn))
    figure = Figure(figsize=(4.4 * len(metrics), 3.8 + 0.1 * len(poolings)), layout="constrained")
    for axes, metric in zip(figure.subplots(1, len(metrics)), metrics, strict=True):
        for curve in (curve for curve in drawn if curve.metric == metric):
            colour = _colour(poolings.index(curve.pooling))
            epochs = range(1, len(curve.train) + 1)
            axes.plot(epochs, curve.train, "--", color=colour, linewidth=1, alpha=0.7)
            name = _plain(curve.pooling)
            if curve.validation:
                axes.plot(epochs, curve.validation, color=colour, label=name)
            axes.plot(len(curve.train), curve.test, "D", color=colour, markersize=5)
            if not curve.validation:
                axes.plot([], [], color=colour, label=name)
        axes.set(xlabel="epoch", title=METRICS[metric])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    handles, labels = axes.get_legend_handles_labels()
    columns = 3 if max(map(len, labels), default=0) < 60 else 2
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return _png(figure)


def rank_figure(ranks: Mapping[str, Sequence[float]], critical: float, groups: Sequence[tuple[int, int]]) -> bytes:
    """Draw a diagram of critical differences: mean ranks, and bars over what is not told apart.

    Parameters
    ----------
    ranks : mapping of pooling to ranks
        One a comparison; the lowest mean first.
    critical : float
        Difference from which two mean ranks are told apart.
    groups : sequence of (first, last)
        Places that are not told apart.
    """
    from matplotlib.figure import Figure

    k, above = len(ranks), 0.55 + 0.28 * len(groups)
    figure = Figure(figsize=(8, 1.1 + 0.42 * k + 0.2 * len(groups)), layout="constrained")
    axes = figure.subplots()
    means = [statistics.fmean(each) for each in ranks.values()]
    for place, (each, mean) in enumerate(zip(ranks.values(), means, strict=True)):
        colour = _colour(place)
        axes.plot([mean, mean], [-above, place], color=colour, alpha=0.35, linewidth=1)
        axes.plot(each, [place] * len(each), "o", color=colour, alpha=0.3, markersize=4)
        axes.plot(mean, place, "o", color=colour, markersize=9)
        axes.annotate(f"{mean:.2f}", (mean, place), (8, 5), textcoords="offset points", fontsize=8)
    for number, (first, last) in enumerate(groups):
        line = -above + 0.35 + 0.28 * number
        axes.plot([means[first] - 0.04, means[last] + 0.04], [line, line], color="black", linewidth=4)
    axes.set_yticks(range(k), [_broken(pooling) for pooling in ranks], fontsize=8)
    axes.set(xlim=(0.9, k + 0.1), ylim=(k - 0.5, -above), xticks=range(1, k + 1))
    axes.xaxis.tick_top()
    axes.set_title(f"mean rank; the critical difference is {critical:.2f}", fontsize=10)
    axes.spines[["bottom", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return _png(figure)


def cost_figure(places: Mapping[str, tuple[float, float]]) -> bytes:
    """Draw error against training time, each as a multiple of max pooling's; numbers are those of the legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.6 + 0.2 * len(places)), layout="constrained")
    axes = figure.subplots()
    for place, (pooling, (time, error)) in enumerate(places.items()):
        label = f"{place + 1} {_plain(pooling)}"
        axes.plot(time, error, "o", color=_colour(place), markersize=15, label=label)
        axes.annotate(str(place + 1), (time, error), color="white", ha="center", va="center", fontsize=8, weight="bold")
    axes.axhline(1, color="grey", linewidth=0.8, zorder=0)
    axes.axvline(1, color="grey", linewidth=0.8, zorder=0)
    axes.set(xlabel="training time, max = 1", ylabel="error, max = 1")
    axes.margins(0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    figure.legend(loc="outside lower center", ncols=1, frameon=False, markerscale=0.5, fontsize=9)
    return _png(figure)


def _colour(place: int) -> str:
    return f"C{place % 10}"


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # no mathematics in names


def _broken(text: str, width: int = 40) -> str:
    """Break a long name into lines: where another place of the network begins, and between options.

    Examples
    --------
    >>> print(_broken("max|multipartite:assignment=lines,criterion=energy,focus=0.5"))
    max|
    multipartite:assignment=lines,
    criterion=energy,focus=0.5
    """
    lines: list[str] = []
    for part in re.findall(r"[^|,]+[|,]?", _plain(text)):
        if lines and len(lines[-1] + part) <= width and not lines[-1].endswith("|"):
            lines[-1] += part
        else:
            lines.append(part)
    return "\n".join(lines)


def _png(figure: object) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})  # type: ignore[attr-defined]
    return buffer.getvalue()


@dataclass(frozen=True)
class Strip:
    """One line of pictures, as PNG data addresses, with what they show."""

    title: str
    note: str
    images: tuple[str, ...]


@dataclass(frozen=True)
class Gallery:
    """All strips; where there are none, `reason` says why."""

    strips: tuple[Strip, ...] = ()
    labels: tuple[str, ...] = ()
    reason: str = ""


def gallery(collection: Collection, poolings: Sequence[str]) -> Gallery:
    """Draw the strips of the first of `poolings` that still have a checkpoint."""
    nets = []
    for pooling in poolings[:_POOLINGS]:
        runs = collection.runs[pooling]
        run = runs[min(runs)]
        try:
            if (found := checkpoint.load(run.path)) is not None:
                nets.append((pooling, run, found[0]))
        except InputError:
            continue  # a damaged checkpoint costs its pictures, not the report
    if not nets:
        return Gallery(reason="the runs were kept without their weights")
    try:
        data = prepare(nets[0][1].config)
    except (InputError, OSError) as error:
        return Gallery(reason=f"the data set could not be opened: {error}")
    chosen = [int((data.test.labels == c).nonzero()[0]) for c in data.test.labels.unique()[:_IMAGES]]
    batch = data.normalise(data.test.images[chosen])
    plain = [_rgb(image) for image in data.test.images[chosen]]
    strips = [Strip("test images", "as the network gets them", tuple(map(_address, plain)))]
    for pooling, run, tensors in nets:
        with suppress(InputError):  # a network that cannot be opened costs its pictures, not the report
            strips += _strips(pooling, _restored(run, data, tensors), batch, plain)
    labels = tuple(data.class_names[int(data.test.labels[row])] for row in chosen)
    return Gallery(tuple(strips), labels)


def _restored(run: Run, data: Dataset, tensors: dict[str, Tensor]) -> nn.Module:
    net = assemble(run.config, data)
    checkpoint.restore(tensors, net)
    return net.eval()


def _strips(pooling: str, net: nn.Module, batch: Tensor, plain: list[Pixels]) -> list[Strip]:
    looks = [look(net, image[None])[1] for image in batch]  # [image][layer]
    first = [each[0] for each in looks]
    strips = []
    if first[0].kind == "score":
        note = "score of every pixel: bright ranks high"
        strips.append(Strip(pooling, note, tuple(_address(_heat(each.score.values)) for each in first)))
    handed = (_overlay(image, each.picks) for image, each in zip(plain, first, strict=True))
    strips.append(Strip(pooling, "what every pixel hands on: black, nothing", tuple(map(_address, handed))))
    kept = next((number for number, each in reversed(list(enumerate(looks[0]))) if each.rows), None)
    if kept is not None:
        note = f"rows and columns that stay in {looks[0][kept].layer}, on average"
        grids = (_grid(image, each[kept]) for image, each in zip(plain, looks, strict=True))
        strips.append(Strip(pooling, note, tuple(_address(grid, 1) for grid in grids)))
    return strips


def _rgb(image: Tensor) -> Pixels:
    """Turn a uint8 image (C, H, W) of one or three channels into floats (H, W, 3) in 0 to 1."""
    channels = image[:3] if len(image) >= 3 else image[:1].expand(3, -1, -1)
    return channels.permute(1, 2, 0).numpy().astype(np.float32) / 255


def _heat(scores: Tensor) -> Pixels:
    from matplotlib import colormaps

    return colormaps["magma"](scores.sqrt().numpy())[..., :3]


def _overlay(image: Pixels, picks: Map) -> Pixels:
    """Lay what the pixels hand on in orange over the dark image, where the map lies on it."""
    weight = np.zeros(image.shape[:2], np.float32)
    rows, columns = (
        np.round(picks.origin + picks.pitch * np.arange(n)).astype(int).clip(0, side - 1)
        for n, side in zip(picks.values.shape, image.shape[:2], strict=True)
    )
    share = (picks.values / picks.values.max().clamp_min(1e-12)).clamp(0, 1).numpy()
    np.maximum.at(weight, (rows[:, None], columns[None]), share)
    ground = 0.3 * image.mean(-1, keepdims=True).repeat(3, -1)
    alpha = weight[..., None]
    return ground * (1 - alpha) + _ORANGE * alpha


def _grid(image: Pixels, kept: Look) -> Pixels:
    """Draw the lines that stay over the image, one screen pixel wide."""
    screen = 0.6 * image.repeat(_SCALE, 0).repeat(_SCALE, 1)
    for axis, lines in enumerate((kept.rows, kept.columns)):
        side = screen.shape[axis]
        places = [min(max(round((line + 0.5) * _SCALE - 0.5), 0), side - 1) for line in lines]
        screen[(slice(None),) * axis + (places,)] = _ORANGE
    return screen


def _address(picture: Pixels, scale: int = _SCALE) -> str:
    from PIL import Image

    pixels = (np.clip(picture, 0, 1) * 255).round().astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
