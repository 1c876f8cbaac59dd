"""Multipartite ranking of features (Eq. 2): the sum over the classes of a two-group criterion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipartite._validation import as_tensor, check_finite, check_weight, encode_labels, is_sparse
from multipartite.criteria import Group, column_criterion
from multipartite.errors import InputError

__all__ = ["FeatureRanking", "feature_scores", "rank_features"]

_CHUNK = 1 << 22  # numbers of a sparse matrix that are made dense at a time
_LEAST = 1e-12  # the least variance of a class, as a share of that of the column


class FeatureRanking(NamedTuple):
    """Columns in order of their separability, best first, and the score of every column."""

    order: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]


def rank_features(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    criterion: str = "kl",
    *,
    correlation_weight: float = 0.0,
    distance_weight: float = 0.0,
    top: int | None = None,
    variance_floor: float = 0.6,
    sample_weight: npt.ArrayLike | None = None,
) -> FeatureRanking:
    r"""Rank columns by class separability (Eq. 2), as MATLAB's ``rankfeatures`` does for two classes.

    `kl` and `bhattacharyya` grow without bound where a class hardly varies in a column: a pixel that is not zero in
    one row of a thousand comes first. So the smaller of the two variances that they compare counts as
    at least `variance_floor` times the larger. 0 gives MATLAB's values; 1 looks at the means alone.

    Columns are taken one by one, the one with the highest weighted score first. With Z the score of a column,

    .. math:: Z \, (1 - \alpha \bar\rho) \, (1 - e^{-(\delta / \beta)^2})

    where rho is its mean absolute correlation with the columns taken already, delta its distance in columns to
    the nearest of them, alpha the `correlation_weight` and beta the `distance_weight`.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        Rows of features. A sparse one is made dense a few columns at a time.
    y : array of shape (n,)
        Class of every row: numbers or words.
    criterion : str
        A name of :func:`multipartite.criteria.for_columns`.
    correlation_weight : float in [0, 1]
        0 ignores correlation, 1 takes off all of the score that is correlated.
    distance_weight : float >= 0
        0 ignores the place of a column; neighbours within about `distance_weight` columns are held back.
    top : int, optional
        How many columns to rank; all by default.
    variance_floor : float in [0, 1]
        The least ratio of two variances that `kl` and `bhattacharyya` believe; the other criteria do not need it.
    sample_weight : array of shape (n,), optional
        How often each row counts: a weight of 2 is the row given twice, 0 is the row left out.

    Returns
    -------
    FeatureRanking
        ``order`` of shape (top,) and the unweighted ``scores`` of shape (d,).

    Examples
    --------
    >>> X = [[0.0, 1.0, 5.0], [1.0, 2.0, 5.0], [8.0, 1.0, 5.0], [9.0, 2.0, 5.0]]
    >>> rank_features(X, ["a", "a", "b", "b"]).order.tolist()
    [0, 1, 2]
    """
    names = getattr(X, "columns", None)
    table, labels = _table(X), np.asarray(y)
    weight = check_weight(sample_weight, table.shape[0])
    if weight is not None and labels.shape == weight.shape and not weight.all():
        table, labels, weight = table[weight > 0], labels[weight > 0], weight[weight > 0]
    _, index = encode_labels(labels, table.shape[0])
    check_finite(table, names)
    if not 0 <= correlation_weight <= 1:
        raise InputError(f"correlation_weight must lie in [0, 1], got {correlation_weight}")
    if not 0 <= distance_weight < np.inf:
        raise InputError(f"distance_weight must be finite and not negative, got {distance_weight}")
    if not 0 <= variance_floor <= 1:
        raise InputError(f"variance_floor must lie in [0, 1], got {variance_floor}")
    d = table.shape[1]
    top = d if top is None else top
    if top not in range(1, d + 1):
        raise InputError(f"top must lie in [1, {d}] and be whole (X has {d} columns), got {top}")
    top = int(top)
    counts = None if weight is None else as_tensor(weight)
    classes = as_tensor(index)
    scores = np.concatenate(
        [feature_scores(part, classes, criterion, variance_floor, counts).numpy() for part in _columns(table)]
    )
    if not np.isfinite(scores).all():
        raise InputError("X must be small enough to be squared in float64: divide it by its largest value")
    if correlation_weight == 0 and distance_weight == 0:
        return FeatureRanking(np.argsort(-scores, kind="stable")[:top], scores)
    weight = np.ones(table.shape[0]) if weight is None else weight
    correlations = _sparse_correlations(table, weight) if is_sparse(table) else _correlations(table, weight)
    return FeatureRanking(_take(correlations, scores, correlation_weight, distance_weight, top), scores)


def _table(X: Any) -> Any:
    """Rows as an array, or sparse by columns."""
    if is_sparse(X):
        return X.tocsc().astype(np.float64)
    if np.iscomplexobj(X):
        raise InputError("X must be real numbers, got complex ones: give their real and imaginary parts as columns")
    try:
        X = X.to_numpy(np.float64, na_value=np.nan) if hasattr(X, "iloc") else np.asarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("X must be numbers, got text: drop these columns or encode them") from error
    if X.ndim != 2 or X.shape[1] == 0:
        raise InputError(f"X must be (rows, columns) with at least one column, got shape {X.shape}")
    return X


def _columns(X: Any) -> Iterator[Tensor]:
    """Columns as tensors, all at once where X is an array."""
    if not is_sparse(X):
        yield as_tensor(X)
        return
    width = max(1, _CHUNK // max(1, X.shape[0]))
    for start in range(0, X.shape[1], width):
        yield torch.from_numpy(X[:, start : start + width].toarray())


def _correlations(X: npt.NDArray[Any], weight: npt.NDArray[Any]) -> Callable[[int], npt.NDArray[Any]]:
    """Absolute correlation of one column with every column."""
    Z = (X - weight @ X / weight.sum()) * np.sqrt(weight)[:, None]
    norm = np.linalg.norm(Z, axis=0)
    Z /= np.where(norm > 0, norm, 1)
    return lambda best: np.abs(Z[:, best] @ Z)


def _sparse_correlations(X: Any, weight: npt.NDArray[Any]) -> Callable[[int], npt.NDArray[Any]]:
    """As :func:`_correlations`, from products of what is not zero."""
    S = X.multiply(np.sqrt(weight)[:, None]).tocsc()
    total, mean = weight.sum(), X.T @ weight / weight.sum()
    squares = np.asarray(S.multiply(S).sum(axis=0)).ravel()
    variance = squares - total * mean**2
    norm = np.sqrt(np.where(variance > _LEAST * squares, variance, np.inf))  # a constant column has no correlation

    def correlations(best: int) -> npt.NDArray[Any]:
        products = np.asarray(S.T @ S[:, [best]].toarray()).ravel() - total * mean * mean[best]
        return np.abs(products / norm / norm[best])

    return correlations


def _take(
    correlations: Callable[[int], npt.NDArray[Any]], scores: npt.NDArray[Any], alpha: float, beta: float, top: int
) -> Any:
    """Take columns greedily, each held back by the ones taken before it."""
    columns = np.arange(len(scores))
    correlation = np.zeros(len(scores))  # summed over the columns taken
    distance = np.full(len(scores), np.inf)
    free = np.ones(len(scores), dtype=bool)
    taken: list[int] = []
    for _ in range(top):
        weighted = scores * (1 - alpha * correlation / max(1, len(taken)))
        if beta > 0:
            weighted = weighted * -np.expm1(-((distance / beta) ** 2))
        best = int(np.argmax(np.where(free, weighted, -np.inf)))
        taken.append(best)
        free[best] = False
        correlation += correlations(best)
        distance = np.minimum(distance, np.abs(columns - best))
    return np.array(taken)


def feature_scores(
    X: Tensor, y: Tensor, name: str = "kl", variance_floor: float = 0.0, weight: Tensor | None = None
) -> Tensor:
    """Sum over the classes of the one-versus-rest criterion of every column (Eq. 2).

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Rows, in float64.
    y : Tensor of shape (n,)
        Class indices.
    variance_floor : float in [0, 1]
        See :func:`rank_features`.
    weight : Tensor of shape (n,), optional
        How often each row counts, above zero.

    Returns
    -------
    Tensor of shape (d,)

    Examples
    --------
    >>> X = torch.tensor([[0.0], [2.0], [10.0], [12.0]], dtype=torch.float64)
    >>> feature_scores(X, torch.tensor([0, 0, 1, 1]))
    tensor([100.], dtype=torch.float64)
    """
    measure = column_criterion(name)
    if measure.from_ranks is not None:
        ranks = torch.from_numpy(_ranks(X.numpy(force=True), weight))
        extra = () if weight is None else (weight,)
        return torch.stack([measure.from_ranks(ranks, y == j, *extra) for j in torch.unique(y)]).sum(0)
    assert measure.from_moments is not None
    varies = (X[0] != X).any(0)  # seen before the mean, which is not exact, is taken off
    w = torch.ones_like(X[:, 0]) if weight is None else weight
    total = w.sum()
    X = X - w @ X / total  # about the overall mean, so that sums of squares do not cancel
    members = torch.nn.functional.one_hot(y).T[torch.unique(y)] * w  # [c, n]
    n = members.sum(1, keepdim=True)  # [c, 1]
    sums, squares, spread = members @ X, members @ X.square(), w @ X.square()  # [c, d], [c, d], [d]
    least = (_LEAST * spread / total).clamp_min(torch.finfo(X.dtype).tiny)
    one, two = _group(n, sums, squares, least), _group(total - n, -sums, spread - squares, least)
    if measure.compares_variances:
        one, two = _floored(one, two, variance_floor), _floored(two, one, variance_floor)
    return torch.where(varies, measure.from_moments(one, two).sum(0), 0)


def _group(n: Tensor, sums: Tensor, squares: Tensor, least: Tensor) -> Group:
    mean = sums / n
    return Group(n, mean, torch.maximum((squares - n * mean**2) / torch.where(n >= 2, n - 1, n), least))


def _floored(group: Group, other: Group, share: float) -> Group:
    return group._replace(variance=torch.maximum(group.variance, share * other.variance))


def _ranks(X: npt.NDArray[Any], weight: Tensor | None) -> npt.NDArray[Any]:
    """Rank every number in its column, equals in the middle of their places, as if rows were repeated."""
    from scipy.stats import rankdata

    if weight is None:
        return rankdata(X, axis=0)
    w = weight.numpy(force=True)
    ranks = np.empty(X.shape)
    for j, column in enumerate(X.T):
        _, place = np.unique(column, return_inverse=True)
        count = np.bincount(place, w)
        ranks[:, j] = (np.cumsum(count) - count + (count + 1) / 2)[place]
    return ranks
