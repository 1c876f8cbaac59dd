"""Ranks of methods over several comparisons, and which of them are told apart: Friedman and Nemenyi, after Demsar.

J. Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006), section 3.2.2. scipy.stats
takes a second to import, so it is imported where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["ALPHA", "critical_difference", "friedman", "groups", "ranks"]

ALPHA = 0.05
Table = np.ndarray[Any, Any]


def ranks(errors: Sequence[Sequence[float]]) -> Table:
    """Rank the methods of every comparison by their error: 1 is the lowest, equals share the mean of their ranks.

    Parameters
    ----------
    errors : (N, k)
        Of N comparisons and k methods.

    Returns
    -------
    array of shape (N, k)

    Examples
    --------
    >>> ranks([[0.7, 0.5, 0.9], [0.2, 0.2, 0.1]])
    array([[2. , 1. , 3. ],
           [2.5, 2.5, 1. ]])
    """
    from scipy.stats import rankdata

    found: Table = rankdata(np.round(np.asarray(errors, dtype=float), 9), axis=1)  # equal but for rounding is equal
    return found


def friedman(errors: Sequence[Sequence[float]]) -> float | None:
    """Probability by chance of mean ranks that differ this much: Friedman's statistic in Iman and Davenport's form.

    With the statistic chi of N comparisons and k methods, corrected for ties, F = (N - 1) chi / (N (k - 1) - chi)
    follows the F distribution with k - 1 and (k - 1)(N - 1) degrees of freedom.

    Returns
    -------
    float, or None for fewer than three methods or two comparisons

    Examples
    --------
    >>> friedman([[1, 2, 3], [1, 2, 3], [1, 3, 2], [1, 2, 3]]) < 0.05
    True
    """
    each = ranks(errors)
    N, k = each.shape
    if N < 2 or k < 3:
        return None
    if (each == each[:, :1]).all():  # all level everywhere
        return 1.0
    from scipy.stats import f, friedmanchisquare

    chi = float(friedmanchisquare(*each.T).statistic)
    rest = N * (k - 1) - chi
    return float(f.sf((N - 1) * chi / rest, k - 1, (k - 1) * (N - 1))) if rest > 1e-9 else 0.0


def critical_difference(methods: int, comparisons: int, alpha: float = ALPHA) -> float:
    r"""How far two mean ranks must lie apart to differ by more than chance (Nemenyi).

    .. math:: CD = q_\alpha \sqrt{k (k + 1) / (6 N)}

    with k methods, N comparisons, and the quantile of the studentized range divided by the root of 2.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * comparisons))


def groups(mean_ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """Find the largest groups of neighbours that are not told apart, as first and last place.

    Parameters
    ----------
    mean_ranks : sequence of float
        The lowest first.
    critical : float
        From :func:`critical_difference`.

    Examples
    --------
    >>> groups([1.964, 2.0, 2.893, 3.143], 1.12)
    [(0, 2), (2, 3)]
    """
    found: list[tuple[int, int]] = []
    for first, low in enumerate(mean_ranks):
        last = max(i for i, high in enumerate(mean_ranks) if high - low <= critical)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
