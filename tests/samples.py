"""Labelled rows that the tests of the mathematics share."""

from __future__ import annotations

import numpy as np
import torch

from multipartite.statistics import ClassStatistics


def blobs(seed=0, n=90, d=5, c=3, *, apart=2.0, sizes=None):
    """Correlated Gaussian classes of unequal spread; every class occurs, unless `sizes` says otherwise."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(c), sizes) if sizes is not None else rng.permutation(np.arange(n) % c)
    means = apart * rng.normal(size=(c, d))
    mixing = np.eye(d) + 0.4 * rng.normal(size=(d, d))
    X = means[y] + rng.normal(size=(len(y), d)) * rng.uniform(0.5, 2, size=(c, 1))[y] @ mixing
    return X, y


def statistics_of(X, y, c=None, **options):
    """Statistics of rows in one pass."""
    X, y = torch.as_tensor(X), torch.as_tensor(y)
    return ClassStatistics(int(y.max()) + 1 if c is None else c, X.shape[1], **options).update(X, y)


# Awkward data, each with the number of classes asked for
ROWS = np.random.default_rng(7).normal(size=(40, 4))
AWKWARD = {
    "fewer columns than classes": (*blobs(1, 60, 2, 6), 6),
    "one column": (*blobs(2, 60, 1, 4), 4),
    "two classes": (*blobs(3, 40, 4, 2), 2),
    "a class absent": (*blobs(4, 60, 4, 3), 5),
    "the first class absent": (ROWS, 1 + np.arange(40) % 3, 4),
    "one class only": (ROWS, np.zeros(40, dtype=int), 3),
    "a constant column": (np.c_[ROWS, np.full(40, 0.1)], np.arange(40) % 3, 3),
    "duplicated columns": (np.c_[ROWS, ROWS], np.arange(40) % 3, 3),
    "fewer rows than columns": (*blobs(5, 6, 12, 3), 3),
    "one row": (ROWS[:1], np.array([1]), 3),
    "a row a class": (ROWS[:3], np.arange(3), 3),
    "all zero": (np.zeros((20, 4)), np.arange(20) % 3, 3),
    "no spread within a class": (np.eye(3)[np.arange(12) % 3], np.arange(12) % 3, 3),
    "class means on a line": (
        np.array([[-1.0, 3], [-1, 5], [0, 3], [0, 5], [1, 3], [1, 5]]),
        np.arange(6) // 2,
        3,
    ),
    "tiny numbers": (1e-12 * ROWS, np.arange(40) % 3, 3),
    "huge numbers": (1e12 * ROWS, np.arange(40) % 3, 3),
}
