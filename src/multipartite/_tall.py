"""Moments of a tall table, for the memory and the cores that it deserves.

A table of a million rows is read once, a few thousand rows at a time, so that what is computed from them stays in a
cache; spans of rows run in threads of their own, each with BLAS on one core, and are merged exactly.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from multipartite._threads import one_blas_thread

__all__ = ["LEAST_ROWS", "tall_moments"]

LEAST_ROWS = 1 << 15  # fewer rows are not worth a thread
_CHUNK = 1 << 18  # numbers centred at a time, and held in a cache
_WHOLE = 1 << 19  # numbers multiplied at a time where they stay where they are
_NEAR = {8: 100, 4: 1}  # by bytes a number: the square of a mean over the variance up to which rows stay as they are
_GLANCE = 1024  # rows, spread over the span, that show where the classes lie

Array: TypeAlias = npt.NDArray[Any]


def tall_moments(
    X: Array, y: npt.NDArray[np.int64], num_classes: int, threads: int
) -> list[tuple[Array, Array, Array]]:
    """Count, class means and scatter of spans of rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows, in float32 or float64.
    y : array of shape (n,)
        Class indices in [0, num_classes).
    threads : int
        How many spans to work on at once.

    Returns
    -------
    list of (count (c,), mean (c, d), scatter (d, d)), in float64

    Examples
    --------
    >>> X = np.array([[0.0], [2.0], [9.0], [11.0]])
    >>> [(count, mean, scatter)] = tall_moments(X, np.array([0, 0, 1, 1]), 2, threads=1)
    >>> count.tolist(), mean.ravel().tolist(), scatter.item()
    ([2.0, 2.0], [1.0, 10.0], 4.0)
    """
    edges = np.linspace(0, len(X), threads + 1).astype(int)
    spans = [slice(a, b) for a, b in pairwise(edges) if b > a]
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda span: _moments(X[span], y[span], num_classes), spans))


def _moments(X: Array, y: npt.NDArray[np.integer], num_classes: int) -> tuple[Array, Array, Array]:
    d = X.shape[1]
    y = y.astype(np.int32)  # what sparse products work with
    a, far = _origins(X, y, num_classes)
    rows = max(1, (_CHUNK if far else _WHOLE) // d)
    z = np.empty((min(rows, len(X)), d) if far else (0, d), X.dtype)
    scatter, sums = np.zeros((d, d)), np.zeros((num_classes, d))
    for start in range(0, len(X), rows):
        x, labels = X[start : start + rows], y[start : start + rows]
        if far:
            centred = z[: len(x)]
            np.take(a, labels, axis=0, out=centred, mode="clip")
            x = np.subtract(x, centred, out=centred)
        sums += _class_sums(x, labels, num_classes)  # first, for it brings the rows into the cache fastest
        scatter += x.T @ x  # NumPy sees that this is symmetric and computes half of it
    n = np.bincount(y, minlength=num_classes).astype(np.float64)
    delta = sums / np.maximum(n, 1)[:, None]
    return n, (a + delta) * (n > 0)[:, None], scatter - (delta * n[:, None]).T @ delta


def _origins(X: Array, y: npt.NDArray[np.integer], num_classes: int) -> tuple[Array, bool]:
    """About where every class lies, and whether that is far from zero; being off costs digits, not exactness.

    Squared about zero, numbers lose as many digits as the square of their mean has more than their variance. Where
    none goes in float32, or two of sixteen in float64, rows need not be centred: the origin of all is zero.
    """
    step = max(1, len(X) // _GLANCE)
    x, labels = X[::step].astype(np.float64), y[::step]
    n = np.bincount(labels, minlength=num_classes)[:, None]
    a = np.where(n > 0, _class_sums(x, labels, num_classes) / np.maximum(n, 1), x.mean(axis=0))
    variance = np.square(x - a[labels]).mean(axis=0)
    if np.all(np.square(a) <= _NEAR[X.itemsize] * variance):
        return np.zeros_like(a), False
    return a.astype(X.dtype), True


def _class_sums(x: Array, labels: npt.NDArray[np.integer], num_classes: int) -> Array:
    """Sum of the rows of every class, (c, d)."""
    from scipy.sparse import csc_array  # comes with scikit-learn

    n = len(x)
    sums: Array = csc_array((np.ones(n, x.dtype), labels, np.arange(n + 1, dtype=np.int32)), (num_classes, n)) @ x
    return sums
