"""Draw the paper's Figures 1 and 2 from real data, scikit-learn's digits, into docs/figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import multipartite as mp
from multipartite.instance_ranking import one_versus_rest

FOLDER = Path(__file__).parent / "figures"
PER_CLASS = 6
INK = "#3b6ea5"


def main() -> None:
    """Rank the columns and the rows of the digits, and draw both figures."""
    X, y = load_digits(return_X_y=True)
    ranker = mp.InstanceRanker().fit(X, y)
    shown = np.concatenate([np.flatnonzero(y == j)[:PER_CLASS] for j in range(10)])  # sorted by class
    P = X[shown] @ ranker.A_  # [rows, classes]
    variance = torch.from_numpy((ranker.A_ * (ranker.statistics_.within[0].numpy() @ ranker.A_)).sum(0))
    KL = one_versus_rest(torch.from_numpy(P), variance).numpy()  # [rows, classes]
    total = ranker.score_samples(X[shown])
    FOLDER.mkdir(exist_ok=True)
    draw_feature_and_instance_ranking(X[shown], mp.rank_features(X, y, "information").scores, P, total)
    draw_accumulation(P, KL)


def draw_feature_and_instance_ranking(X: np.ndarray, columns: np.ndarray, P: np.ndarray, rows: np.ndarray) -> None:
    """Figure 1: columns of X scored by Eq. 2, and rows of P = XA by Eq. 3."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots(2, 3, width_ratios=[5, 2, 2], height_ratios=[1, 4])
    axes[0, 0].bar(range(X.shape[1]), columns, color=INK, width=0.9)
    axes[0, 0].set(title="column scores (Eq. 2, information)", xticks=[], xlim=(-0.5, X.shape[1] - 0.5))
    matrix(axes[1, 0], X, "gray_r", "X: 64 pixels, rows sorted by digit")
    for empty in axes[0, 1:]:
        empty.set_axis_off()
    matrix(axes[1, 1], P, "RdBu_r", "P = XA")
    axes[1, 1].set_xticks(range(10))
    axes[1, 2].barh(range(len(rows)), rows, color=INK, height=0.9)
    axes[1, 2].set(title="row scores (Eq. 3, kl)", yticks=[], ylim=(len(rows) - 0.5, -0.5))
    bare(axes[0, 0], axes[1, 2])
    figure.savefig(FOLDER / "feature-and-instance-ranking.png", dpi=110)


def draw_accumulation(P: np.ndarray, KL: np.ndarray) -> None:
    """Figure 2: one-versus-all scores of every projected row, accumulated over its columns, rows by rank."""
    order = np.argsort(-KL.sum(1), kind="stable")
    digits = np.repeat(np.arange(10), PER_CLASS)[order]
    figure = Figure(figsize=(11, 6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[2, 2, 4])
    matrix(left, P[order], "RdBu_r", "P, rows by rank", digits)
    matrix(middle, KL[order], "Blues", "one-versus-all KL", digits)
    for axes in (left, middle):
        axes.set(xticks=range(10), xlabel="class i")
    ends = np.cumsum(KL[order], axis=1)
    colours = [f"C{j}" for j in range(10)]
    for j, colour in enumerate(colours):
        right.barh(range(len(P)), KL[order, j], left=ends[:, j] - KL[order, j], color=colour, height=0.9, label=j)
    right.set(title="summed over the classes: the overall criterion", yticks=[], ylim=(len(P) - 0.5, -0.5))
    right.legend(title="class i", frameon=False, loc="lower right")
    bare(right)
    figure.savefig(FOLDER / "multipartite-ranking.png", dpi=110)


def matrix(axes: Axes, values: np.ndarray, colours: str, title: str, digits: np.ndarray | None = None) -> None:
    """Show a matrix, diverging colours about zero, with the digit that each row or block of rows is."""
    limit = np.abs(values).max()
    low = -limit if values.min() < 0 else 0
    axes.imshow(values, cmap=colours, vmin=low, vmax=limit, aspect="auto", interpolation="nearest")
    places = np.arange(10) * PER_CLASS + (PER_CLASS - 1) / 2 if digits is None else np.arange(len(values))
    names = range(10) if digits is None else digits
    axes.set_yticks(places, names, fontsize=9 if digits is None else 5)
    axes.set(title=title, xticks=[])


def bare(*several: Axes) -> None:
    """Take the frame away where it says nothing."""
    for axes in several:
        axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
