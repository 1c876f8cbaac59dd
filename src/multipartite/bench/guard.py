"""A guard against getting slower: ratios of now against ratios on record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["key_of", "slower"]

_LOWER_IS_BETTER = "ratio"
_HIGHER_IS_BETTER = "speed_ratio"
_NAMES = ("network", "case", "layout", "phase", "pooling")


def key_of(row: Mapping[str, Any]) -> str:
    """Name of what a row measures.

    Examples
    --------
    >>> key_of({"network": "lenet", "phase": "training", "pooling": "max", "n": 3})
    'lenet | training | max'
    """
    return " | ".join(str(row[name]) for name in _NAMES if name in row)


def slower(
    now: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]], tolerance: float = 0.25
) -> dict[str, str]:
    """Say of every multipartite row that got slower, against max pooling, by more than `tolerance`, by its name.

    Examples
    --------
    >>> row = {"case": "a", "phase": "evaluation", "pooling": "multipartite"}
    >>> slower([{**row, "ratio": 1.0}], [{**row, "ratio": 0.7}])
    {'a | evaluation | multipartite': '1.00 of max pooling, 0.70 on record'}
    """
    record = {key_of(row): row for row in before}
    said = {}
    for row in now:
        old = record.get(key_of(row))
        if old is None or not str(row["pooling"]).startswith("multipartite"):
            continue
        if _HIGHER_IS_BETTER in row:
            new_cost, old_cost = 1 / row[_HIGHER_IS_BETTER], 1 / old[_HIGHER_IS_BETTER]
        else:
            new_cost, old_cost = row[_LOWER_IS_BETTER], old[_LOWER_IS_BETTER]
        if new_cost > old_cost * (1 + tolerance):
            said[key_of(row)] = f"{new_cost:.2f} of max pooling, {old_cost:.2f} on record"
    return said
