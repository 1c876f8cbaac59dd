"""The networks of the experiments, with any pooling in every pooling place.

`lenet` and `zeiler` are those of the paper's experiments, `small` serves images too small for them. Initial
weights depend on the seed alone: two networks that differ in their pooling start equal, bit for bit.
"""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from multipartite import pooling
from multipartite.errors import InputError, unknown
from multipartite.pooling.learning import SupervisedLayer
from multipartite.words import Places, Word

__all__ = ["SCHEDULES", "Recipe", "available", "build", "initialise", "parse", "recipe"]

Layers = OrderedDict[str, nn.Module]
Pool = Callable[[int, int, int], nn.Module]  # (channels, kernel size, stride) -> layer

SCHEDULES: dict[str, Callable[[float], float]] = {  # share of the run that is done -> factor of the learning rate
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
    "linear": lambda done: 1.0 - 0.99 * done,  # down to a hundredth, after Zeiler and Fergus
}


@dataclass(frozen=True)
class Recipe:
    """How a network is trained unless told otherwise; docs/training.md names the sources."""

    lr: float
    momentum: float
    weight_decay: float
    schedule: str


@dataclass(frozen=True)
class _Network:
    features: Callable[[int, int, Pool], Layers]  # (channels, width, pool) -> layers up to the flattened vector
    width: int  # maps of the first convolution
    hidden: int  # units between the features and the classes, 0 for none
    pools: int  # how many places there are for a pooling
    smallest: int  # side of the smallest image that leaves one pixel
    recipe: Recipe


def _lenet(channels: int, width: int, pool: Pool) -> Layers:
    maps = width * 5 // 2
    return OrderedDict(
        conv1=nn.Conv2d(channels, width, 5),
        relu1=nn.ReLU(),
        pool1=pool(width, 2, 2),
        conv2=nn.Conv2d(width, maps, 5),
        relu2=nn.ReLU(),
        pool2=pool(maps, 2, 2),
    )


def _zeiler(channels: int, width: int, pool: Pool) -> Layers:
    layers: Layers = OrderedDict()
    for i in (1, 2, 3):
        layers[f"conv{i}"] = nn.Conv2d(channels if i == 1 else width, width, 5, padding=2)
        layers[f"relu{i}"] = nn.ReLU()
        layers[f"pool{i}"] = pool(width, 3, 2)
    return layers


def _small(channels: int, width: int, pool: Pool) -> Layers:
    return OrderedDict(
        conv1=nn.Conv2d(channels, width, 3, padding=1),
        relu1=nn.ReLU(),
        pool1=pool(width, 2, 2),
        conv2=nn.Conv2d(width, 2 * width, 3, padding=1),
        relu2=nn.ReLU(),
        pool2=pool(2 * width, 2, 2),
    )


_NETWORKS = {
    "lenet": _Network(_lenet, 20, 500, 2, 16, Recipe(0.02, 0.9, 5e-4, "linear")),
    "small": _Network(_small, 32, 0, 2, 4, Recipe(0.05, 0.9, 5e-4, "linear")),
    "zeiler": _Network(_zeiler, 64, 0, 3, 15, Recipe(0.01, 0.9, 1e-3, "linear")),
}


def available() -> list[str]:
    """Names that `build` knows, beside ``auto``.

    Examples
    --------
    >>> available()
    ['lenet', 'small', 'zeiler']
    """
    return sorted(_NETWORKS)


def parse(word: str, channels: int = 1, size: tuple[int, int] = (28, 28)) -> tuple[str, int]:
    """Split ``name[:width=maps]`` into name and width; ``auto`` chooses the name by the images.

    Parameters
    ----------
    word : str
        Such as ``zeiler:width=32``; ``auto`` is `small` below 16 pixels a side, else `lenet` for one channel
        and `zeiler` for more.
    channels, size : int, (int, int)
        Of the images.

    Examples
    --------
    >>> parse("zeiler:width=32"), parse("auto", 1, (8, 8))
    (('zeiler', 32), ('small', 32))
    """
    asked = Word.parse(word)
    name = asked.name
    if name == "auto":
        large = "lenet" if channels == 1 else "zeiler"
        name = large if min(size) >= _NETWORKS[large].smallest else "small"
    if name not in _NETWORKS:
        raise unknown("network", name, ["auto", *available()])
    options = dict(asked.options)
    width = options.pop("width", _NETWORKS[name].width)
    for option in options:
        raise unknown(f"option of network {name!r}:", option, ["width"])
    if not isinstance(width, int) or width < 2:
        raise InputError(f"width of network {name!r} must be a whole number of maps from 2, got {width!r}")
    return name, width


