"""Pictures of what each pooling looks at: score maps and picked pixels on real test images.

Of every pooling the network with the lowest seed is opened, and what its first pooling layer does to a few test
images is drawn over them, by the same code as ``multipartite explain``.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset
from multipartite.experiments.report.collection import Collection
from multipartite.experiments.report.explanation import look
from multipartite.experiments.run import checkpoint
from multipartite.experiments.run.setup import assemble, prepare
from multipartite.experiments.run.store import Run

__all__ = ["Gallery", "Strip", "gallery"]

Pixels = np.ndarray[Any, Any]  # (H, W, 3) in 0 to 1

_IMAGES = 6
_POOLINGS = 12
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
        strips += _strips(pooling, _restored(run, data, tensors), batch, plain)
    labels = tuple(data.class_names[int(data.test.labels[row])] for row in chosen)
    return Gallery(tuple(strips), labels)


def _restored(run: Run, data: Dataset, tensors: dict[str, Tensor]) -> nn.Module:
    net = assemble(run.config, data)
    checkpoint.restore(tensors, net)
    return net.eval()


def _strips(pooling: str, net: nn.Module, batch: Tensor, plain: list[Any]) -> list[Strip]:
    looks = [look(net, image[None])[1][0] for image in batch]
    strips = []
    if looks[0].kind == "score":
        heat = tuple(_png(_heat(each.score)) for each in looks)
        strips.append(Strip(pooling, "score of every pixel: bright ranks high", heat))
    handed = (_overlay(image, each.picks) for image, each in zip(plain, looks, strict=True))
    return [*strips, Strip(pooling, "what every pixel hands on: black, nothing", tuple(map(_png, handed)))]


def _rgb(image: Tensor) -> Pixels:
    """Turn a uint8 image (C, H, W) of one or three channels into floats (H, W, 3) in 0 to 1."""
    channels = image[:3] if len(image) >= 3 else image[:1].expand(3, -1, -1)
    return channels.permute(1, 2, 0).numpy().astype(np.float32) / 255


def _heat(scores: Tensor) -> Pixels:
    from matplotlib import colormaps

    return colormaps["magma"](scores.sqrt().numpy())[..., :3]


def _overlay(image: Pixels, picks: Tensor) -> Pixels:
    """Lay what the pixels hand on in orange over the dark image; an unpadded convolution shaves the border off."""
    weight = np.zeros(image.shape[:2], np.float32)
    rows, columns = picks.shape
    top, left = ((side - given) // 2 for side, given in zip(image.shape[:2], picks.shape, strict=True))
    weight[top : top + rows, left : left + columns] = (picks / picks.max().clamp_min(1e-12)).clamp(0, 1).numpy()
    ground = 0.3 * image.mean(-1, keepdims=True).repeat(3, -1)
    alpha = weight[..., None]
    return ground * (1 - alpha) + np.array([1.0, 0.62, 0.1], np.float32) * alpha


def _png(picture: Pixels) -> str:
    from PIL import Image

    pixels = (np.clip(picture, 0, 1) * 255).round().astype(np.uint8).repeat(_SCALE, 0).repeat(_SCALE, 1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
