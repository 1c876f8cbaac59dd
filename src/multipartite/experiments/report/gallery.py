"""Pictures of what each pooling looks at: score maps and picked pixels on real test images.

Of every pooling the network with the lowest seed is opened, and what its first pooling layer does to a few test
images is drawn over them, by the same code as ``multipartite explain``.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset
from multipartite.experiments.report.collection import Collection
from multipartite.experiments.report.explanation import Look, Map, look
from multipartite.experiments.run import checkpoint
from multipartite.experiments.run.setup import assemble, prepare
from multipartite.experiments.run.store import Run

__all__ = ["Gallery", "Strip", "gallery"]

Pixels = np.ndarray[Any, Any]  # (H, W, 3) in 0 to 1

_IMAGES = 6
_POOLINGS = 12
_ORANGE = np.array([1.0, 0.62, 0.1], np.float32)
_SCALE = 3  # screen pixels an image pixel, so that grids stay sharp when zoomed


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
    strips = [Strip("test images", "as the network gets them", tuple(map(_png, plain)))]
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
        strips.append(Strip(pooling, note, tuple(_png(_heat(each.score.values)) for each in first)))
    handed = (_overlay(image, each.picks) for image, each in zip(plain, first, strict=True))
    strips.append(Strip(pooling, "what every pixel hands on: black, nothing", tuple(map(_png, handed))))
    kept = next((number for number, each in reversed(list(enumerate(looks[0]))) if each.rows), None)
    if kept is not None:
        note = f"rows and columns that stay in {looks[0][kept].layer}, on average"
        grids = (_grid(image, each[kept]) for image, each in zip(plain, looks, strict=True))
        strips.append(Strip(pooling, note, tuple(_png(grid, 1) for grid in grids)))
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


def _png(picture: Pixels, scale: int = _SCALE) -> str:
    from PIL import Image

    pixels = (np.clip(picture, 0, 1) * 255).round().astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
