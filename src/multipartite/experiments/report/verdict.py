"""The verdict in words, computed: the best method, whether the seeds support it, whether the paper's claims hold.

Nothing is claimed from fewer than three seeds, nor where every seed has the same difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from multipartite.experiments.report.collection import BASELINE
from multipartite.experiments.report.estimates import FEWEST, Difference, difference, holm
from multipartite.experiments.report.tables import PRINTED, RIVALS, Row, order

__all__ = ["best", "generalisation", "headline", "paper_order", "verdict"]


def verdict(rows: Sequence[Row], dataset: str) -> list[str]:
    """Say in three sentences what a comparison shows: best method, the paper's order, the paper's claim."""
    return [best(rows), paper_order(rows, dataset), generalisation(rows)]


def headline(rows: Sequence[Row]) -> str:
    """Say the gist in a few words: which pooling has the lowest test error, and how far below max pooling it is.

    Where max pooling itself is best, the next one takes its place.
    """
    first, *others = sorted(rows, key=_error)
    words = f"{first.pooling} has the lowest test error, {first.test.mean:.2f}%"
    if not others:
        return words
    rival = next((row for row in others if row.pooling == BASELINE), others[0])
    if rival.test.mean == first.test.mean:
        return f"{words}, level with {rival.pooling}"
    plain, corrected = _margin(first, others, rival)
    if plain is None or plain.doubt:
        worth = plain.doubt if plain else "no seed in common"
    else:
        worth = "the seeds support it" if corrected and corrected.settled else "the seeds do not settle it"
    return f"{words}: {_gap(first, rival, plain):.2f} points below {rival.pooling}, {worth}"


def best(rows: Sequence[Row]) -> str:
    """Which pooling has the lowest mean test error, by how much, and whether the seeds support it."""
    first, *others = sorted(rows, key=_error)
    words = f"Best: {first.pooling} with {first.test.mean:.2f}% test error ({_seeds(first.test.n)})"
    if not others:
        return f"{words}; nothing to compare it with."
    margins = []
    for row in [others[0], *(row for row in others[1:] if row.pooling == BASELINE)]:
        if row.test.mean == first.test.mean:
            margins.append(f"level with {row.pooling}")
            continue
        plain, corrected = _margin(first, others, row)
        margins.append(f"{_gap(first, row, plain):.2f} points below {row.pooling} ({support(plain, corrected)})")
    return f"{words}, {'; '.join(margins)}."


def _gap(first: Row, rival: Row, paired: Difference | None) -> float:
    """Points between the best and a rival over the seeds that both have, as the interval is; else over all."""
    return -paired.mean if paired is not None and paired.mean < 0 else rival.test.mean - first.test.mean


def _margin(first: Row, others: Sequence[Row], rival: Row) -> tuple[Difference | None, Difference | None]:
    """Difference of the best to a rival, plain and corrected: its differences to all others are one family."""
    found = {row.pooling: each for row in others if (each := difference(first.tests, row.tests)) is not None}
    return found.get(rival.pooling), holm(found).get(rival.pooling)


def support(found: Difference | None, corrected: Difference | None = None) -> str:
    """Say what a difference over seeds is worth, plain and `corrected` for being one of several.

    Examples
    --------
    >>> support(difference({0: 1.0, 1: 2.0, 2: 3.0}, {0: 2.0, 1: 3.1, 2: 4.0}))
    '95% interval -1.18 to -0.89: the seeds support it'
    >>> support(Difference(-0.5, None, 1))
    'one seed only, so no interval and no claim'
    """
    if found is None:
        return "no seed in common, so no interval and no claim"
    if not found.error:
        return f"{found.interval} and no claim"
    words = f"95% interval {found.interval}"
    if found.doubt:
        return f"{words}, but {found.doubt}, so no claim"
    if not found.settled:
        return f"{words}: the seeds do not settle it"
    if corrected is not None and not corrected.settled:
        return f"{words}, but {corrected.interval} after Holm's correction: the seeds do not settle it"
    return f"{words}: the seeds support it"


def paper_order(rows: Sequence[Row], dataset: str) -> str:
    """Whether the test errors are in the order of the paper's tables; other poolings have no part in it."""
    places = {name: place for place, names in enumerate(order(dataset)) for name in names}
    expected = " < ".join(" or ".join(names) for names in order(dataset))
    words = f"The paper's order ({expected})"
    present = [row for row in rows if row.pooling in places]
    if len(present) < 2:
        return f"{words} cannot be judged: too few of its poolings are here."
    right, wrong, doubts = _steps(present, places)
    if doubts:
        return f"{words} cannot be judged: {doubts[0]}."
    if refuted := [step for step, settled in wrong if settled]:
        return f"{words} does not hold: {'; '.join(refuted)}."
    if wrong:
        return f"{words} is not seen, though the seeds do not settle it: {'; '.join(step for step, _ in wrong)}."
    if loose := [step for step, settled in right if not settled]:
        return f"{words} is seen, but the seeds do not settle {', '.join(loose)}."
    return f"{words} holds: the seeds support every step."


