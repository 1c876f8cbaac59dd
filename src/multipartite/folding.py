r"""Multipartite ranking of instances (Eq. 3, Alg. 2), and the fold that makes it as cheap as one small product.

A row is ranked in the projected space: p = x A has one column a class. For class i the foreground is the value
p_i with the within-class variance s_i of its column, the background the other columns, with the mean of their
values and the mean of their variances. No label is needed, so training and test rank alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from multipartite.criteria import CRITERIA, Criterion, Group, criterion
from multipartite.errors import InputError
from multipartite.statistics import ClassStatistics

__all__ = ["Fold", "fold", "one_versus_rest", "pooling_criterion", "projected_variance", "reduce_scores"]

_FLOOR = 1e-12  # the least variance, as a share of the largest


def one_versus_rest(P: Tensor, variance: Tensor, present: Tensor | None = None, name: str = "kl") -> Tensor:
    """Criterion between every column of a projected row and its other columns (Eq. 3, steps 3, 4 of Alg. 2).

    Parameters
    ----------
    P : Tensor of shape (n, c)
        Projected rows, one column a class.
    variance : Tensor of shape (c,) or (n, c)
        Within-class variance of every column.
    present : Tensor of shape (c,), optional
        Which classes have been seen; the others are neither foreground nor background.

    Returns
    -------
    Tensor of shape (n, c)
        The sum over its columns is the overall criterion C_M (step 5).

    Examples
    --------
    >>> one_versus_rest(torch.tensor([[3.0, 0.0, 0.0]]), torch.ones(3))
    tensor([[9.0000, 2.2500, 2.2500]])
    """
    measure = pooling_criterion(name)
    assert measure.from_moments is not None
    m = variance.new_ones(variance.shape[-1]) if present is None else present.to(variance)
    s = _floored(variance, m)
    two = torch.full_like(s, 2.0)  # each side weighs the same
    foreground = Group(two, P, s)
    background = Group(two, _mean_of_others(P, m), _mean_of_others(s, m))
    return torch.where(m * (m.sum() > 1) > 0, measure.from_moments(foreground, background), 0)


def pooling_criterion(name: str) -> Criterion:
    """Look up a criterion that can score single rows; `roc` and `wilcoxon` cannot."""
    measure = criterion(name)
    if measure.from_moments is None:
        able = ", ".join(sorted(n for n, m in CRITERIA.items() if m.from_moments is not None))
        raise InputError(
            f"criterion {name!r} cannot rank instances: with one foreground value it gives every untied row the "
            f"same sum; use one of {able}"
        )
    return measure


class Fold(NamedTuple):
    """The overall criterion C_M as a function of one linear map h = x `factor` + `offset`.

    Attributes
    ----------
    factor : Tensor of shape (groups, d, r)
        With kl, C_M(x) = constant + ||x factor||^2 and r = min(c-1, d). Zero where nothing separates.
    offset : Tensor of shape (groups, 1, r) or None
        For `information` alone.
    log_prior : Tensor of shape (r,) or None
        For `information` alone.
    constant : Tensor of shape (groups,)
        What does not depend on x.
    kind : str
        How :func:`reduce_scores` makes a score of h.
    informed : bool, optional
        Whether every group's factor is known not to be zero; None where nobody has looked.
    """

    factor: Tensor
    offset: Tensor | None
    log_prior: Tensor | None
    constant: Tensor
    kind: str
    informed: bool | None = None

    def may_vanish(self) -> bool:
        """Whether some group's factor may be zero: then nothing it knows tells the classes apart."""
        if self.informed is not None:
            return not self.informed
        return torch.compiler.is_compiling() or not self.tells_apart().all()

    def tells_apart(self) -> Tensor:
        """Which groups have a factor that is not zero, shape (groups,)."""
        return (self.factor != 0).flatten(1).any(1)


