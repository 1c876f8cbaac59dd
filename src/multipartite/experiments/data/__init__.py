"""Data sets: found or downloaded, checked by hash, loaded as uint8 tensors; open to everybody's own.

What needs torch is imported when it is first used: a mistyped name is answered at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from multipartite.experiments.data.catalogue import available, check_name, load, register
from multipartite.experiments.data.source import Source

if TYPE_CHECKING:
    from multipartite.experiments.data.dataset import Dataset, Normaliser, Split, stratified

__all__ = [
    "Dataset",
    "Normaliser",
    "Source",
    "Split",
    "available",
    "check_name",
    "load",
    "register",
    "stratified",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.dataset"), name)
