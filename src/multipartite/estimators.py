"""Projection and ranking as scikit-learn estimators: shells over the mathematics, which hold what was learnt.

Projection and instance ranking share NumPy arrays with torch, float32 or float64, read-only or not, without a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted
from typing_extensions import Self

from multipartite._supervised import Streamed, Supervised, parts
from multipartite._validation import as_tensor, check_finite
from multipartite.criteria import CRITERIA, row_form
from multipartite.errors import InputError
from multipartite.instance_ranking import Fold, fold
from multipartite.projection import supervised_projection
from multipartite.ranking import rank_features
from multipartite.statistics import ClassStatistics

__all__ = ["FeatureRanker", "InstanceRanker", "SupervisedProjection"]


class SupervisedProjection(TransformerMixin, Streamed):  # type: ignore[misc]
    """Projection P = X A onto directions that tell the classes apart (Alg. 1), one column a class.

    Nothing is centred: P = X A as the paper writes it. For the mathematics see
    :func:`multipartite.projection.supervised_projection`.

    Parameters
    ----------
    projection : {"fisher", "orthogonal", "penalised"}
        Which problem to solve.
    shrinkage : float in [0, 1] or "auto"
        How far to pull the correlations within the classes towards zero. Variances stay, so it does not matter in
        which units the columns are.
    n_components : int, optional
        Give that many leading directions, at most min(c - 1, d), not turned towards the classes. By default
        there are c columns, and column j stands for class j.
    scale : bool
        Whether "orthogonal" and "penalised" mean orthonormal after each column is divided by its standard deviation.
        False is the paper: then columns with small numbers decide, so scale the rows before.

    Attributes
    ----------
    A_ : array of shape (d, c) or (d, n_components)
        The directions, in columns.
    classes_ : array of shape (c,)
        Class that each column stands for.
    statistics_ : ClassStatistics
        All that was kept of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SupervisedProjection().fit(X, y).transform(X).shape
    (150, 3)
    """

    def __init__(
        self,
        projection: str = "fisher",
        shrinkage: float | str = "auto",
        n_components: int | None = None,
        scale: bool = True,
    ) -> None:
        self.projection = projection
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.scale = scale

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _solve(self, statistics: ClassStatistics) -> None:
        A = supervised_projection(
            statistics,
            self.projection,
            shrinkage=self.shrinkage,
            scale=self.scale,
            components=self.n_components,
        )
        self.A_ = A[0].numpy()

    def transform(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Project rows: X A, in the precision of X.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows of features.

        Returns
        -------
        array of shape (n, c) or (n, n_components)
        """
        rows = self._finite_rows(X)
        return rows @ self.A_.astype(rows.dtype)

    def inverse_transform(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Rows that one would expect from their projections, after the rows learned from.

        Of all rows that are linear in the projection these have the least squared error on the rows learned from;
        what no direction of A sees comes back as its mean. Projected again, they give the projections of rows.

        Parameters
        ----------
        X : array of shape (n, c) or (n, n_components)
            Projections, as :meth:`transform` gives them.

        Returns
        -------
        array of shape (n, d)
        """
        check_is_fitted(self)
        P = check_array(X, dtype=[np.float64, np.float32])
        if P.shape[1] != self.A_.shape[1]:
            raise InputError(f"X must have the {self.A_.shape[1]} columns of transform, got {P.shape[1]}")
        known = self.statistics_
        centre, M = known.overall_mean[0].numpy(), known.deviations[0].numpy()
        St = known.within[0].numpy() + (known.prior[:, None].numpy() * M).T @ M
        back = np.linalg.pinv(self.A_.T @ St @ self.A_, rtol=1e-10, hermitian=True) @ self.A_.T @ St
        rows: npt.NDArray[Any] = centre + (P - centre @ self.A_) @ back
        return rows.astype(P.dtype, copy=False)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Name the columns: by the class that each stands for, or numbered where there are `n_components`.

        Parameters
        ----------
        input_features : ignored
            As scikit-learn's transformers have it.

        Returns
        -------
        array of shape (c,) or (n_components,)
        """
        check_is_fitted(self)
        prefix, k = type(self).__name__.lower(), self.A_.shape[1]
        names = [f"_{name}" for name in self.classes_] if k == len(self.classes_) else [str(j) for j in range(k)]
        return np.array([prefix + name for name in names], dtype=object)


class InstanceRanker(Streamed):
    """Ranking of rows by how plainly they belong to some class (Eq. 3, Alg. 2); no labels at test time.

    For the mathematics see :mod:`multipartite.instance_ranking`.

    Parameters
    ----------
    criterion : str
        A name of :func:`multipartite.criteria.for_rows` that looks at classes, so not "energy".
    projection, shrinkage, scale
        As for :class:`SupervisedProjection`.

    Attributes
    ----------
    A_ : array of shape (d, c)
        The projection.
    fold_ : Fold
        Projection and criterion in one factor.
    classes_, statistics_
        As for :class:`SupervisedProjection`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ranker = InstanceRanker().fit(X, y)
    >>> bool(ranker.score_samples(X)[ranker.rank(X)[0]] == ranker.score_samples(X).max())
    True
    """

    fold_: Fold

    def __init__(
        self,
        criterion: str = "kl",
        projection: str = "fisher",
        shrinkage: float | str = "auto",
        scale: bool = True,
    ) -> None:
        self.criterion = criterion
        self.projection = projection
        self.shrinkage = shrinkage
        self.scale = scale

    def _solve(self, statistics: ClassStatistics) -> None:
        row_form(self.criterion)  # a wrong name is found before anything is solved
        if CRITERIA[self.criterion].from_moments is None:
            raise InputError(
                f"criterion {self.criterion!r} learns nothing from labels: score rows by (X**2).sum(axis=1)"
            )
        A = supervised_projection(statistics, self.projection, shrinkage=self.shrinkage, scale=self.scale)
        self.fold_ = fold(statistics, A, self.criterion)
        self.A_ = A[0].numpy()

    def score_samples(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Overall criterion C_M of every row; higher is more informative.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows of features, with labels or without.

        Returns
        -------
        array of shape (n,)
        """
        rows = self._finite_rows(X)
        return np.concatenate([self.fold_.score(as_tensor(part))[0].numpy() for part, _ in parts(rows)])

    def rank(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Order rows by their score, the most informative first; equals stay in their order.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows of features.

        Returns
        -------
        array of shape (n,)
        """
        return np.argsort(-self.score_samples(X), kind="stable")


class FeatureRanker(SelectorMixin, Supervised):  # type: ignore[misc]
    """Selection of the columns that tell the classes apart best (Eq. 2).

    For the mathematics see :func:`multipartite.ranking.rank_features`.

    Parameters
    ----------
    criterion : str
        A name in :data:`multipartite.criteria.CRITERIA`.
    top : int, optional
        How many columns to keep; all where there are fewer, or with None.
    correlation_weight, distance_weight : float
        How far columns are held back that resemble, or lie next to, better ones.
    variance_floor : float in [0, 1]
        The least ratio of two variances that "kl" and "bhattacharyya" believe; 0 gives MATLAB's scores.

    Attributes
    ----------
    scores_ : array of shape (d,)
        Score of every column, higher is better.
    support_ : array of shape (d,)
        Which columns are kept.
    ranking_ : array of shape (d,)
        Place of every column, 1 the best; columns left out share the place after the last one kept.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> FeatureRanker(top=2).fit(X, y).get_feature_names_out().tolist()
    ['petal length (cm)', 'petal width (cm)']
    """

    support_: npt.NDArray[np.bool_]

    def __init__(
        self,
        criterion: str = "kl",
        top: int | None = 10,
        correlation_weight: float = 0.0,
        distance_weight: float = 0.0,
        variance_floor: float = 0.6,
    ) -> None:
        self.criterion = criterion
        self.top = top
        self.correlation_weight = correlation_weight
        self.distance_weight = distance_weight
        self.variance_floor = variance_floor

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Score and rank the columns.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Rows of features.
        y : array of shape (n,)
            Class of every row: numbers or words.
        sample_weight : array of shape (n,), optional
            How often each row counts: a weight of 2 is the row given twice, 0 is the row left out.
        """
        rows, labels, weight = self._labelled_rows(X, y, sample_weight, reset=True)
        check_finite(rows, self._names())
        order, self.scores_ = rank_features(
            rows,
            labels,
            self.criterion,
            correlation_weight=self.correlation_weight,
            distance_weight=self.distance_weight,
            top=None if self.top is None else min(self.top, rows.shape[1]),
            variance_floor=self.variance_floor,
            sample_weight=weight,
        )
        self.ranking_ = np.full(rows.shape[1], len(order) + 1)
        self.ranking_[order] = np.arange(1, len(order) + 1)
        self.support_ = self.ranking_ <= len(order)
        return self

    def _get_support_mask(self) -> npt.NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_
