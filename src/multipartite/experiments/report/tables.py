"""The numbers of a report: a row a pooling, the curves over the epochs, and both as CSV for other programs.

A row has errors, gap, difference to max pooling, cost, and the paper's figures. ``errors.csv``, ``runs.csv`` and
``curves.csv`` hold what seeds and settings decide, so that equal comparisons give equal files; what depends on the
machine's mood is in ``cost.csv``.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from multipartite.experiments.report.collection import BASELINE, Collection
from multipartite.experiments.report.estimates import Difference, Estimate, difference, estimate, holm
from multipartite.experiments.run.store import Summary
from multipartite.words import Places

__all__ = [
    "METRICS",
    "PRINTED",
    "RIVALS",
    "TABLES",
    "Curve",
    "Named",
    "Row",
    "csv_text",
    "curves",
    "order",
    "printed",
    "sheets",
    "tabulate",
]

METRICS = {"objective": "objective", "top1": "top-1 error, %", "top5": "top-5 error, %"}
PRINTED = "multipartite-printed"  # the paper's algorithm to the letter
RIVALS = ("average", "max", "stochastic")  # what the paper holds it against

# The paper's tables of MNIST, CIFAR and SVHN: train and test error in percent
_FIGURES = {
    "mnist": ((0.57, 0.83), (0.04, 0.55), (0.33, 0.47), (0.38, 0.41)),
    "cifar10": ((1.92, 19.24), (0.0, 19.40), (3.40, 15.13), (12.63, 13.45)),
    "cifar100": ((11.20, 47.77), (0.17, 50.90), (21.22, 42.51), (36.32, 40.81)),
    "svhn": ((1.65, 3.72), (0.13, 3.81), (1.41, 2.80), (2.09, 2.15)),
}
TABLES: dict[str, dict[str, tuple[float, float]]] = {
    name: dict(zip((*RIVALS, PRINTED), figures, strict=True)) for name, figures in _FIGURES.items()
}


@dataclass(frozen=True)
class Named:
    """Known by the word of a `pooling`, whose name and options a page shows apart, place by place where places differ.

    Examples
    --------
    >>> each = Named("max|multipartite:groups=2")
    >>> each.name, each.options, Named("max").options
    ('max|multipartite', '-|groups=2', '')
    """

    pooling: str

    @property
    def name(self) -> str:
        """The pooling without its options."""
        return "|".join(word.name for word in Places.parse(self.pooling).words)

    @property
    def options(self) -> str:
        """The options alone; empty where there are none."""
        given = [",".join(f"{k}={v}" for k, v in word.options) for word in Places.parse(self.pooling).words]
        return "|".join(text or "-" for text in given) if any(given) else ""


@dataclass(frozen=True)
class Row(Named):
    """One pooling: errors in percent, the gap is test - train, cost as medians over the seeds.

    `tests` and `gaps` are the test error and the gap of every seed; `versus` and `gap_versus` are their differences to
    max pooling, `corrected` the former after Holm's correction for the number of poolings. `speed` is in images/s,
    `ratio` relative to max pooling, None where no two runs can be held against each other; `memory` in bytes; `paper`
    is the paper's train and test error.
    """

    train: Estimate
    test: Estimate
    test5: Estimate
    gap: Estimate
    tests: dict[int, float]
    gaps: dict[int, float]
    versus: Difference | None
    corrected: Difference | None
    gap_versus: Difference | None
    paper: tuple[float, float] | None
    speed: float
    ratio: float | None
    memory: int
    parameters: int


def tabulate(
    summaries: Mapping[str, Mapping[int, Summary]],
    dataset: str,
    origins: Mapping[str, Mapping[int, object]] | None = None,
) -> list[Row]:
    """Condense finished runs, by pooling and seed, to a row a pooling, the lowest mean test error first.

    With `origins`, what made each run, speed is held against max pooling's only where both have the same one: runs of
    other code are of another day, often of another machine, and errors can be compared but seconds cannot.
    """
    tests = {pooling: {s: each.test.top1 for s, each in found.items()} for pooling, found in summaries.items()}
    gaps = {p: {s: each.test.top1 - each.train.top1 for s, each in found.items()} for p, found in summaries.items()}
    base = summaries.get(BASELINE, {})
    versus = _versus(tests)
    corrected, gap_versus = holm(versus), _versus(gaps)
    rows = []
    for pooling, found in summaries.items():
        ratios = [
            found[seed].samples_per_second / base[seed].samples_per_second
            for seed in found
            if seed in base and (origins is None or origins[pooling][seed] == origins[BASELINE][seed])
        ]
        row = Row(
            pooling=pooling,
            train=estimate([s.train.top1 for s in found.values()]),
            test=estimate(list(tests[pooling].values())),
            test5=estimate([s.test.top5 for s in found.values()]),
            gap=estimate(list(gaps[pooling].values())),
            tests=tests[pooling],
            gaps=gaps[pooling],
            versus=versus.get(pooling),
            corrected=corrected.get(pooling),
            gap_versus=gap_versus.get(pooling),
            paper=printed(dataset, pooling),
            speed=statistics.median(s.samples_per_second for s in found.values()),
            ratio=statistics.median(ratios) if ratios else None,
            memory=round(statistics.median(s.peak_memory for s in found.values())),
            parameters=next(iter(found.values())).parameters,
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.test.mean, row.pooling))


def _versus(values: Mapping[str, Mapping[int, float]]) -> dict[str, Difference]:
    """Differences of every pooling to max pooling, where there is a seed in common."""
    found = {p: difference(by_seed, values.get(BASELINE, {})) for p, by_seed in values.items() if p != BASELINE}
    return {pooling: each for pooling, each in found.items() if each is not None}


def printed(dataset: str, pooling: str) -> tuple[float, float] | None:
    """Train and test error that the paper gives for just this pooling, None where it gives none.

    Examples
    --------
    >>> printed("mnist", "multipartite-printed"), printed("mnist", "multipartite")
    ((0.38, 0.41), None)
    """
    return TABLES.get(dataset, {}).get(pooling)


def order(dataset: str) -> list[tuple[str, ...]]:
    """Poolings from the lowest test error to the highest; those that the tables do not order share a place.

    For a data set that is not in the paper it is what all its tables agree in.

    Examples
    --------
    >>> order("mnist")
    [('multipartite-printed',), ('stochastic',), ('max',), ('average',)]
    >>> order("digits")
    [('multipartite-printed',), ('stochastic',), ('max', 'average')]
    """
    if dataset in TABLES:
        table = TABLES[dataset]
        return [(name,) for name in sorted(table, key=lambda name: table[name][1])]
    return [(PRINTED,), ("stochastic",), ("max", "average")]


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


def curves(collection: Collection, poolings: Iterable[str]) -> list[Curve]:
    """Average the epochs of all seeds: a curve for each of `poolings` and every name in `METRICS`.

    A top-5 error that is zero throughout, as with five classes or fewer, is left out.
    """
    found = []
    for pooling in poolings:
        runs = collection.runs[pooling]
        epochs = list(zip(*(run.metrics for run in runs.values()), strict=True))  # [epoch][seed]
        for metric in METRICS:
            train = tuple(statistics.fmean(getattr(e.train, metric) for e in seeds) for seeds in epochs)
            validation = tuple(
                statistics.fmean(getattr(e.validation, metric) for e in seeds)
                for seeds in epochs
                if all(e.validation is not None for e in seeds)
            )
            tests = [getattr(s.test, metric) for s in collection.summaries[pooling].values()]
            found.append(Curve(pooling, metric, train, validation, statistics.fmean(tests)))
    if any(value for c in found if c.metric == "top5" for value in (*c.train, *c.validation, c.test)):
        return found
    return [curve for curve in found if curve.metric != "top5"]


def sheets(collection: Collection, rows: Sequence[Row], drawn: Sequence[Curve]) -> dict[str, str]:
    """Give the text of every CSV file by its name; without a top-5 error where five classes or fewer make it zero."""
    runs = [summary for found in collection.summaries.values() for summary in found.values()]
    top5 = any("top5" in run.test.telling(run.classes) for run in runs)
    return {
        "errors.csv": csv_text(_errors(row, top5) for row in rows),
        "cost.csv": csv_text(map(_cost, rows)),
        "runs.csv": csv_text(_runs(collection)),
        "curves.csv": csv_text(_points(drawn)),
    }


def _errors(row: Row, top5: bool) -> dict[str, object]:
    paper = row.paper or (None, None)
    return {
        "pooling": row.pooling,
        "seeds": row.test.n,
        "train_mean": row.train.mean,
        "train_sd": row.train.sd,
        "test_mean": row.test.mean,
        "test_sd": row.test.sd,
        **({"test_top5_mean": row.test5.mean, "test_top5_sd": row.test5.sd} if top5 else {}),
        "gap_mean": row.gap.mean,
        "gap_sd": row.gap.sd,
        **_interval("minus_max", row.versus),
        "minus_max_pairs": row.versus.n if row.versus else None,
        **_interval("minus_max_holm", row.corrected),
        **_interval("gap_minus_max", row.gap_versus),
        "paper_train": paper[0],
        "paper_test": paper[1],
    }


def _interval(name: str, found: Difference | None) -> dict[str, object]:
    return {
        name: found and found.mean,
        f"{name}_low": found and found.low,
        f"{name}_high": found and found.high,
        f"{name}_p": found and found.p,
    }


def _cost(row: Row) -> dict[str, object]:
    return {
        "pooling": row.pooling,
        "images_per_second": row.speed,
        "ratio_to_max": row.ratio,
        "peak_memory_bytes": row.memory,
        "parameters": row.parameters,
    }


def _runs(collection: Collection) -> Iterable[dict[str, object]]:
    for pooling, found in collection.summaries.items():
        for seed, summary in found.items():
            parts = {"train": summary.train, "validation": summary.validation, "test": summary.test}
            metrics = {
                f"{part}_{name}": getattr(found, name, None)
                for part, found in parts.items()
                for name in summary.test.telling(summary.classes)
            }
            yield {"pooling": pooling, "seed": seed, **metrics, "key": summary.key, "final": summary.final}


def _points(drawn: Iterable[Curve]) -> Iterable[dict[str, object]]:
    for curve in drawn:
        for epoch, value in enumerate(curve.train):
            validation = curve.validation[epoch] if curve.validation else None
            yield {
                "pooling": curve.pooling,
                "metric": curve.metric,
                "epoch": epoch + 1,
                "train": value,
                "validation": validation,
            }


def csv_text(records: Iterable[dict[str, object]]) -> str:
    """Write records as CSV, one a line, under the names of the first.

    Examples
    --------
    >>> print(csv_text([{"pooling": "max", "test": 1.5}]), end="")
    pooling,test
    max,1.5
    """
    text = io.StringIO()
    listed = list(records)
    writer = csv.DictWriter(text, list(listed[0]) if listed else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return text.getvalue()
