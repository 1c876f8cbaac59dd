r"""Two-group criteria (Eq. 1): how far apart two groups of numbers are, column by column.

The semantics are those of MATLAB's ``rankfeatures``. The Gaussian criteria need no more than the moments of
the two groups (so they stream); `roc` and `wilcoxon` need the samples, as ranks. All are symmetric in the
two groups and zero for a column that does not vary. Each brings the form in which a pooling layer can score a
pixel by it, if there is one. `energy` has nothing but a form: it knows no classes.

>>> for_columns()
['kl', 'ttest', 'bhattacharyya', 'information', 'roc', 'wilcoxon']
>>> for_rows()
['kl', 'ttest', 'bhattacharyya', 'information', 'energy']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from multipartite.errors import InputError, unknown
from multipartite.registry import Registry
from multipartite.statistics import ClassStatistics

__all__ = [
    "CRITERIA",
    "Absolute",
    "Criterion",
    "Energy",
    "Form",
    "Group",
    "Information",
    "OneVersusRest",
    "Quadratic",
    "column_criterion",
    "for_columns",
    "for_rows",
    "register",
    "row_form",
]

Weight = Callable[[Tensor, Tensor], Tensor]  # (variance, variance) -> weight


class Group(NamedTuple):
    """Size, mean and variance of one group, a column each."""

    size: Tensor
    mean: Tensor
    variance: Tensor


class OneVersusRest(NamedTuple):
    """What a form is made from: every class against the others in the projected space, see Eq. 3.

    Attributes
    ----------
    statistics : ClassStatistics
        What the layer has learned.
    A : Tensor of shape (groups, d, c)
        The projection.
    contrast : Tensor of shape (groups, d, c)
        x contrast is the difference of foreground and background of every class.
    variance, others : Tensor of shape (groups, c)
        Variance of the foreground and mean variance of the background.
    counted : Tensor of shape (c,)
        1 for a class that has been seen beside others, else 0.
    """

    statistics: ClassStatistics
    A: Tensor
    contrast: Tensor
    variance: Tensor
    others: Tensor
    counted: Tensor

    def weighted_by(self, weight: Weight) -> Tensor:
        """Weights of the classes, zero for those that do not count, shape (groups, 1, c)."""
        return torch.where(self.counted > 0, weight(self.variance, self.others), 0)[:, None, :]


_WIDE = 64  # columns from which on it pays to turn a factor into a triangular one


class Form:
    """How the overall criterion of a row becomes a function of one linear map h = x factor + offset.

    `homogeneous` tells whether the score of a multiple of x is a power of that multiple times the score of x.
    """

    homogeneous = True
    has_offset = False

    def rank(self, channels: int, classes: int) -> int:
        """Columns of the factor."""
        return classes

    def fold(self, rows: OneVersusRest) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Factor (groups, d, rank), and offset (groups, 1, rank) and log prior (c,) where `has_offset`."""
        raise NotImplementedError

    def reduce(self, h: Tensor, log_prior: Tensor | None, dim: int) -> Tensor:
        """Score from the map h, over its dimension `dim`; without the constant."""
        raise NotImplementedError


@dataclass(frozen=True)
class Quadratic(Form):
    """For criteria that are weight * (m1 - m2)^2 + constant: ||x factor||^2, of the least rank there is.

    Examples
    --------
    >>> Quadratic(lambda s1, s2: 1 / s1).reduce(torch.tensor([[3.0, 4.0]]), None, -1)
    tensor([25.])
    """

    weight: Weight

    def rank(self, channels: int, classes: int) -> int:
        """Directions that can tell the classes apart."""
        return min(classes - 1, channels)

    def fold(self, rows: OneVersusRest) -> tuple[Tensor, None, None]:
        """Compress the weighted contrasts to an equal quadratic form."""
        F = rows.contrast * rows.weighted_by(self.weight).sqrt()  # [g, d, c]; its columns are of like size
        d, c = F.shape[-2:]
        if c - 1 < d:
            F = F @ torch.linalg.eigh(F.mT @ F).eigenvectors[..., 1:]  # one direction is null
        else:
            values, V = torch.linalg.eigh(F @ F.mT)
            F = V * values.clamp_min(0).sqrt()[:, None, :]
        if F.shape[-1] > _WIDE:  # turned, so that column j has nothing in its first j rows: half the multiplications
            F = torch.linalg.qr(F.mT, mode="r").R.mT.tril()
        return F, None, None

    def reduce(self, h: Tensor, log_prior: Tensor | None, dim: int) -> Tensor:
        """Sum of squares."""
        if dim == -1 and not torch.compiler.is_compiling():  # a product sums up short rows faster
            return h.square() @ h.new_ones(h.shape[-1])
        return h.square().sum(dim)


