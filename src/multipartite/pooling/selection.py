"""Find the pooling layers of a model, and choose among them by name, pattern or class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import torch
from torch import nn

from multipartite.errors import InputError, unknown

__all__ = ["Selector", "by_identity", "dimensions", "poolings", "reason_to_stay", "selectors"]

Selector: TypeAlias = str | type[nn.Module]

_MAX = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_AVERAGE = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
_ADAPTIVE_MAX = {1: nn.AdaptiveMaxPool1d, 2: nn.AdaptiveMaxPool2d, 3: nn.AdaptiveMaxPool3d}
_ADAPTIVE_AVERAGE = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}
_FAMILIES: tuple[dict[int, Any], ...] = (_MAX, _AVERAGE, _ADAPTIVE_MAX, _ADAPTIVE_AVERAGE)
_DIMENSIONS: dict[type[nn.Module], int] = {kind: dims for family in _FAMILIES for dims, kind in family.items()}


def by_identity(model: nn.Module) -> list[tuple[tuple[str, ...], nn.Module]]:
    """Every module once, with all its names."""
    places: dict[int, tuple[list[str], nn.Module]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        places.setdefault(id(module), ([], module))[0].append(name)
    return [(tuple(names), module) for names, module in places.values()]


def poolings(model: nn.Module) -> Iterator[tuple[tuple[str, ...], nn.Module, torch.Tensor]]:
    """Torch's own pooling layers: names, layer, and the nearest floating tensor to take device and dtype from."""
    mine = (t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point())
    like = next(mine, torch.empty(0))
    for names, module in by_identity(model):
        own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
        like = next((t for t in own if t.is_floating_point()), like)
        if dimensions(module) is not None:
            yield names, module, like


def dimensions(module: nn.Module) -> int | None:
    """Spatial dimensions of a pooling layer of torch, None for any other module."""
    for kind, dims in _DIMENSIONS.items():
        if isinstance(module, kind):  # a subclass that computes something else is not ours to replace
            return dims if type(module).forward is kind.forward else None
    return None


def selectors(model: nn.Module, argument: str, given: Any) -> list[Selector] | None:
    """Read what `only` or `skip` was given; refuse a name or pattern that nothing in the model has."""
    if given is None:
        return None
    wanted = list(given) if isinstance(given, Iterable) and not isinstance(given, str | type) else [given]
    names = [name for name, _ in model.named_modules(remove_duplicate=False) if name]
    for one in wanted:
        if not isinstance(one, str) and not (isinstance(one, type) and issubclass(one, nn.Module)):
            raise InputError(f"{argument} must hold names, patterns or module classes, got {one!r}")
        if isinstance(one, str) and not any(fnmatchcase(name, one) for name in names):
            raise unknown(f"layer in {argument}:", one, [n for ns, _, _ in poolings(model) for n in ns])
    return wanted


def _matches(names: tuple[str, ...], module: nn.Module, selector: Selector) -> bool:
    if isinstance(selector, type):
        return isinstance(module, selector)
    return any(fnmatchcase(name, selector) or fnmatchcase(name, f"{selector}.*") for name in names)


def reason_to_stay(
    names: tuple[str, ...], old: nn.Module, only: list[Selector] | None, skip: list[Selector] | None
) -> str:
    """Why a pooling layer is not replaced; empty where it is."""
    if skip is not None and any(_matches(names, old, s) for s in skip):
        return "`skip` names it"
    if only is None:
        is_max = isinstance(old, tuple(_MAX.values()))
        return "" if is_max else "only max pooling is replaced unless `only` asks for more"
    if not any(_matches(names, old, s) for s in only):
        return "`only` does not name it"
    if _is_global(old) and not any(s in names or (isinstance(s, type) and isinstance(old, s)) for s in only):
        return "a global pooling layer is replaced only by its full name or its class"
    return ""


def _is_global(layer: nn.Module) -> bool:
    size = getattr(layer, "output_size", None)
    return size == 1 or (isinstance(size, tuple) and all(s == 1 for s in size))
