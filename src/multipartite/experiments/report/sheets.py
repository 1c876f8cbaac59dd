"""The report as CSV: numbers for other programs, at full precision.

``errors.csv``, ``runs.csv`` and ``curves.csv`` hold what seeds and settings decide, so that equal comparisons give
equal files; what depends on the machine's mood is in ``cost.csv``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from multipartite.experiments.report.collection import Collection
from multipartite.experiments.report.curves import Curve
from multipartite.experiments.report.table import Row

__all__ = ["sheets"]


def sheets(collection: Collection, rows: Sequence[Row], drawn: Sequence[Curve]) -> dict[str, str]:
    """Give the text of every CSV file by its name."""
    return {
        "errors.csv": _csv(map(_errors, rows)),
        "cost.csv": _csv(map(_cost, rows)),
        "runs.csv": _csv(_runs(collection)),
        "curves.csv": _csv(_points(drawn)),
    }


def _errors(row: Row) -> dict[str, object]:
    paper = row.paper or (None, None)
    versus = row.versus
    return {
        "pooling": row.pooling,
        "seeds": row.test.n,
        "train_mean": row.train.mean,
        "train_sd": row.train.sd,
        "test_mean": row.test.mean,
        "test_sd": row.test.sd,
        "test_top5_mean": row.test5.mean,
        "test_top5_sd": row.test5.sd,
        "gap_mean": row.gap.mean,
        "gap_sd": row.gap.sd,
        "minus_max": versus.mean if versus else None,
        "minus_max_low": versus.low if versus else None,
        "minus_max_high": versus.high if versus else None,
        "minus_max_pairs": versus.n if versus else None,
        "paper_train": paper[0],
        "paper_test": paper[1],
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
    for pooling in collection.runs:
        for seed, summary in collection.summaries(pooling).items():
            parts = {"train": summary.train, "validation": summary.validation, "test": summary.test}
            metrics = {
                f"{part}_{name}": getattr(found, name, None)
                for part, found in parts.items()
                for name in ("objective", "top1", "top5")
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


def _csv(records: Iterable[dict[str, object]]) -> str:
    text = io.StringIO()
    listed = list(records)
    writer = csv.DictWriter(text, list(listed[0]) if listed else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return text.getvalue()
