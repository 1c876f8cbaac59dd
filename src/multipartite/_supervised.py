"""What the estimators share: how rows and labels are read, and how class statistics stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from typing_extensions import Self

from multipartite._validation import as_tensor, check_classes, check_finite, check_weight, encode_labels, is_sparse
from multipartite.errors import InputError, warn
from multipartite.statistics import ClassStatistics

__all__ = ["Streamed", "Supervised", "parts"]

_CHUNK = 1 << 22  # numbers of a sparse matrix that are made dense at a time


class Supervised(BaseEstimator):  # type: ignore[misc]
    """Reads rows and labels as scikit-learn does, with our own words for what is wrong with them."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def _rows(self, X: Any, *, reset: bool, **options: Any) -> Any:
        """Rows as a float32 or float64 array, or sparse by rows; whether they are finite is left open."""
        floats = [np.float64, np.float32]
        return validate_data(
            self, X, **options, reset=reset, dtype=floats, accept_sparse="csr", ensure_all_finite=False
        )

    def _labelled_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Any, Any]:
        """Rows, labels and weights; rows that weigh nothing are left out."""
        if y is None:
            self._rows(X, reset=reset, y=None)  # scikit-learn says that y is required
        X = self._rows(X, reset=reset)
        if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
            warn("A column-vector y was passed when a 1d array was expected: give y.ravel()", DataConversionWarning)
        y, weight = column_or_1d(y), check_weight(sample_weight, X.shape[0])
        if weight is not None and len(y) == len(weight) and not weight.all():
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        return X, y, weight

    def _names(self) -> Any:
        """Names of the columns, where X came with them."""
        return getattr(self, "feature_names_in_", None)

    def _finite_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        check_finite(X, self._names())
        return X


class Streamed(Supervised):
    """An estimator that needs no more of its rows than :class:`ClassStatistics`, so that it can stream."""

    statistics_: ClassStatistics
    classes_: npt.NDArray[Any]

    def _solve(self, statistics: ClassStatistics) -> None:
        """Learn from `statistics`; change nothing if that fails."""
        raise NotImplementedError

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn from all rows at once.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Rows of features. A sparse one is made dense a few rows at a time.
        y : array of shape (n,)
            Class of every row: numbers or words.
        sample_weight : array of shape (n,), optional
            How often each row counts: a weight of 2 is the row given twice, 0 is the row left out.
        """
        rows, labels, weight = self._labelled_rows(X, y, sample_weight, reset=True)
        classes, index = encode_labels(labels, rows.shape[0])
        return self._learn(self._summary(rows, index, weight, len(classes)), classes)

    def partial_fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from some more rows, in memory that does not grow with their number.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Rows of features.
        y : array of shape (n,)
            Class of every row.
        classes : array of shape (c,), optional
            All classes; the first call may leave them out if its own rows have one of each.
        sample_weight : array of shape (n,), optional
            How often each row counts.
        """
        first = not hasattr(self, "statistics_")
        rows, labels, weight = self._labelled_rows(X, y, sample_weight, reset=first)
        if classes is not None:
            known = np.unique(column_or_1d(classes))
            check_classes(known, "classes")
            if len(known) < 2:
                raise InputError(f"need at least two classes to tell apart, got classes={_listed(known)}")
            if not first and not np.array_equal(known, self.classes_):
                raise InputError(f"classes must stay {_listed(self.classes_)}, got {_listed(known)}")
        else:
            known = encode_labels(labels, rows.shape[0])[0] if first else self.classes_
        chunk = self._summary(rows, _index_in(known, labels, rows.shape[0]), weight, len(known))
        return self._learn(chunk if first else _copy(self.statistics_).merge(chunk), known)

    def _learn(self, statistics: ClassStatistics, classes: npt.NDArray[Any]) -> Self:
        self._solve(statistics)
        self.statistics_, self.classes_ = statistics, classes
        return self

    def _summary(self, X: Any, index: npt.NDArray[np.int64], weight: Any, num_classes: int) -> ClassStatistics:
        statistics = ClassStatistics(num_classes, X.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
            for rows, part in parts(X):
                counts = None if weight is None else as_tensor(weight[part])
                statistics.update(as_tensor(rows), as_tensor(index[part]), weight=counts)
        if not torch.isfinite(statistics.scatter).all():  # so that good rows need no pass of their own
            check_finite(X, self._names())
            raise InputError(f"X must be small enough to be squared in {X.dtype}: divide it by its largest value")
        return statistics


def parts(X: Any) -> Iterator[tuple[npt.NDArray[Any], slice]]:
    """Rows as arrays, with their places: all at once, or a few at a time where X is sparse.

    Examples
    --------
    >>> [(rows.shape, place) for rows, place in parts(np.ones((3, 2)))]
    [((3, 2), slice(None, None, None))]
    """
    if not is_sparse(X):
        yield X, slice(None)
        return
    height = max(1, _CHUNK // X.shape[1])
    for start in range(0, X.shape[0], height):
        part = slice(start, start + height)
        yield X[part].toarray(), part


def _index_in(classes: npt.NDArray[Any], y: npt.NDArray[Any], rows: int) -> npt.NDArray[np.int64]:
    if len(y) != rows:
        raise InputError(f"X and y must have as many rows, got {rows} and {len(y)}")
    try:
        index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    except TypeError:  # a missing label, or words where there are numbers
        index = np.zeros(rows, dtype=np.int64)
        strange = np.array([label not in classes.tolist() for label in y])
    else:
        strange = classes[index] != y
    if strange.any():
        raise InputError(
            f"labels must be among the classes {_listed(classes)}, got {y[strange][0]!r}: "
            "give all classes to the first partial_fit"
        )
    return index


def _listed(classes: npt.NDArray[Any]) -> str:
    return ", ".join(map(str, classes[:10])) + (" ..." if len(classes) > 10 else "")


def _copy(statistics: ClassStatistics) -> ClassStatistics:
    return ClassStatistics(statistics.num_classes, statistics.num_features).merge(statistics)
