"""The paper's curves: objective, top-1 and top-5 error over the epochs, as means over the seeds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from multipartite.experiments.report.collection import Collection

__all__ = ["METRICS", "Curve", "curves"]

METRICS = {"objective": "objective", "top1": "top-1 error, %", "top5": "top-5 error, %"}


@dataclass(frozen=True)
class Curve:
    """One figure of one pooling over the epochs; `validation` is empty without a validation part.

    `train` is the mean while training, as in the paper; `test` is the one value at the end, for the test set is read
    only once.
    """

    pooling: str
    metric: str
    train: tuple[float, ...]
    validation: tuple[float, ...]
    test: float


def curves(collection: Collection) -> list[Curve]:
    """Average the epochs of all seeds: a curve for every pooling and every name in `METRICS`."""
    found = []
    for pooling, runs in collection.runs.items():
        epochs = list(zip(*(run.metrics for run in runs.values()), strict=True))  # [epoch][seed]
        for metric in METRICS:
            train = tuple(statistics.fmean(getattr(e.train, metric) for e in seeds) for seeds in epochs)
            validation = tuple(
                statistics.fmean(getattr(e.validation, metric) for e in seeds)
                for seeds in epochs
                if all(e.validation is not None for e in seeds)
            )
            tests = [getattr(s.test, metric) for s in collection.summaries(pooling).values()]
            found.append(Curve(pooling, metric, train, validation, statistics.fmean(tests)))
    return found
