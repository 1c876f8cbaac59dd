"""Multipartite ranking of features (Eq. 2): the sum over the classes of a two-group criterion."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipartite._validation import as_tensor, check_finite, encode_labels
from multipartite.criteria import Group, column_criterion
from multipartite.errors import InputError

__all__ = ["FeatureRanking", "feature_scores", "rank_features"]

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
    X : array of shape (n, d)
        Rows of features.
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
    try:
        X = np.asarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("X must be numbers, got text: drop these columns or encode them") from error
    if X.ndim != 2:
        raise InputError(f"X must be (rows, columns), got shape {X.shape}")
    _, index = encode_labels(y, len(X))
    check_finite(X, names)
    if not 0 <= correlation_weight <= 1:
        raise InputError(f"correlation_weight must lie in [0, 1], got {correlation_weight}")
    if not 0 <= distance_weight < np.inf:
        raise InputError(f"distance_weight must be finite and not negative, got {distance_weight}")
    if not 0 <= variance_floor <= 1:
        raise InputError(f"variance_floor must lie in [0, 1], got {variance_floor}")
    d = X.shape[1]
    top = d if top is None else top
    if top not in range(1, d + 1):
        raise InputError(f"top must lie in [1, {d}] and be whole (X has {d} columns), got {top}")
    top = int(top)
    scores = feature_scores(as_tensor(X), as_tensor(index), criterion, variance_floor).numpy()
    if correlation_weight == 0 and distance_weight == 0:
        return FeatureRanking(np.argsort(-scores, kind="stable")[:top], scores)
    return FeatureRanking(_take(X, scores, correlation_weight, distance_weight, top), scores)


def _take(X: npt.NDArray[Any], scores: npt.NDArray[Any], alpha: float, beta: float, top: int) -> Any:
    """Take columns greedily, each held back by the ones taken before it."""
    Z = X - X.mean(axis=0)
    norm = np.linalg.norm(Z, axis=0)
    Z /= np.where(norm > 0, norm, 1)
    columns = np.arange(X.shape[1])
    correlation = np.zeros(X.shape[1])  # summed over the columns taken
    distance = np.full(X.shape[1], np.inf)
    free = np.ones(X.shape[1], dtype=bool)
    taken: list[int] = []
    for _ in range(top):
        weighted = scores * (1 - alpha * correlation / max(1, len(taken)))
        if beta > 0:
            weighted = weighted * -np.expm1(-((distance / beta) ** 2))
        best = int(np.argmax(np.where(free, weighted, -np.inf)))
        taken.append(best)
        free[best] = False
        correlation += np.abs(Z[:, best] @ Z)
        distance = np.minimum(distance, np.abs(columns - best))
    return np.array(taken)


def feature_scores(X: Tensor, y: Tensor, name: str = "kl", variance_floor: float = 0.0) -> Tensor:
    """Sum over the classes of the one-versus-rest criterion of every column (Eq. 2).

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Rows, in float64.
    y : Tensor of shape (n,)
        Class indices.
    variance_floor : float in [0, 1]
        See :func:`rank_features`.

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
        from scipy.stats import rankdata

        ranks = torch.from_numpy(rankdata(X.numpy(force=True), axis=0))
        return torch.stack([measure.from_ranks(ranks, y == j) for j in torch.unique(y)]).sum(0)
    assert measure.from_moments is not None
    varies = (X[0] != X).any(0)  # seen before the mean, which is not exact, is taken off
    X = X - X.mean(0)  # about the overall mean, so that sums of squares do not cancel
    spread = X.square().sum(0)  # [d]
    members = torch.nn.functional.one_hot(y).T[torch.unique(y)].to(X)  # [c, n]
    n = members.sum(1, keepdim=True)  # [c, 1]
    sums, squares = members @ X, members @ X.square()  # [c, d]
    least = (_LEAST * spread / len(X)).clamp_min(torch.finfo(X.dtype).tiny)
    one, two = _group(n, sums, squares, least), _group(len(X) - n, -sums, spread - squares, least)
    if measure.compares_variances:
        one, two = _floored(one, two, variance_floor), _floored(two, one, variance_floor)
    return torch.where(varies, measure.from_moments(one, two).sum(0), 0)


def _group(n: Tensor, sums: Tensor, squares: Tensor, least: Tensor) -> Group:
    mean = sums / n
    return Group(n, mean, torch.maximum((squares - n * mean**2) / (n - 1).clamp_min(1), least))


def _floored(group: Group, other: Group, share: float) -> Group:
    return group._replace(variance=torch.maximum(group.variance, share * other.variance))