_Step = tuple[str, bool]  # in words, and whether the seeds settle it


def _steps(present: Sequence[Row], places: dict[str, int]) -> tuple[list[_Step], list[_Step], list[str]]:
    """Neighbours in the paper's order that are in it here, those that are not, and why some cannot be judged."""
    right: list[_Step] = []
    wrong: list[_Step] = []
    doubts: list[str] = []
    steps = sorted({places[row.pooling] for row in present})
    for low, high in permutations(present, 2):
        if steps.index(places[high.pooling]) != steps.index(places[low.pooling]) + 1:
            continue  # the order holds when it holds between neighbours
        found = difference(low.tests, high.tests)
        if found is None or found.n < FEWEST:
            few = "no seed in common" if found is None else found.doubt
            doubts.append(f"{few} for {low.pooling} and {high.pooling}")
            continue
        settled = bool(found.settled)
        if low.test.mean < high.test.mean:
            right.append((f"{low.pooling} < {high.pooling}", settled))
        else:
            sign = ">" if low.test.mean > high.test.mean else "="
            step = f"{low.pooling} {low.test.mean:.2f} {sign} {high.pooling} {high.test.mean:.2f}"
            wrong.append((f"{step} ({_interval(found)})", settled))
    return right, wrong, doubts


def generalisation(rows: Sequence[Row]) -> str:
    """Whether the paper's claim holds: a smaller gap between train and test error than its rivals have."""
    first = min(rows, key=lambda row: row.gap.mean)
    words = f"Smallest train-test gap: {first.pooling} with {first.gap.mean:.2f} points"
    base = next((row for row in rows if row.pooling == BASELINE), None)
    if base is not None and base is not first:
        words += f", {BASELINE} has {base.gap.mean:.2f} ({support(difference(first.gaps, base.gaps))})"
    proposed = next((row for row in rows if row.pooling == PRINTED), None)
    others = [row for row in rows if row.pooling in RIVALS]
    if proposed is None or not others:
        return f"{words}."
    nearest = min(others, key=lambda row: row.gap.mean)
    found = difference(proposed.gaps, nearest.gaps)
    figures = f"{PRINTED} {proposed.gap.mean:.2f}, {nearest.pooling} {nearest.gap.mean:.2f}; {_interval(found)}"
    smaller = proposed.gap.mean < nearest.gap.mean
    if found is None or found.doubt:
        judged = "cannot be judged"
    elif not found.settled:
        judged = f"is {'seen, but' if smaller else 'not seen, though'} the seeds do not settle it"
    else:
        judged = "holds" if smaller else "does not hold"
    *some, last = sorted(row.pooling for row in others)
    rivals = f"{', '.join(some)} and {last}" if some else last
    highest = max(rows, key=lambda row: row.train.mean)
    return (
        f"{words}. The paper's claim that its method has a smaller gap than {rivals} {judged} ({figures}); "
        f"the highest training error is that of {highest.pooling} ({highest.train.mean:.2f}%)."
    )


def _interval(found: Difference | None) -> str:
    if found is None:
        return "no seed in common"
    return f"95% interval of the difference {found.interval}" if found.error else found.doubt


def _error(row: Row) -> float:
    return row.test.mean


def _seeds(n: int) -> str:
    return "one seed only" if n == 1 else f"mean of {n} seeds"
