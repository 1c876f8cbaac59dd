"""The rows of the report's tables: errors, gap, difference to max pooling, cost, and the paper's figures."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from multipartite.experiments.report.collection import BASELINE, Collection
from multipartite.experiments.report.estimates import Difference, Estimate, difference, estimate
from multipartite.experiments.report.paper import printed

__all__ = ["Row", "tabulate"]


@dataclass(frozen=True)
class Row:
    """One pooling: errors in percent, the gap is test - train, cost as medians over the seeds.

    `by_seed` is the test error of every seed; `speed` is in images/s, `ratio` relative to max pooling, `memory`
    in bytes; `paper` is the paper's train and test error.
    """

    pooling: str
    train: Estimate
    test: Estimate
    test5: Estimate
    gap: Estimate
    by_seed: dict[int, float]
    versus: Difference | None
    paper: tuple[float, float] | None
    speed: float
    ratio: float | None
    memory: int
    parameters: int

    @property
    def name(self) -> str:
        """The pooling without its options."""
        return self.pooling.partition(":")[0]

    @property
    def options(self) -> str:
        """The options alone."""
        return self.pooling.partition(":")[2]


def tabulate(collection: Collection) -> list[Row]:
    """Condense the runs to a row a pooling."""
    base = collection.summaries(BASELINE) if BASELINE in collection.runs else {}
    errors = {seed: summary.test.top1 for seed, summary in base.items()}
    rows = []
    for pooling in collection.runs:
        found = collection.summaries(pooling)
        test = {seed: summary.test.top1 for seed, summary in found.items()}
        ratios = [found[seed].samples_per_second / base[seed].samples_per_second for seed in found if seed in base]
        row = Row(
            pooling=pooling,
            train=estimate([s.train.top1 for s in found.values()]),
            test=estimate(list(test.values())),
            test5=estimate([s.test.top5 for s in found.values()]),
            gap=estimate([s.test.top1 - s.train.top1 for s in found.values()]),
            by_seed=test,
            versus=None if pooling == BASELINE else difference(test, errors),
            paper=printed(collection.config.dataset, pooling),
            speed=statistics.median(s.samples_per_second for s in found.values()),
            ratio=statistics.median(ratios) if ratios else None,
            memory=round(statistics.median(s.peak_memory for s in found.values())),
            parameters=next(iter(found.values())).parameters,
        )
        rows.append(row)
    return rows
