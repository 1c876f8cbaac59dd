"""How rows and labels come in at the public boundary: what is refused, each with one clear sentence, and shared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from torch import Tensor

from multipartite.errors import InputError, warn

__all__ = ["as_tensor", "check_classes", "check_finite", "check_weight", "encode_labels", "is_sparse"]

_FEW = 20  # rows that may well be of as many classes


def as_tensor(X: Any) -> Tensor:
    """View an array as a tensor, to read from; a tensor is one already, and a list becomes one.

    Examples
    --------
    >>> as_tensor(np.broadcast_to(np.ones(1), (2, 2))).shape
    torch.Size([2, 2])
    """
    if not isinstance(X, np.ndarray):
        return torch.as_tensor(X)
    if min(X.strides, default=0) < 0:
        X = X.copy()  # torch knows no negative strides
    if X.flags.writeable:
        return torch.from_numpy(X)
    with warnings.catch_warnings():  # of read-only arrays, such as memory maps and the columns of a data frame
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(X)


def is_sparse(X: Any) -> bool:
    """Whether X is a matrix of SciPy's that holds what is not zero.

    Examples
    --------
    >>> is_sparse(np.eye(2))
    False
    """
    return bool(issparse(X))


def check_finite(X: Any, names: Sequence[object] | None = None) -> None:
    """Refuse NaN and infinity in an array or a sparse matrix, and say in which columns they are.

    Examples
    --------
    >>> check_finite(np.array([[1.0, np.nan]]), ["a", "b"])
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: X must be finite, got NaN or inf in column b: fill or drop these rows
    """
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = X.data if is_sparse(X) else X
        if np.isfinite(numbers.sum(dtype=float)):  # a sum is enough to see that nothing is wrong
            return
    columns_of = X.tocoo().col if is_sparse(X) else np.broadcast_to(np.arange(X.shape[1]), X.shape)
    bad = np.unique(columns_of[~np.isfinite(X.tocoo().data if is_sparse(X) else X)])
    if not len(bad):  # finite numbers whose sum overflowed
        return
    columns = [str(j if names is None else names[int(j)]) for j in bad]
    listed = ", ".join(columns[:5]) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    plural = "s" if len(columns) > 1 else ""
    raise InputError(f"X must be finite, got NaN or inf in column{plural} {listed}: fill or drop these rows")


def check_weight(weight: Any, rows: int) -> npt.NDArray[np.float64] | None:
    """Read a weight a row; None where every row counts once.

    Examples
    --------
    >>> check_weight([2, 0, 1], 3)
    array([2., 0., 1.])
    """
    if weight is None:
        return None
    weight = np.asarray(weight, np.float64)
    weight = np.full(rows, float(weight)) if weight.ndim == 0 else weight
    if weight.shape != (rows,):
        raise InputError(f"sample_weight must be one number a row, ({rows},), got shape {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise InputError("sample_weight must be finite and not negative, and not zero in every row")
    return weight


def check_classes(y: npt.NDArray[Any], name: str = "y") -> None:
    """Refuse a measurement where classes are wanted: numbers that are not whole.

    Examples
    --------
    >>> check_classes(np.array([5.1, 4.9, 4.7]))
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: y must be classes, got a continuous target with numbers such as 5.1: bin it ...
    """
    if y.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            broken = y[y % 1 != 0]
    elif y.dtype.kind == "O":
        broken = np.array([v for v in y if isinstance(v, float | np.floating) and v % 1 != 0], dtype=object)
    else:
        return
    if len(broken):
        raise InputError(
            f"{name} must be classes, got a continuous target with numbers such as {float(broken[0]):g}: bin it first, "
            "for example with pandas.qcut"
        )


def encode_labels(y: npt.ArrayLike, rows: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Classes in order, and the index of each row's class.

    Examples
    --------
    >>> classes, index = encode_labels(["b", "a", "b"], 3)
    >>> classes.tolist(), index.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise InputError(f"y must be one label a row, got shape {y.shape}")
    if len(y) != rows:
        raise InputError(f"X and y must have as many rows, got {rows} and {len(y)}")
    if rows < 2:
        raise InputError(f"need at least two rows, got {rows} (n_samples={rows})")
    missing = _missing(y)
    if missing.any():
        raise InputError(f"labels must not be missing, got {int(missing.sum())} of {rows}: drop these rows")
    check_classes(y)
    try:
        classes, index = _count(y) if y.dtype.kind in "bui" else np.unique(y, return_inverse=True)
    except TypeError as error:  # they have no order
        kinds = " and ".join(sorted({type(label).__name__ for label in y}))
        raise InputError(f"labels must be all numbers or all words, got {kinds}") from error
    if len(classes) < 2:
        raise InputError(f"need at least two classes to tell apart, got one class: {classes.tolist()[0]!r}")
    if rows > _FEW and len(classes) > rows / 2:
        warn(f"y has {len(classes)} classes in {rows} rows: if it is a measurement or an identifier, it tells nothing")
    return classes, index.astype(np.int64, copy=False)


def _count(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Do what ``np.unique`` does for whole numbers, without sorting them where they lie close together."""
    low, high = int(y.min()), int(y.max())
    if high - low > max(1000, len(y)):
        return np.unique(y, return_inverse=True)
    offset = y.astype(np.int64, copy=False)
    offset = offset - low if low else offset
    found = np.flatnonzero(np.bincount(offset))
    if len(found) == high - low + 1:  # no gaps: they are their own index
        return (found + low).astype(y.dtype), offset
    places = np.zeros(high - low + 1, dtype=np.int64)
    places[found] = np.arange(len(found))
    return (found + low).astype(y.dtype), places[offset]


def _missing(y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind in "mM":
        return np.isnat(y)
    if y.dtype.kind == "O":  # what does not equal itself, or cannot tell, as pandas.NA
        return np.array([v is None or (v == v) is not True for v in y], dtype=bool)
    return np.zeros(len(y), dtype=bool)
