"""The figures of a report as PNG: errors of every pooling, and curves over the epochs."""

from __future__ import annotations

import io
from collections.abc import Sequence

from multipartite.experiments.report.tables import METRICS, Curve, Row

__all__ = ["figures"]


def figures(rows: Sequence[Row], drawn: Sequence[Curve]) -> dict[str, bytes]:
    """Give every PNG file by its name."""
    return {"errors.png": _errors(rows), "curves.png": _curves(drawn)}


def _colour(place: int) -> str:
    return f"C{place % 10}"


def _errors(rows: Sequence[Row]) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.2 + 0.45 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        colour = _colour(place)
        axes.plot([row.train.mean, row.test.mean], [place, place], color=colour, alpha=0.4, linewidth=3)
        axes.plot(row.train.values, [place] * row.train.n, "o", color=colour, alpha=0.3, markersize=4)
        axes.plot(row.test.values, [place] * row.test.n, "o", color=colour, alpha=0.3, markersize=4)
        axes.plot(row.train.mean, place, "o", color=colour, fillstyle="none", markersize=9)
        axes.plot(row.test.mean, place, "o", color=colour, markersize=9)
    axes.set_yticks(range(len(rows)), [_plain(row.pooling) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("error, %: training (ring) to test (disc); small dots are seeds")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.2)
    return _png(figure)


def _curves(drawn: Sequence[Curve]) -> bytes:
    from matplotlib.figure import Figure

    poolings = list(dict.fromkeys(curve.pooling for curve in drawn))
    metrics = list(dict.fromkeys(curve.metric for curve in drawn))
    figure = Figure(figsize=(4.4 * len(metrics), 4.4), layout="constrained")
    for axes, metric in zip(figure.subplots(1, len(metrics)), metrics, strict=True):
        for curve in (curve for curve in drawn if curve.metric == metric):
            colour = _colour(poolings.index(curve.pooling))
            epochs = range(1, len(curve.train) + 1)
            axes.plot(epochs, curve.train, "--", color=colour, linewidth=1, alpha=0.7)
            name = _plain(curve.pooling)
            if curve.validation:
                axes.plot(epochs, curve.validation, color=colour, label=name)
            axes.plot(len(curve.train), curve.test, "D", color=colour, markersize=5)
            if not curve.validation:
                axes.plot([], [], color=colour, label=name)
        axes.set(xlabel="epoch", title=METRICS[metric])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return _png(figure)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # no mathematics in names


def _png(figure: object) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})  # type: ignore[attr-defined]
    return buffer.getvalue()
