"""How the cost of the layer grows: with pixels, channels, classes and window size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multipartite.bench.layers import Case, measure

__all__ = ["SWEEPS", "measure_growth"]

SWEEPS: dict[str, dict[int, Case]] = {
    "pixels": {side * side: Case((8, 32, side, side), 2, 2, 10) for side in (16, 32, 64, 128)},
    "channels": {c: Case((8, c, 32, 32), 2, 2, 10) for c in (16, 64, 256, 1024, 2048)},
    "classes": {c: Case((16, 64, 32, 32), 2, 2, c) for c in (2, 10, 32, 65, 100, 316, 1000)},
    "window": {k: Case((16, 32, 48, 48), k, k, 10) for k in (2, 3, 4, 6, 8)},
}


def measure_growth(sweep: str, *, seconds: float) -> Iterator[dict[str, Any]]:
    """Time evaluation by max and multipartite pooling along one sweep, in both layouts; a row a layout and pooling.

    Examples
    --------
    >>> row = next(measure_growth("window", seconds=0.001))
    >>> row["at"], row["layout"], row["pooling"]
    (2, 'contiguous', 'max')
    """
    for at, case in SWEEPS[sweep].items():
        for last in (False, True):
            for row in measure(
                case, channels_last=last, seconds=seconds, others=False, memory=False, phases=("evaluation",)
            ):
                yield {"sweep": sweep, "at": at, **{name: row[name] for name in ("layout", "pooling", "ms", "ratio")}}
