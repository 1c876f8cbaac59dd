"""How the cost of the layer grows: with pixels, channels, classes and window size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multipartite.bench.layers import Case, measure

__all__ = ["SWEEPS", "measure_growth"]

SWEEPS: dict[str, dict[int, Case]] = {
    "pixels": {side * side: Case((8, 32, side, side), 2, 2, 10) for side in (16, 32, 64, 128)},
    "channels": {c: Case((8, c, 32, 32), 2, 2, 10) for c in (16, 64, 256, 1024)},
    "classes": {c: Case((16, 64, 32, 32), 2, 2, c) for c in (2, 10, 32, 65, 100, 316, 1000)},
    "window": {k: Case((16, 32, 48, 48), k, k, 10) for k in (2, 3, 4, 6, 8)},
}


def measure_growth(sweep: str, *, seconds: float) -> Iterator[dict[str, Any]]:
    """Time evaluation by max and multipartite pooling along one sweep, contiguous layout.

    Examples
    --------
    >>> [row["at"] for row in measure_growth("window", seconds=0.001)]
    [2, 3, 4, 6, 8]
    """
    for at, case in SWEEPS[sweep].items():
        rows = measure(case, channels_last=False, seconds=seconds, others=False, memory=False, phases=("evaluation",))
        taken = {row["pooling"]: row["ms"] for row in rows}
        ratio = taken["multipartite"] / taken["max"]
        yield {
            "sweep": sweep,
            "at": at,
            "max_ms": taken["max"],
            "multipartite_ms": taken["multipartite"],
            "ratio": ratio,
        }
