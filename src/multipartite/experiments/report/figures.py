"""Figures as PNG: errors and curves of a report, ranks and cost of a summary."""

from __future__ import annotations

import io
import statistics
from collections.abc import Mapping, Sequence

from multipartite.experiments.report.tables import METRICS, Curve, Row

__all__ = ["cost_figure", "curve_figure", "error_figure", "rank_figure"]


def error_figure(rows: Sequence[Row]) -> bytes:
    """Draw training and test error of every pooling, from ring to disc."""
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


def curve_figure(drawn: Sequence[Curve]) -> bytes:
    """Draw the curves over the epochs, a panel a metric."""
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


def rank_figure(ranks: Mapping[str, Sequence[float]], critical: float, groups: Sequence[tuple[int, int]]) -> bytes:
    """Draw a diagram of critical differences: mean ranks, and bars over what is not told apart.

    Parameters
    ----------
    ranks : mapping of pooling to ranks
        One a comparison; the lowest mean first.
    critical : float
        Difference from which two mean ranks are told apart.
    groups : sequence of (first, last)
        Places that are not told apart.
    """
    from matplotlib.figure import Figure

    k, above = len(ranks), 0.55 + 0.28 * len(groups)
    figure = Figure(figsize=(8, 1.1 + 0.42 * k + 0.2 * len(groups)), layout="constrained")
    axes = figure.subplots()
    means = [statistics.fmean(each) for each in ranks.values()]
    for place, (each, mean) in enumerate(zip(ranks.values(), means, strict=True)):
        colour = _colour(place)
        axes.plot([mean, mean], [-above, place], color=colour, alpha=0.35, linewidth=1)
        axes.plot(each, [place] * len(each), "o", color=colour, alpha=0.3, markersize=4)
        axes.plot(mean, place, "o", color=colour, markersize=9)
        axes.annotate(f"{mean:.2f}", (mean, place), (8, 5), textcoords="offset points", fontsize=8)
    for number, (first, last) in enumerate(groups):
        line = -above + 0.35 + 0.28 * number
        axes.plot([means[first] - 0.04, means[last] + 0.04], [line, line], color="black", linewidth=4)
    axes.set_yticks(range(k), [_plain(pooling) for pooling in ranks])
    axes.set(xlim=(0.9, k + 0.1), ylim=(k - 0.5, -above), xticks=range(1, k + 1))
    axes.xaxis.tick_top()
    axes.set_title(f"mean rank; the critical difference is {critical:.2f}", fontsize=10)
    axes.spines[["bottom", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return _png(figure)


def cost_figure(places: Mapping[str, tuple[float, float]]) -> bytes:
    """Draw error against training time, each as a multiple of max pooling's; numbers are those of the legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.6 + 0.2 * len(places)), layout="constrained")
    axes = figure.subplots()
    for place, (pooling, (time, error)) in enumerate(places.items()):
        label = f"{place + 1} {_plain(pooling)}"
        axes.plot(time, error, "o", color=_colour(place), markersize=15, label=label)
        axes.annotate(str(place + 1), (time, error), color="white", ha="center", va="center", fontsize=8, weight="bold")
    axes.axhline(1, color="grey", linewidth=0.8, zorder=0)
    axes.axvline(1, color="grey", linewidth=0.8, zorder=0)
    axes.set(xlabel="training time, max = 1", ylabel="error, max = 1")
    axes.margins(0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    figure.legend(loc="outside lower center", ncols=1, frameon=False, markerscale=0.5, fontsize=9)
    return _png(figure)


def _colour(place: int) -> str:
    return f"C{place % 10}"


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # no mathematics in names


def _png(figure: object) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})  # type: ignore[attr-defined]
    return buffer.getvalue()
