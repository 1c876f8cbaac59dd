r"""Two-group criteria (Eq. 1): how far apart two groups of numbers are, column by column.

The semantics are those of MATLAB's ``rankfeatures``. The Gaussian criteria need no more than the moments of
the two groups (so they stream); `roc` and `wilcoxon` need the samples, as ranks. All are symmetric in the
two groups and zero for a column that does not vary.

>>> sorted(CRITERIA)
['bhattacharyya', 'information', 'kl', 'roc', 'ttest', 'wilcoxon']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from multipartite.errors import unknown

__all__ = ["CRITERIA", "Criterion", "Group", "criterion"]


class Group(NamedTuple):
    """Size, mean and variance of one group, a column each."""

    size: Tensor
    mean: Tensor
    variance: Tensor


class Criterion(NamedTuple):
    """A criterion, from moments or from samples, and what makes it foldable for pooling.

    Attributes
    ----------
    from_moments : callable (Group, Group) -> Tensor, optional
        None where the ranks of the samples are needed.
    from_ranks : callable (ranks, members) -> Tensor, optional
        Takes the ranks of every row in its column, shape (n, d), and which rows make the first group.
    weight : callable (variance, variance) -> Tensor, optional
        The factor w where the criterion is w |m1 - m2|^power + constant.
    power : int
        See `weight`.
    """

    from_moments: Callable[[Group, Group], Tensor] | None = None
    from_ranks: Callable[[Tensor, Tensor], Tensor] | None = None
    weight: Callable[[Tensor, Tensor], Tensor] | None = None
    power: int = 2


def criterion(name: str) -> Criterion:
    """Look a criterion up by its name.

    Examples
    --------
    >>> one, two = (Group(torch.tensor(9.0), torch.tensor(m), torch.tensor(2.0)) for m in (0.0, 4.0))
    >>> criterion("kl").from_moments(one, two)
    tensor(8.)
    """
    if name not in CRITERIA:
        raise unknown("criterion", name, CRITERIA)
    return CRITERIA[name]


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


def _u_statistic(ranks: Tensor, members: Tensor) -> tuple[Tensor, int, int]:
    n = int(members.sum())
    return ranks[members].sum(0) - n * (n + 1) / 2, n, len(ranks) - n


def _roc(ranks: Tensor, members: Tensor) -> Tensor:
    """Area between the empirical ROC curve and the chance line: |AUC - 1/2|."""
    U, n, m = _u_statistic(ranks, members)
    return (U / (n * m) - 0.5).abs()


def _wilcoxon(ranks: Tensor, members: Tensor) -> Tensor:
    """Absolute standardised Mann-Whitney U, with the variance corrected for ties."""
    U, n, m = _u_statistic(ranks, members)
    # ties are in the variance of the ranks already
    variance = n * m / (n + m) * ranks.var(0)
    return torch.where(variance > 0, (U - n * m / 2).abs() / variance.clamp_min(1e-300).sqrt(), 0)


CRITERIA: dict[str, Criterion] = {
    "kl": Criterion(_kl, weight=_kl_weight),
    "ttest": Criterion(_ttest, weight=_ttest_weight, power=1),
    "bhattacharyya": Criterion(_bhattacharyya, weight=_bhattacharyya_weight),
    "information": Criterion(_information),
    "roc": Criterion(from_ranks=_roc),
    "wilcoxon": Criterion(from_ranks=_wilcoxon),
}
