"""How every command prints rows: a table for people, tab-separated values or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["show"]


def show(rows: Sequence[Mapping[str, Any]], *, as_json: bool = False) -> None:
    r"""Print rows as JSON, as a table in a terminal, or tab-separated where the output is piped.

    Examples
    --------
    >>> show([{"rank": 1, "score": 0.5}], as_json=True)
    [
      {
        "rank": 1,
        "score": 0.5
      }
    ]
    """
    if as_json:
        print(json.dumps(list(rows), indent=2))
    elif sys.stdout.isatty():
        _draw(rows)
    else:
        print("\t".join(rows[0]))
        for row in rows:
            print("\t".join(str(value) for value in row.values()))


def _draw(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for key, value in rows[0].items():
        table.add_column(key, justify="right" if isinstance(value, int | float) else "left", overflow="fold")
    for row in rows:
        cells = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
        table.add_row(*map(Text, cells))  # as text: a name may hold what rich takes for markup
    Console().print(table)
