"""Means over seeds and differences between paired seeds, with what they are worth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

__all__ = ["FEWEST", "LEVEL", "Difference", "Estimate", "difference", "estimate", "holm"]

LEVEL = 0.95
FEWEST = 3  # pairs below which nothing is claimed


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
    """Mean difference over the seeds that two poolings share, with its t interval and its t test.

    Attributes
    ----------
    mean : float
        Mean difference.
    error : float, optional
        Standard error of the mean; None for one seed.
    n : int
        Seeds in common.
    level : float
        Of the interval.
    p : float, optional
        Two-sided probability of a mean this far from zero by chance; None where nothing may be claimed.
    """

    mean: float
    error: float | None
    n: int
    level: float = LEVEL
    p: float | None = None

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return None if self.error is None else self.mean - self._half(self.error)

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return None if self.error is None else self.mean + self._half(self.error)

    def _half(self, error: float) -> float:
        from scipy.special import stdtrit  # the quantile of Student's t; scipy.stats takes a second to import

        return float(stdtrit(self.n - 1, (1 + self.level) / 2)) * error

    @property
    def doubt(self) -> str:
        """Why nothing may be claimed; empty where the interval decides."""
        if self.n < FEWEST:
            return "one seed only" if self.n == 1 else "two seeds only"
        return "" if self.error else "every seed has the same difference"

    @property
    def settled(self) -> bool | None:
        """Whether the interval excludes zero; never where there is doubt, None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return not self.doubt and (self.low > 0 or self.high < 0)

    @property
    def interval(self) -> str:
        """The interval in words, or why there is none."""
        if self.low is None or self.high is None or not self.error:
            return f"{self.doubt}, so no interval"
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
        return Difference(mean, None, n)
    error = statistics.stdev(pairs) / math.sqrt(n)
    size = max(abs(value) for values in (ours, theirs) for value in values.values())
    found = Difference(mean, error if error > 1e-9 * size else 0.0, n)  # equal but for rounding is equal
    if found.doubt:
        return found
    from scipy.special import stdtr

    return replace(found, p=2 * float(stdtr(n - 1, -abs(mean) / error)))


def holm(found: Mapping[str, Difference]) -> dict[str, Difference]:
    """Correct a family of differences for their number, after Holm (1979).

    The smallest of m probabilities is held against 0.05 / m, the next against 0.05 / (m - 1) and so on; the first
    that is too large ends it, and all from there on are judged at its level. So no interval is narrower than the plain
    one, and it excludes zero exactly where the corrected `p` is below 0.05. Differences in doubt have no `p` and are
    left out.

    Examples
    --------
    >>> plain = {name: Difference(1.0, 0.2, 9, p=p) for name, p in zip("abcd", [0.01, 0.04, 0.03, 0.005])}
    >>> {name: round(each.p, 3) for name, each in holm(plain).items()}
    {'d': 0.02, 'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    known = [(each.p, name, each) for name, each in found.items() if each.p is not None]
    corrected: dict[str, Difference] = {}
    highest, left, lasts = 0.0, 0, False
    for place, (p, name, each) in enumerate(sorted(known, key=lambda item: item[:2])):
        left = left if lasts else len(known) - place
        highest = min(1.0, max(highest, p * (len(known) - place)))
        lasts = lasts or p * left > 1 - LEVEL
        corrected[name] = replace(each, level=1 - (1 - LEVEL) / left, p=highest)
    return corrected
