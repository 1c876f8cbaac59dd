"""One name for every pooling, so that a network is written once for all of them."""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import Any

from torch import nn

from multipartite.errors import InputError, unknown

__all__ = ["available", "create", "parse"]

# name -> (module, class stem); the class of n dimensions is the stem plus "1d", "2d" or "3d"
_POOLINGS = {
    "average": ("torch.nn", "AvgPool"),
    "max": ("torch.nn", "MaxPool"),
    "multipartite": ("multipartite.pooling.multipartite", "MultipartitePool"),
    "stochastic": ("multipartite.pooling.stochastic", "StochasticPool"),
}
_SUPERVISED = {"multipartite"}
_GIVEN = {"kernel_size", "stride", "padding", "num_classes"}


def available() -> list[str]:
    """Names that `create` knows.

    Examples
    --------
    >>> "max" in available()
    True
    """
    return sorted(_POOLINGS)


def parse(word: str) -> tuple[str, dict[str, Any]]:
    """Split ``name:option=value,...`` into the name and its options; values are Python literals or words.

    Examples
    --------
    >>> parse("multipartite:groups=4,assignment=stochastic,temperature=inf")
    ('multipartite', {'groups': 4, 'assignment': 'stochastic', 'temperature': inf})
    """
    name, _, rest = word.partition(":")
    if name not in _POOLINGS:
        raise unknown("pooling", name, available())
    options = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"options of a pooling read name:option=value,..., got {item!r} in {word!r}")
        options[key.strip()] = _literal(value.strip())
    return name, options


def _literal(value: str) -> Any:
    if value in ("inf", "nan"):
        return float(value)
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def create(
    name: str,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    *,
    num_classes: int,
    dims: int = 2,
    **options: Any,
) -> nn.Module:
    """Build the pooling layer called `name`; supervised ones are told the number of classes.

    Parameters
    ----------
    name : str
        A name of :func:`available`, or a word for :func:`parse`; its options give way to `options`.
    kernel_size, stride, padding
        As in ``nn.MaxPool2d``.
    num_classes : int
        How many classes the network tells apart; only supervised poolings look at it.
    dims : int
        1, 2 or 3 spatial dimensions.
    **options
        Further keyword arguments of the layer, such as ``groups=4``.

    Examples
    --------
    >>> create("max", 2, num_classes=10)
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    name, given = parse(name)
    options = {**given, **options}
    if dims not in (1, 2, 3):
        raise InputError(f"dims must be 1, 2 or 3, got {dims!r}")
    module, stem = _POOLINGS[name]
    layer = getattr(importlib.import_module(module), f"{stem}{dims}d")
    known = [p for p in inspect.signature(layer).parameters if p not in _GIVEN]
    for option in options:
        if option not in known:
            raise unknown(f"option of pooling {name!r}:", option, known)
    if name in _SUPERVISED:
        options["num_classes"] = num_classes
    pool: nn.Module = layer(kernel_size, stride, padding, **options)
    return pool