@dataclass(frozen=True)
class Absolute(Form):
    """For criteria that are weight * |m1 - m2| + constant."""

    weight: Weight

    def fold(self, rows: OneVersusRest) -> tuple[Tensor, None, None]:
        """Weigh the contrasts."""
        return rows.contrast * rows.weighted_by(self.weight), None, None

    def reduce(self, h: Tensor, log_prior: Tensor | None, dim: int) -> Tensor:
        """Sum of sizes."""
        return h.abs().sum(dim)


class Information(Form):
    """Divergence of the posterior of the classes from their prior: Gaussians of one covariance, projected."""

    homogeneous = False
    has_offset = True

    def fold(self, rows: OneVersusRest) -> tuple[Tensor, Tensor, Tensor]:
        """Log likelihoods of the classes, up to a constant."""
        A, statistics = rows.A, rows.statistics
        Sw, M, centre = (t.to(A) for t in (statistics.within, statistics.deviations, statistics.overall_mean))
        precision = A @ torch.linalg.pinv(A.mT @ Sw @ A, rtol=1e-10, hermitian=True) @ A.mT  # [g, d, d]
        factor = precision @ M.mT  # [g, d, c]
        offset = -(M * factor.mT).sum(-1)[:, None, :] / 2 - centre @ factor
        prior = statistics.prior.to(A)
        return factor, offset, torch.where(prior.sum() > 0, prior, 1 / len(prior)).log()  # nothing seen: all alike

    def reduce(self, h: Tensor, log_prior: Tensor | None, dim: int) -> Tensor:
        """Information that the row carries about its class, in nats."""
        assert log_prior is not None
        shape = [1] * h.ndim
        shape[dim] = -1
        prior = log_prior.to(h).reshape(shape)
        evidence = torch.logsumexp(h + prior, dim, keepdim=True)
        posterior = (h + prior - evidence).exp()
        return ((posterior * h).sum(dim) - evidence.squeeze(dim)).clamp_min(0)


class Energy(Form):
    """The score is ||x||^2: no labels, no statistics, no factor. What supervision adds is told by this ablation."""

    def rank(self, channels: int, classes: int) -> int:
        """There is no factor."""
        return 0


class Criterion(NamedTuple):
    """A criterion, from moments or from samples, and the form in which a pooling layer can use it.

    Attributes
    ----------
    from_moments : callable (Group, Group) -> Tensor, optional
        None where the ranks of the samples are needed.
    from_ranks : callable (ranks, members, weight=None) -> Tensor, optional
        Takes the ranks of every row in its column, shape (n, d), which rows make the first group, and how often a row
        counts, shape (n,), where that is not once. It is called without weights where there are none.
    form : Form, optional
        None where single rows cannot be scored by it.
    compares_variances : bool
        Whether a variance that is much smaller than the other makes it large, so that it wants a floor.
    """

    from_moments: Callable[[Group, Group], Tensor] | None = None
    from_ranks: Callable[..., Tensor] | None = None
    form: Form | None = None
    compares_variances: bool = False


def _kl(one: Group, two: Group) -> Tensor:
    """Symmetric relative entropy of two Gaussians, in nats."""
    s1, s2 = one.variance, two.variance
    return (s1 / s2 + s2 / s1 - 2) / 2 + _kl_weight(s1, s2) * (one.mean - two.mean) ** 2


def _kl_weight(s1: Tensor, s2: Tensor) -> Tensor:
    return (1 / s1 + 1 / s2) / 2


def _ttest(one: Group, two: Group) -> Tensor:
    """Absolute two-sample t with the pooled variance estimate."""
    n1, n2 = one.size, two.size
    freedom = n1 + n2 - 2
    pooled = ((n1 - 1) * one.variance + (n2 - 1) * two.variance) / freedom.clamp_min(1)
    pooled = torch.where(freedom > 0, pooled, (one.variance + two.variance) / 2)  # a row on either side
    return (one.mean - two.mean).abs() / (pooled * (1 / n1 + 1 / n2)).sqrt()


def _ttest_weight(s1: Tensor, s2: Tensor) -> Tensor:
    """Weigh a value against values of known variance: both sides alike."""
    return ((s1 + s2) / 2).rsqrt()


def _bhattacharyya(one: Group, two: Group) -> Tensor:
    """Exponent of the Chernoff bound on the error at 1/2, for two Gaussians."""
    s1, s2 = one.variance, two.variance
    apart = _bhattacharyya_weight(s1, s2) * (one.mean - two.mean) ** 2
    return apart + ((s1 + s2) / (2 * (s1 * s2).sqrt())).log() / 2


def _bhattacharyya_weight(s1: Tensor, s2: Tensor) -> Tensor:
    return 1 / (4 * (s1 + s2))