@torch.no_grad()
def fold(statistics: ClassStatistics, A: Tensor, name: str = "kl") -> Fold:
    r"""Fold projection and criterion into one factor, once a refit.

    With p = x A, the difference of foreground and background is k/(k-1) (p_i - mean p) for k classes seen, so
    for a criterion that weighs its square by w_i,

    .. math:: C_M(x) = const + x^T A H D H A^T x = const + \|F^T x\|^2,

    where H centres and D = diag(w) (k/(k-1))^2. At test time a row costs d r multiplications.

    Parameters
    ----------
    statistics : ClassStatistics
        Where the variances s_i come from.
    A : Tensor of shape (groups, d, c)
        From :func:`multipartite.projection.supervised_projection`.
    name : str
        A criterion that works from moments.

    Examples
    --------
    >>> from multipartite.projection import supervised_projection
    >>> statistics = ClassStatistics(2, 1).update([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
    >>> A = supervised_projection(statistics, shrinkage=0.0)
    >>> fold(statistics, A).factor.shape
    torch.Size([1, 1, 1])
    """
    measure = pooling_criterion(name)
    if measure.weight is None:
        return _fold_information(statistics, A)
    d, c = A.shape[-2:]
    m = statistics.present.to(A)
    k = m.sum()
    s = _floored(projected_variance(statistics, A), m)  # [g, c]
    scale = k / (k - 1).clamp_min(1)
    w = torch.where(m * (k > 1) > 0, measure.weight(s, _mean_of_others(s, m)), 0)
    H = torch.diag(m) - m[:, None] * m / k.clamp_min(1)
    constant = one_versus_rest(torch.zeros_like(s), s, m, name).sum(-1)
    F = scale * A @ H * w[:, None, :] ** (1 / measure.power)  # [g, d, c]; its columns are of like size, w is not
    if measure.power == 1:
        return Fold(F, None, None, constant, "absolute")
    if c - 1 < d:
        factor = F @ torch.linalg.eigh(F.mT @ F).eigenvectors[..., 1:]  # H has one null direction
    else:
        values, V = torch.linalg.eigh(F @ F.mT)
        factor = V * values.clamp_min(0).sqrt()[:, None, :]
    return Fold(factor, None, None, constant, "quadratic")


def projected_variance(statistics: ClassStatistics, A: Tensor) -> Tensor:
    """Within-class variance s_i of every column of X A, shape (groups, c).

    It is kept above 1e-12 of the variance between the classes: values that do not vary within any class would
    make every score infinite.

    Examples
    --------
    >>> statistics = ClassStatistics(2, 1).update([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
    >>> projected_variance(statistics, torch.tensor([[[-3.0, 3.0]]], dtype=torch.float64))
    tensor([[9., 9.]], dtype=torch.float64)
    """
    within, between = (torch.einsum("gdc,gde,gec->gc", A, S.to(A), A) for S in (statistics.within, statistics.between))
    return torch.maximum(within, _FLOOR * between)


def _fold_information(statistics: ClassStatistics, A: Tensor) -> Fold:
    """Log likelihoods of the classes, Gaussians of one covariance in the projected space, up to a constant."""
    Sw, M, centre = (t.to(A) for t in (statistics.within, statistics.deviations, statistics.overall_mean))
    precision = A @ torch.linalg.pinv(A.mT @ Sw @ A, rtol=1e-10, hermitian=True) @ A.mT  # [g, d, d]
    factor = precision @ M.mT  # [g, d, c]
    offset = -(M * factor.mT).sum(-1)[:, None, :] / 2 - centre @ factor
    prior = statistics.prior.to(A)
    log_prior = torch.where(prior.sum() > 0, prior, 1 / len(prior)).log()  # nothing seen: all alike
    return Fold(factor, offset, log_prior, A.new_zeros(len(A)), "information")


def reduce_scores(h: Tensor, kind: str, log_prior: Tensor | None = None, *, dim: int = -1) -> Tensor:
    """Score from the folded map h, by the kind of its :class:`Fold`; without the constant.

    Examples
    --------
    >>> reduce_scores(torch.tensor([[3.0, 4.0]]), "quadratic")
    tensor([25.])
    """
    return _REDUCTIONS[kind](h, log_prior, dim)


def _information(h: Tensor, log_prior: Tensor | None, dim: int) -> Tensor:
    """Divergence of the posterior of the classes from their prior."""
    assert log_prior is not None
    shape = [1] * h.ndim
    shape[dim] = -1
    prior = log_prior.to(h).reshape(shape)
    evidence = torch.logsumexp(h + prior, dim, keepdim=True)
    posterior = (h + prior - evidence).exp()
    return ((posterior * h).sum(dim) - evidence.squeeze(dim)).clamp_min(0)


_REDUCTIONS: dict[str, Callable[[Tensor, Tensor | None, int], Tensor]] = {
    "quadratic": lambda h, _, dim: h.square().sum(dim),
    "absolute": lambda h, _, dim: h.abs().sum(dim),
    "information": _information,
}


def _floored(variance: Tensor, present: Tensor) -> Tensor:
    """Variances no smaller than a trifle of the largest; 1 where none of them is positive."""
    largest = (variance * present).amax(-1, keepdim=True)
    return torch.where(largest > 0, torch.maximum(variance, _FLOOR * largest), 1)


def _mean_of_others(values: Tensor, present: Tensor) -> Tensor:
    """Mean of the other columns, of those that count."""
    values = values * present
    return (values.sum(-1, keepdim=True) - values) / (present.sum() - present).clamp_min(1)
