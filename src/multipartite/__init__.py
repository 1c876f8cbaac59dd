"""Supervised pooling and ranking for PyTorch.

Each public name is imported when it is first used: ``multipartite --help`` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multipartite.statistics import ClassStatistics as ClassStatistics

__version__ = "0.1.0"

_HOMES = {
    "statistics": ["ClassStatistics"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ["criteria", "errors", "functional", "pooling", "projection", "ranking", "statistics"]

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"multipartite.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"multipartite.{name}")
    else:
        raise AttributeError(f"module 'multipartite' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_MODULES])