def _information(one: Group, two: Group) -> Tensor:
    """Mutual information of column and group, in nats: Gaussians of one variance, by quadrature.

    It is the mean, over the rows, of the divergence of the group's posterior from its prior.
    """
    n1, n2 = one.size, two.size
    variance = (n1 * one.variance + n2 * two.variance) / (n1 + n2)
    gap = (one.mean - two.mean).abs() / variance.sqrt()  # in standard deviations
    nodes, weights = (torch.as_tensor(a).to(gap) for a in np.polynomial.hermite_e.hermegauss(64))
    weights = weights / math.sqrt(2 * math.pi)
    total = torch.zeros_like(gap)
    for share, other in ((n1, n2), (n2, n1)):
        # t deviations from the mean of its group, a row has this log likelihood ratio against the other
        ratio = gap[..., None] * nodes + gap[..., None] ** 2 / 2
        odds = (share / other).log()[..., None]
        gained = -torch.nn.functional.softplus(-(ratio + odds)) - (share / (n1 + n2)).log()[..., None]
        total = total + share / (n1 + n2) * (gained * weights).sum(-1)
    return total.clamp_min(0)


def _u_statistic(ranks: Tensor, members: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    w = torch.ones_like(ranks[:, 0]) if weight is None else weight
    n, total = w[members].sum(), w.sum()
    return (w[:, None] * ranks)[members].sum(0) - n * (n + 1) / 2, n, total - n


def _roc(ranks: Tensor, members: Tensor, weight: Tensor | None = None) -> Tensor:
    """Area between the empirical ROC curve and the chance line: |AUC - 1/2|."""
    U, n, m = _u_statistic(ranks, members, weight)
    return (U / (n * m) - 0.5).abs()


def _wilcoxon(ranks: Tensor, members: Tensor, weight: Tensor | None = None) -> Tensor:
    """Absolute standardised Mann-Whitney U, with the variance corrected for ties."""
    U, n, m = _u_statistic(ranks, members, weight)
    w = torch.ones_like(ranks[:, 0]) if weight is None else weight
    centred = ranks - (w @ ranks) / (n + m)
    spread = (w @ centred**2) / (n + m - 1).clamp_min(torch.finfo(ranks.dtype).tiny)  # ties are in it already
    variance = n * m / (n + m) * spread
    return torch.where(variance > 0, (U - n * m / 2).abs() / variance.clamp_min(1e-300).sqrt(), 0)


CRITERIA: Registry[Criterion] = Registry(
    "criterion",
    {
        "kl": Criterion(_kl, form=Quadratic(_kl_weight), compares_variances=True),
        "ttest": Criterion(_ttest, form=Absolute(_ttest_weight)),
        "bhattacharyya": Criterion(_bhattacharyya, form=Quadratic(_bhattacharyya_weight), compares_variances=True),
        "information": Criterion(_information, form=Information()),
        "roc": Criterion(from_ranks=_roc),
        "wilcoxon": Criterion(from_ranks=_wilcoxon),
        "energy": Criterion(form=Energy()),
    },
)


def register(name: str, criterion: Criterion) -> None:
    """Add a criterion of one's own, by the name that options then use.

    Examples
    --------
    >>> gap = Criterion(lambda one, two: (one.mean - two.mean) ** 2, form=Quadratic(lambda s1, s2: torch.ones_like(s1)))
    >>> register("gap", gap)
    >>> column_criterion("gap") is gap
    True
    >>> CRITERIA.remove("gap")
    """
    CRITERIA.add(name, criterion)


def for_columns() -> list[str]:
    """Names of the criteria that can rank columns."""
    return [n for n, c in CRITERIA.items() if c.from_moments is not None or c.from_ranks is not None]


def for_rows() -> list[str]:
    """Names of the criteria that can score single rows, and so the pixels of a pooling layer."""
    return [name for name, criterion in CRITERIA.items() if criterion.form is not None]


def column_criterion(name: str) -> Criterion:
    """Look up a criterion that can rank columns.

    Examples
    --------
    >>> one, two = (Group(torch.tensor(9.0), torch.tensor(m), torch.tensor(2.0)) for m in (0.0, 4.0))
    >>> column_criterion("kl").from_moments(one, two)
    tensor(8.)
    """
    known = for_columns()
    if name not in known and name in CRITERIA:
        raise InputError(f"criterion {name!r} knows no classes and cannot rank columns; use one of {', '.join(known)}")
    if name not in known:
        raise unknown("criterion", name, known)
    return CRITERIA[name]


def row_form(name: str) -> Form:
    """Look up the form in which a criterion scores single rows; `roc` and `wilcoxon` have none.

    Examples
    --------
    >>> row_form("kl").rank(channels=20, classes=10)
    9
    """
    if name in CRITERIA and CRITERIA[name].form is None:
        raise InputError(
            f"criterion {name!r} cannot rank instances: with one foreground value it gives every untied row the "
            f"same sum; use one of {', '.join(sorted(for_rows()))}"
        )
    if name not in CRITERIA:
        raise unknown("criterion", name, for_rows())
    form = CRITERIA[name].form
    assert form is not None
    return form
