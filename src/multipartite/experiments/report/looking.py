"""Look inside a network: what its pooling layers score, which pixels they pick, what the classes get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset

__all__ = ["Explanation", "Look", "explain", "look"]


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


def explain(net: nn.Sequential, data: Dataset, index: int) -> Explanation:
    """Send the test image `index` through a trained network in evaluation mode, and look.

    Examples
    --------
    >>> from multipartite.experiments.run.assembly import assemble, prepare
    >>> from multipartite.experiments.run.runs import RunConfig
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


def look(net: nn.Sequential, x: Tensor) -> tuple[Tensor, list[Look]]:
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
