"""The verdict in words, computed: the best method, whether the seeds support it, whether the paper's order holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

from multipartite.experiments.report.collection import BASELINE
from multipartite.experiments.report.estimates import Difference, difference
from multipartite.experiments.report.paper import order
from multipartite.experiments.report.tables import Row
from multipartite.words import Places

__all__ = ["best", "generalisation", "paper_order", "verdict"]

_PROPOSED = "multipartite"


def verdict(rows: Sequence[Row], dataset: str) -> list[str]:
    """Say in three sentences what a comparison shows: best method, the paper's order, the paper's claim."""
    return [best(rows), paper_order(rows, dataset), generalisation(rows)]


def best(rows: Sequence[Row]) -> str:
    """Which pooling has the lowest mean test error, by how much, and whether the seeds support it."""
    ranked = sorted(rows, key=lambda row: row.test.mean)
    first = ranked[0]
    n = first.test.n
    words = f"Best: {first.pooling} with {first.test.mean:.2f}% test error ({_seeds(n)})"
    if len(ranked) == 1:
        return f"{words}; nothing to compare it with."
    second = ranked[1]
    words += f", {_below(first, second)}"
    rest = next((row for row in ranked[2:] if row.pooling == BASELINE), None)
    if rest is not None:
        words += f"; {_below(first, rest)}"
    return f"{words}."


def _below(ours: Row, theirs: Row) -> str:
    if ours.test.mean == theirs.test.mean:
        return f"level with {theirs.pooling}"
    found = difference(ours.by_seed, theirs.by_seed)
    margin = f"{theirs.test.mean - ours.test.mean:.2f} points below {theirs.pooling}"
    return f"{margin} ({support(found)})"


def support(found: Difference | None) -> str:
    """Say what a difference over seeds is worth.

    Examples
    --------
    >>> support(Difference(-0.5, -0.9, -0.1, 5))
    '95% interval -0.90 to -0.10: the seeds support it'
    >>> support(Difference(-0.5, None, None, 1))
    'one seed only, so no interval'
    """
    if found is None:
        return "no seed in common, so no paired interval"
    if found.settled is None:
        return "one seed only, so no interval"
    words = "the seeds support it" if found.settled else "the seeds do not settle it"
    return f"95% interval {found.interval}: {words}"


def paper_order(rows: Sequence[Row], dataset: str) -> str:
    """Whether the test errors are in the order of the paper's tables, for each reading of its method."""
    places = {name: place for place, names in enumerate(order(dataset)) for name in names}
    expected = " < ".join(" or ".join(names) for names in order(dataset))
    plain = [row for row in rows if row.pooling in places and row.name != _PROPOSED]
    proposed = _readings(rows)
    if len(plain) + len(proposed) < 2 or not plain:
        return f"The paper's order ({expected}) cannot be judged: too few of its poolings are here."
    readings: list[tuple[str, list[Row]]] = [(row.pooling, [*plain, row]) for row in proposed]
    holds, fails = [], []
    for label, present in readings or [("the baselines alone", plain)]:
        wrong, loose = _against(present, places)
        if wrong:
            fails.append(f"with {label} ({', '.join(wrong)})")
        else:
            holds.append(f"with {label}" + (f" (the seeds do not settle {', '.join(loose)})" if loose else ""))
    return f"The paper's order ({expected}) {_judged(holds, fails)}."


def _readings(rows: Sequence[Row]) -> list[Row]:
    """Rows that are the paper's method, whatever the options; at infinite temperature nothing supervises it."""

    def supervised(row: Row) -> bool:
        return any(dict(word.options).get("temperature") != math.inf for word in Places.parse(row.pooling).words)

    return [row for row in rows if row.name == _PROPOSED and supervised(row)]


def _judged(holds: Sequence[str], fails: Sequence[str]) -> str:
    """Say with what a statement holds and with what it does not."""
    if not fails:
        return f"holds {'; '.join(holds)}"
    if not holds:
        return f"does not hold {'; '.join(fails)}"
    return f"holds {'; '.join(holds)}; it does not {'; '.join(fails)}"


def _against(present: Sequence[Row], places: dict[str, int]) -> tuple[list[str], list[str]]:
    """Neighbours against the paper's order, and neighbours in order that the seeds do not settle."""
    wrong, loose = [], []
    steps = sorted({places[row.name] for row in present})
    for low, high in permutations(present, 2):
        if steps.index(places[high.name]) != steps.index(places[low.name]) + 1:
            continue  # the order holds when it holds between neighbours
        if low.test.mean >= high.test.mean:
            sign = ">" if low.test.mean > high.test.mean else "="
            wrong.append(f"{low.name} {low.test.mean:.2f} {sign} {high.name} {high.test.mean:.2f}")
            continue
        found = difference(low.by_seed, high.by_seed)
        if found is None or not found.settled:
            loose.append(f"{low.name} < {high.name}")
    return wrong, loose


def generalisation(rows: Sequence[Row]) -> str:
    """Whether the paper's claim holds: a small gap between train and test error at a high training error.

    Each reading of its method is held against all that is not its method, the unsupervised draws included.
    """
    ranked = sorted(rows, key=lambda row: row.gap.mean)
    first = ranked[0]
    words = f"Smallest train-test gap: {first.pooling} with {first.gap.mean:.2f} points"
    base = next((row for row in rows if row.pooling == BASELINE), None)
    if base is not None and base is not first:
        words += f", {BASELINE} has {base.gap.mean:.2f}"
    proposed = _readings(ranked)
    others = [row for row in ranked if row not in proposed]
    if not proposed or not others:
        return f"{words}."
    smallest = others[0].gap.mean
    holds = [f"with {row.pooling} ({row.gap.mean:.2f})" for row in proposed if row.gap.mean < smallest]
    fails = [f"with {row.pooling} ({row.gap.mean:.2f})" for row in proposed if row.gap.mean >= smallest]
    highest = max(rows, key=lambda row: row.train.mean)
    return (
        f"{words}. The paper's claim that its method has a smaller gap than any other {_judged(holds, fails)}; "
        f"the highest training error is that of {highest.pooling} ({highest.train.mean:.2f}%)."
    )


def _seeds(n: int) -> str:
    return "one seed only" if n == 1 else f"mean of {n} seeds"
