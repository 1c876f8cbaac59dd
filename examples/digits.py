"""Rank and project scikit-learn's digits, and draw what was found: ``python examples/digits.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import multipartite as mp


def main(folder: Path) -> None:
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(digits.data, digits.target, test_size=0.3, random_state=0)

    ranking = mp.rank_features(X, y, "information")
    best = ", ".join(f"({j // 8}, {j % 8})" for j in ranking.order[:3])
    print(f"Pixels (row, column) that tell the digits apart best, of 64: {best}")

    raw = GaussianNB().fit(X, y).score(X_test, y_test)
    projected = make_pipeline(mp.SupervisedProjection(), GaussianNB()).fit(X, y).score(X_test, y_test)
    print(f"Naive Bayes on {len(X_test)} unseen digits: {raw:.1%} right in 64 pixels, {projected:.1%} projected")

    order = mp.InstanceRanker().fit(X, y).rank(X_test)
    plane = mp.SupervisedProjection(n_components=2).fit(X, y).transform(X_test)
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "digits.png"
    draw(ranking.scores, plane, X_test, y_test, order, picture)
    print(f"Drew the scores, the projection, the highest and the lowest ranked digits to {picture}")


def draw(scores: np.ndarray, plane: np.ndarray, X: np.ndarray, y: np.ndarray, order: np.ndarray, picture: Path) -> None:
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    pixels, scatter, rows = figure.subfigures(1, 3, width_ratios=[3, 4, 5])

    axes = pixels.subplots()
    shown = axes.imshow(scores.reshape(8, 8), cmap="Blues")
    pixels.colorbar(shown, shrink=0.6)
    axes.set(title="score of every pixel", xticks=[], yticks=[])

    axes = scatter.subplots()
    for digit in range(10):
        axes.scatter(*plane[y == digit].T, s=6, color=f"C{digit}")
        axes.annotate(str(digit), plane[y == digit].mean(0), fontsize=14, weight="bold", ha="center", va="center")
    axes.set(title="two leading directions, unseen digits", xticks=[], yticks=[])

    grid = rows.subplots(4, 6)
    rows.suptitle("highest (above) and lowest (below) ranked", fontsize=12)
    for cell, j in zip(grid.flat, [*order[:12], *order[-12:]], strict=True):
        cell.imshow(X[j].reshape(8, 8), cmap="gray_r")
        cell.set_axis_off()
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