def recipe(word: str, channels: int = 1, size: tuple[int, int] = (28, 28)) -> Recipe:
    """How the network called `word` is trained unless told otherwise.

    Examples
    --------
    >>> recipe("lenet").momentum
    0.9
    """
    return _NETWORKS[parse(word, channels, size)[0]].recipe


def build(
    word: str,
    *,
    channels: int,
    size: tuple[int, int],
    num_classes: int,
    pooling_word: str = "max",
    seed: int = 0,
) -> nn.Sequential:
    """Build a network with one pooling in every pooling place; its initial weights depend on `seed` alone.

    Parameters
    ----------
    word : str
        ``lenet``, ``zeiler``, ``small``, ``auto``, with ``:width=maps`` where other widths are wanted.
    channels, size, num_classes : int, (int, int), int
        Of the images and their labels.
    pooling_word : str
        A pooling of the registry with its options, such as ``multipartite:groups=4``.
    seed : int
        Seed of the initial weights.

    Returns
    -------
    nn.Sequential
        Takes (N, channels, *size), gives (N, num_classes); pooling layers are called pool1, pool2, ...

    Examples
    --------
    >>> net = build("lenet", channels=1, size=(28, 28), num_classes=10)
    >>> net(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    name, width = parse(word, channels, size)
    network = _NETWORKS[name]
    if min(size) < network.smallest:
        raise InputError(
            f"network {name!r} needs images of at least {network.smallest} x {network.smallest} pixels, "
            f"got {size[0]} x {size[1]}; choose network auto"
        )
    if num_classes < 2:
        raise InputError(f"a network needs at least 2 classes to tell apart, got {num_classes}")

    places = Places.parse(pooling_word)
    words = (places.at(i, of=network.pools) for i in range(network.pools))

    def pool(maps: int, kernel: int, stride: int) -> nn.Module:
        layer = pooling.create(next(words), kernel, stride, num_classes=num_classes)
        if isinstance(layer, SupervisedLayer):
            layer.allocate(maps)  # now, so that optimiser, checkpoint and DDP meet all there is
        return layer

    with torch.random.fork_rng(devices=[]):  # what torch draws by default leaves no trace
        layers = network.features(channels, width, pool)
        try:
            flat = _flat(nn.Sequential(layers), channels, size)
        except (AttributeError, RuntimeError, TypeError) as error:  # an option of a wrong kind, say
            reason = str(error).partition("\n")[0]
            raise InputError(f"pooling {pooling_word!r} does not work in network {name!r}: {reason}") from error
        layers["flatten"] = nn.Flatten()
        if network.hidden:
            layers["full"] = nn.Linear(flat, network.hidden)
            layers["relu"] = nn.ReLU()
        layers["classes"] = nn.Linear(network.hidden or flat, num_classes)
        net = nn.Sequential(layers)
    initialise(net, seed)
    return net


def _flat(features: nn.Module, channels: int, size: tuple[int, int]) -> int:
    """Length of the feature vector, by a dry run."""
    features.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # supervised layers say that they have seen no labels yet
        flat = features(torch.zeros(1, channels, *size))
    features.train()
    return int(flat.numel())


def initialise(net: nn.Module, seed: int) -> None:
    """Draw the weights of the convolutions and linear layers with variance 1 / inputs, in their order.

    Pooling layers are passed over, so what they hold cannot change what is drawn.

    Examples
    --------
    >>> one, two = nn.Linear(3, 2), nn.Linear(3, 2)
    >>> initialise(one, 5), initialise(two, 5)
    (None, None)
    >>> bool((one.weight == two.weight).all())
    True
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
