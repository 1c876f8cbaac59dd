"""Means over seeds and differences between paired seeds, with what they are worth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["LEVEL", "Difference", "Estimate", "difference", "estimate"]

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """Mean and standard deviation (n - 1 in the denominator; None for one value) of `values`."""

    mean: float
    sd: float | None
    values: tuple[float, ...]

    @property
    def n(self) -> int:
        """How many values."""
        return len(self.values)

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.sd is None else f"{self.mean:.2f} ± {self.sd:.2f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Take the mean and the standard deviation.

    Examples
    --------
    >>> str(estimate([1.0, 2.0, 3.0])), str(estimate([1.5]))
    ('2.00 ± 1.00', '1.50')
    """
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Estimate(statistics.fmean(values), sd, tuple(values))


@dataclass(frozen=True)
class Difference:
    """Mean difference over the seeds that two poolings share, with its t interval (None for one seed)."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def settled(self) -> bool | None:
        """Whether the interval excludes zero; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low > 0 or self.high < 0

    @property
    def interval(self) -> str:
        """The interval in words."""
        if self.low is None or self.high is None:
            return "no interval from one seed"
        return f"{self.low:+.2f} to {self.high:+.2f}"

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ({self.interval})"


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference | None:
    """Compare two poolings seed by seed; None where no seed is shared.

    Parameters
    ----------
    ours, theirs : mapping of seed to value
        The difference is ours - theirs.

    Examples
    --------
    >>> str(difference({0: 1.0, 1: 2.0, 2: 3.0}, {0: 2.0, 1: 2.5, 2: 4.5}))
    '-1.00 (-2.24 to +0.24)'
    """
    pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    if not pairs:
        return None
    mean, n = statistics.fmean(pairs), len(pairs)
    if n == 1:
        return Difference(mean, None, None, n)
    from scipy.special import stdtrit  # the quantile of Student's t; scipy.stats takes a second to import

    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * statistics.stdev(pairs) / math.sqrt(n)
    return Difference(mean, mean - half, mean + half, n)
