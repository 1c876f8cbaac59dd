"""Learning rates over a run: each schedule is a factor of the share of the run that is done."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["SCHEDULES"]

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
    "linear": lambda done: 1.0 - 0.99 * done,  # down to a hundredth, after Zeiler and Fergus
}
