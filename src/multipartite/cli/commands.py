"""Which commands there are: each lives in the module of its name and registers itself here."""

from __future__ import annotations

import importlib

import typer

__all__ = ["NAMES", "register"]

NAMES: list[str] = ["data", "train", "compare", "report", "summary", "tune", "rank", "explain", "bench"]


def register(app: typer.Typer) -> None:
    """Attach every command to `app`: each module of this package offers ``register(app)``."""
    for name in NAMES:
        importlib.import_module(f"multipartite.cli.{name}").register(app)
