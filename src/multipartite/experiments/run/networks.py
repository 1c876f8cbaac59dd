"""The networks of the experiments, with any pooling in every pooling place; open to everybody's own.

A network is written with max pooling, or comes from elsewhere with it; every max pooling layer is a place, counted in
the order in which an image meets them, and takes the pooling that was asked for. Initial weights depend on the seed
alone: two networks that differ in their pooling start equal, bit for bit.

Nothing here imports torch until a network is built: a mistyped name is answered at once.
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from multipartite.errors import InputError, unknown
from multipartite.registry import Registry, refer
from multipartite.words import Places, Word

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = [
    "SCHEDULES",
    "Network",
    "PoolingLayer",
    "Recipe",
    "available",
    "build",
    "common_parameters",
    "find",
    "pooling_layers",
    "register",
    "resolve",
]

Factory: TypeAlias = "Callable[..., nn.Module]"  # (channels, num_classes, size, **options) -> network
Initialise: TypeAlias = "Callable[[list[nn.Module], int], None]"  # (its layers but for the poolings, seed)

SCHEDULES: dict[str, Callable[[float], float]] = {  # share of the run that is done -> factor of the learning rate
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
    "linear": lambda done: 1.0 - 0.99 * done,  # down to a hundredth, after Zeiler and Fergus
}
_GIVEN = ("channels", "num_classes", "size")


@dataclass(frozen=True)
class Recipe:
    """How a network is trained unless told otherwise; docs/training.md names the sources."""

    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: str = "linear"


@dataclass(frozen=True)
class Network:
    """How a network is made and trained.

    Attributes
    ----------
    factory : str or callable
        Makes the network with max pooling from those of ``channels``, ``num_classes`` and ``size`` (height, width) that
        it has parameters for, and from the options of its word; or a reference ``package.module:function``.
    recipe : Recipe
        How it is trained.
    smallest : int
        Side of the smallest image that it takes.
    initialise : str or callable, optional
        Draws the initial weights of its layers from a seed; else they are as the factory drew them.
    """

    factory: str | Factory
    recipe: Recipe = Recipe()
    smallest: int = 1
    initialise: str | Initialise | None = None


class PoolingLayer(NamedTuple):
    """A pooling layer of a network, by its name, with the channels that it gets."""

    name: str
    layer: nn.Module
    channels: int


def _ours(name: str, recipe: Recipe, smallest: int) -> Network:
    home = f"{__package__}.architectures"
    return Network(f"{home}:{name}", recipe, smallest, f"{home}:initialise")


_NETWORKS: Registry[Network] = Registry(
    "network",
    {
        "lenet": _ours("lenet", Recipe(0.02, 0.9, 5e-4, "linear"), 16),
        "modern": _ours("modern", Recipe(0.05, 0.9, 5e-4, "cosine"), 8),
        "small": _ours("small", Recipe(0.05, 0.9, 5e-4, "linear"), 4),
        "zeiler": _ours("zeiler", Recipe(0.01, 0.9, 1e-3, "linear"), 15),
    },
)


def available() -> list[str]:
    """Names that `build` knows, beside ``auto``.

    Examples
    --------
    >>> "lenet" in available()
    True
    """
    return sorted(_NETWORKS)


def register(
    name: str,
    factory: str | Factory,
    *,
    recipe: Recipe | None = None,
    smallest: int = 1,
    initialise: str | Initialise | None = None,
) -> None:
    """Add a network of one's own, by the name that it is then trained with.

    Parameters
    ----------
    name : str
        A new name.
    factory, recipe, smallest, initialise
        As in :class:`Network`.

    Examples
    --------
    >>> from torch import nn
    >>> def tiny(channels, num_classes, width=8):
    ...     convolution = nn.Conv2d(channels, width, 3, padding=1)
    ...     head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes)
    ...     return nn.Sequential(convolution, nn.ReLU(), nn.MaxPool2d(2), *head)
    >>> register("tiny", tiny)
    >>> build("tiny:width=4", channels=3, size=(8, 8), num_classes=5, pooling_word="average")[2]
    AvgPool2d(kernel_size=2, stride=2, padding=0)
    """
    if name == "auto":
        raise InputError("'auto' chooses among the networks: choose another name")
    _NETWORKS.add(name, Network(factory, recipe or Recipe(), smallest, initialise))


def find(name: str, channels: int = 1, size: tuple[int, int] = (28, 28)) -> Network:
    """Look a network up by its name or as ``package.module:function``; ``auto`` chooses by the images.

    Parameters
    ----------
    name : str
        ``auto`` is `small` below 16 pixels a side, else `lenet` for one channel and `zeiler` for more.
    channels, size : int, (int, int)
        Of the images.

    Examples
    --------
    >>> find("lenet").recipe.momentum
    0.9
    """
    name = _chosen(name, channels, size)
    if ":" not in name:
        if name not in _NETWORKS:
            raise unknown("network", name, ["auto", *available()])
        return _NETWORKS[name]
    made = refer(name, "network", _NETWORKS)
    if not isinstance(made, Network) and not callable(made):
        raise InputError(f"network {name!r} must be a function that makes a module, got {type(made).__name__}")
    return made if isinstance(made, Network) else Network(made)


def _chosen(name: str, channels: int, size: tuple[int, int]) -> str:
    if name != "auto":
        return name
    large = "lenet" if channels == 1 else "zeiler"
    return large if min(size) >= _NETWORKS[large].smallest else "small"


def resolve(word: str, channels: int = 1, size: tuple[int, int] = (28, 28)) -> Word:
    """Spell a network's word out: with the name that ``auto`` stands for, and every option.

    Examples
    --------
    >>> str(resolve("auto", 1, (8, 8))), str(resolve("zeiler:width=32"))
    ('small:width=32', 'zeiler:width=32')
    """
    asked = Word.parse(word)
    name = _chosen(asked.name, channels, size)
    parameters = inspect.signature(_factory(find(name))).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    options = {p.name: p.default for p in named if p.name not in _GIVEN}
    if len(named) == len(parameters):
        for option, _ in asked.options:
            if option not in options:
                raise unknown(f"option of network {name!r}:", option, options)
    options |= dict(asked.options)
    for option, value in options.items():
        if value is inspect.Parameter.empty:
            raise InputError(f"network {name!r} needs {option}: write {name}:{option}=...")
    return Word.of(name, **{k: v for k, v in options.items() if isinstance(v, bool | int | float | str | tuple)})


def _factory(network: Network) -> Factory:
    return refer(network.factory, "network", {}) if isinstance(network.factory, str) else network.factory


def build(
    word: str,
    *,
    channels: int,
    size: tuple[int, int],
    num_classes: int,
    pooling_word: str = "max",
    seed: int = 0,
) -> nn.Module:
    """Build a network with the pooling that was asked for in its places; its initial weights depend on `seed` alone.

    Parameters
    ----------
    word : str
        A name of :func:`available`, ``auto`` or ``package.module:function``, with options: ``zeiler:width=32``.
    channels, size, num_classes : int, (int, int), int
        Of the images and their labels.
    pooling_word : str
        A pooling of the registry with its options, such as ``multipartite:groups=4``, or a word a place.
    seed : int
        Seed of the initial weights.

    Returns
    -------
    nn.Module
        Takes (N, channels, *size), gives (N, num_classes).

    Examples
    --------
    >>> import torch
    >>> net = build("lenet", channels=1, size=(28, 28), num_classes=10)
    >>> net(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    import torch

    from multipartite.pooling.convert import convert

    full = resolve(word, channels, size)
    name, network = full.name, find(full.name)
    if min(size) < network.smallest:
        raise InputError(
            f"network {name!r} needs images of at least {network.smallest} x {network.smallest} pixels, "
            f"got {size[0]} x {size[1]}; choose network auto"
        )
    if num_classes < 2:
        raise InputError(f"a network needs at least 2 classes to tell apart, got {num_classes}")
    image = torch.zeros(1, channels, *size)
    words = Places.parse(pooling_word)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lazy modules are young; supervised layers have seen no labels yet
        torch.manual_seed(seed)
        net = _made(full, network, channels=channels, num_classes=num_classes, size=size)
        drawn = torch.get_rng_state()
        with _blamed(f"network {name!r} does not work with images of {channels} x {size[0]} x {size[1]}"):
            places = pooling_layers(copy.deepcopy(net), image)  # a copy: what is lazy stays so
        if not places:
            raise InputError(
                f"network {name!r} has no max pooling layer that another could replace: calls such as F.max_pool2d "
                "inside a forward have to be made layers first"
            )
        for number, place in enumerate(places):
            torch.manual_seed(seed + number)  # weights of a pooling are of the seed, too, and shift no others
            convert(net, num_classes, str(words.at(number, of=len(places))), only=place.name)
        torch.set_rng_state(drawn)
        with _blamed(f"pooling {pooling_word!r} does not work in network {name!r}"):
            logits = _dry_run(net, image)  # what is lazy, in layers and poolings, is made now
        if logits.shape != (1, num_classes):
            raise InputError(f"network {name!r} must give (N, {num_classes}) for N images, got {tuple(logits.shape)}")
        if network.initialise is not None:
            initialise = network.initialise
            start = refer(initialise, "network", {}) if isinstance(initialise, str) else initialise
            inside = {id(part) for _, layer in _outermost(net) for part in layer.modules()}
            start([layer for layer in net.modules() if id(layer) not in inside], seed)
    return net


def common_parameters(net: nn.Module) -> dict[str, Tensor]:
    """Parameters of a network but for those of its pooling layers: what all poolings have in common, by name.

    Examples
    --------
    >>> net = build("lenet", channels=1, size=(28, 28), num_classes=10, pooling_word="lip")
    >>> sorted({name.partition(".")[0] for name in common_parameters(net)})
    ['classes', 'conv1', 'conv2', 'full']
    """
    inside = {id(p) for _, layer in _outermost(net) for p in layer.parameters()}
    return {name: p for name, p in net.named_parameters() if id(p) not in inside}


def _made(word: Word, network: Network, **given: Any) -> nn.Module:
    from torch import nn

    factory = _factory(network)
    parameters = inspect.signature(factory).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        wanted = {p.name for p in parameters}
        given = {name: value for name, value in given.items() if name in wanted}
    with _blamed(f"network {str(word)!r} cannot be made"):
        net = factory(**given, **dict(word.options))
    if not isinstance(net, nn.Module):
        raise InputError(f"network {word.name!r} must be a function that makes a module, got {type(net).__name__}")
    return net


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Say what does not work, in one line, where torch or somebody's code says it in many."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{what}: {reason}") from error


def pooling_layers(net: nn.Module, image: Tensor) -> list[PoolingLayer]:
    """Find the pooling layers of any network in the order in which an image meets them, by sending one through.

    Those that :func:`multipartite.convert` has put there or could replace count, whatever they are called and
    wherever they sit; global and average pooling of the network's own does not.

    Parameters
    ----------
    net : nn.Module
        Any network, with branches and skip connections.
    image : Tensor of shape (1, C, H, W)
        What is sent through, in evaluation mode.

    Examples
    --------
    >>> import torch
    >>> net = build("lenet", channels=1, size=(28, 28), num_classes=10, pooling_word="stochastic")
    >>> [(name, channels) for name, layer, channels in pooling_layers(net, torch.zeros(1, 1, 28, 28))]
    [('pool1', 20), ('pool2', 50)]
    """
    met: dict[int, PoolingLayer] = {}
    handles = []
    for name, layer in _outermost(net):

        def note(layer: nn.Module, given: tuple[Any, ...], name: str = name) -> None:
            met.setdefault(id(layer), PoolingLayer(name, layer, given[0].shape[1]))

        handles.append(layer.register_forward_pre_hook(note))
    try:
        _dry_run(net, image)
    finally:
        for handle in handles:
            handle.remove()
    return list(met.values())


def _outermost(net: nn.Module) -> list[tuple[str, nn.Module]]:
    """Pooling layers that sit in no other pooling layer, in the order in which the network lists them."""
    found: list[tuple[str, nn.Module]] = []
    for name, layer in net.named_modules():
        within = any(name.startswith(f"{outer}.") for outer, _ in found)
        if not within and _pools(layer):
            found.append((name, layer))
    return found


def _pools(layer: nn.Module) -> bool:
    from torch import nn

    from multipartite.pooling.selection import dimensions
    from multipartite.pooling.window import Window

    put_there = "_replaced" in layer.__dict__
    ours = isinstance(getattr(layer, "window", None), Window)
    theirs = isinstance(layer, nn.MaxPool1d | nn.MaxPool2d | nn.MaxPool3d) and dimensions(layer) is not None
    return put_there or ours or theirs


def _dry_run(net: nn.Module, image: Tensor) -> Tensor:
    """Send an image through in evaluation mode; what a pooling draws meanwhile leaves no trace."""
    import torch

    states: list[Tensor] = []
    handles = []
    for _, layer in _outermost(net):
        handles.append(layer.register_forward_pre_hook(lambda *_: states.append(torch.get_rng_state())))
        handles.append(layer.register_forward_hook(lambda *_: torch.set_rng_state(states.pop())))
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        with torch.no_grad():
            return net(image)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes:
            module.training = training
