r"""Supervised projection (Alg. 1): directions in which classes are apart and each class is tight.

``A`` is (d, k), its columns are directions and P = X A. The paper writes the transpose. Every function takes
stacks of matrices, one a group. :func:`supervised_projection` is the whole of Alg. 1; the methods it chooses
from answer different questions:

- :func:`fisher`, A(0): the generalised eigenvectors of (Sb, Sw), at most min(c-1, d) of them;
- :func:`orthogonal`: the exact minimiser of the quotient of traces under orthonormal columns;
- :func:`penalised`: Eq. 7 itself, with orthonormality as a penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from multipartite._threads import one_blas_thread
from multipartite.errors import InputError, unknown
from multipartite.statistics import ClassStatistics

__all__ = [
    "METHODS",
    "align_to_classes",
    "explained",
    "fisher",
    "objective",
    "objective_gradient",
    "orthogonal",
    "penalised",
    "quotient_of_traces",
    "shrink",
    "shrunk_within",
    "supervised_projection",
]

_FLOOR = 1e-12  # the least eigenvalue of the correlation matrix, as a share of the largest; the least share within
_SINGULAR = 1e-8  # the least share of a column's variance that the columns before it may leave unexplained
_CONSTANT = 1e-10  # a column whose standard deviation is a smaller share of its mean does not vary but by rounding
_FEW = 4  # so many times fewer classes than features are few: the product of their means is of low rank
_SMOOTHINGS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)


@torch.no_grad()
def supervised_projection(
    statistics: ClassStatistics,
    method: str = "fisher",
    *,
    shrinkage: float | str = "auto",
    scale: bool = False,
    components: int | None = None,
    start: Tensor | None = None,
) -> Tensor:
    """Directions that tell the classes apart, one column a class (Alg. 1).

    A column that does not vary has no part in them.

    Parameters
    ----------
    statistics : ClassStatistics
        Where Sw, Sb and the class means come from.
    method : {"fisher", "orthogonal", "penalised"}
        Which problem to solve.
    shrinkage : float in [0, 1] or "auto"
        See :func:`shrink`.
    scale : bool
        Whether orthonormal means: of the columns divided by their standard deviations. The paper means the columns
        as they are, where the ones with small numbers decide. `fisher` gives the same either way.
    components : int, optional
        Give that many leading directions, at most min(c - 1, d), each with its largest entry positive. By default
        they are turned towards the classes.
    start : Tensor of shape (groups, d, c), optional
        An earlier answer to start from, for the methods that iterate.

    Returns
    -------
    Tensor of shape (groups, d, c) or (groups, d, components)
        Zero where nothing separates: all of it with fewer than two classes, the column of a class never seen.

    Examples
    --------
    >>> X = torch.tensor([[0.0, 5.0], [1.0, 3.0], [8.0, 4.0], [9.0, 5.0]])
    >>> A = supervised_projection(ClassStatistics(2, 2).update(X, [0, 0, 1, 1]), shrinkage=0.0)
    >>> ((X - X.mean(0)) @ A[0].float()).argmax(dim=1)
    tensor([0, 0, 1, 1])
    """
    if method not in METHODS:
        raise unknown("projection", method, METHODS)
    variance, varies = _total_variance(statistics)
    Sw = _shrunk_within(statistics, shrinkage, variance, varies)
    Sb, M = statistics.between, statistics.deviations
    d = Sw.shape[-1]
    most = min(statistics.num_classes - 1, d)
    if components is not None and components not in range(1, most + 1):
        bounds = f"[1, {most}] = [1, min(n_classes - 1, n_features={d})]"
        raise InputError(f"n_components must lie in {bounds} and be whole, got {components}")
    unit = variance.sqrt()[..., None] if scale else 1.0  # [g, d, 1]
    if isinstance(unit, Tensor):
        Sw, Sb, M = Sw / unit / unit.mT, Sb / unit / unit.mT, M / unit.mT
    k = int(components or most or 1)
    A = None
    if method == "fisher" and statistics.num_classes * _FEW < d:
        A = _fisher_of_few(Sw, (statistics.prior[:, None].sqrt() * M).mT, k)
    if A is None:
        A = METHODS[method](Sw, Sb, k, None if start is None else start * unit)
    if components is None:
        A = align_to_classes(A, M, Sw, statistics.present)
    A = torch.where(varies[..., None], A / unit, 0)
    return A if components is None else A * A.gather(-2, A.abs().argmax(-2, keepdim=True)).sign()


def shrunk_within(statistics: ClassStatistics, shrinkage: float | str = "auto") -> Tensor:
    """Within-class covariance Sw that can be inverted, whatever the columns.

    It is shrunk by :func:`shrink`. A column that varies between the classes alone gets 1/N of its variance, the least
    that N rows can tell from none; one that does not vary at all as much as all others together, so that no method
    takes it before another.

    Examples
    --------
    >>> statistics = ClassStatistics(2, 2).update([[0.0, 5.0], [2.0, 5.0], [9.0, 5.0], [11.0, 5.0]], [0, 0, 1, 1])
    >>> statistics.within[0].diagonal(), shrunk_within(statistics)[0].diagonal()
    (tensor([1., 0.], dtype=torch.float64), tensor([ 1.0000, 42.5000], dtype=torch.float64))
    """
    return _shrunk_within(statistics, shrinkage, *_total_variance(statistics))


def _shrunk_within(statistics: ClassStatistics, shrinkage: float | str, variance: Tensor, varies: Tensor) -> Tensor:
    Sw = statistics.within
    spread = varies & (Sw.diagonal(dim1=-2, dim2=-1) > _FLOOR * variance)  # [g, d]
    Sw = shrink(Sw * (spread[..., None] & spread[..., None, :]), statistics.total, shrinkage)
    least = torch.where(varies, variance / statistics.total, variance * Sw.shape[-1])
    return Sw + torch.diag_embed(torch.where(spread, 0, least))


def shrink(Sw: Tensor, total: Tensor | float, amount: float | str = "auto") -> Tensor:
    r"""Pull the correlations of a covariance towards zero: (1 - a) Sw + a diag(Sw).

    That is to shrink the correlation matrix towards the identity, so it does not matter in which units the columns
    are. With ``amount="auto"`` a is the oracle approximating amount of Chen, Wiesel, Eldar and Hero (2010) for the
    correlation matrix, which needs no more than Sw and the number of rows. Columns may be duplicated or more than the
    rows; those without variance stay so and are left out of the amount.

    Parameters
    ----------
    Sw : Tensor of shape (..., d, d)
        Covariance.
    total : Tensor or float
        Number of rows that it comes from.
    amount : float in [0, 1] or "auto"
        How far to go.

    Examples
    --------
    >>> shrink(torch.tensor([[1.0, 2.0], [2.0, 9.0]]), 100, 0.5)
    tensor([[1., 1.],
            [1., 9.]])
    """
    variance = Sw.diagonal(dim1=-2, dim2=-1)  # [..., d]
    if amount == "auto":
        R = _correlation(Sw)
        p = (variance > 0).sum(-1).clamp_min(1)  # [...], the trace of R
        squared = (R * R).sum((-2, -1))
        top = (1 - 2 / p) * squared + p**2
        bottom = (total + 1 - 2 / p) * (squared - p)
        rho = torch.where(bottom > 0, top / bottom.clamp_min(torch.finfo(Sw.dtype).tiny), 1.0).clamp(0, 1)
    elif isinstance(amount, Real) and 0 <= float(amount) <= 1:
        rho = torch.full_like(variance[..., 0], float(amount))
    else:
        raise InputError(f"shrinkage must be 'auto' or a number in [0, 1], got {amount!r}")
    return torch.lerp(Sw, torch.diag_embed(variance), rho[..., None, None])


def fisher(Sw: Tensor, Sb: Tensor, k: int, start: Tensor | None = None) -> Tensor:
    """Top k generalised eigenvectors of Sb a = l Sw a, scaled so that A^T Sw A = I (Eq. 4, A(0) of Alg. 1).

    Examples
    --------
    >>> A = fisher(torch.diag(torch.tensor([4.0, 1.0])), torch.diag(torch.tensor([9.0, 1.0])), 1)
    >>> A.abs()
    tensor([[0.5000],
            [0.0000]])
    """
    variance = Sw.diagonal(dim1=-2, dim2=-1)
    values, V = torch.linalg.eigh(_correlation(Sw))  # so that the floor does not see in which units the columns are
    floor = _FLOOR * values[..., -1:].clamp_min(torch.finfo(Sw.dtype).tiny)
    whiten = (
        torch.where(variance > 0, variance, 1).rsqrt()[..., None] * V * values.clamp_min(floor).rsqrt()[..., None, :]
    )
    _, U = torch.linalg.eigh(whiten.mT @ Sb @ whiten)
    return whiten @ U[..., -k:].flip(-1)


def _fisher_of_few(Sw: Tensor, root: Tensor, k: int) -> Tensor | None:
    """Directions of :func:`fisher` for Sb = root root^T of low rank, or None where Sw is too near to singular.

    A Cholesky factor and a few columns take the place of two full eigenproblems.
    """
    variance = Sw.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(variance > 0, variance, 1).rsqrt()[..., None]
    L, failed = torch.linalg.cholesky_ex(_correlation(Sw))
    if failed.any() or L.diagonal(dim1=-2, dim2=-1).square().min() < _SINGULAR:
        return None
    whitened = torch.linalg.solve_triangular(L, scale * root, upper=False)
    U = torch.linalg.svd(whitened, full_matrices=False).U[..., :k]
    return scale * torch.linalg.solve_triangular(L.mT, U, upper=True)


def orthogonal(Sw: Tensor, Sb: Tensor, k: int, start: Tensor | None = None) -> Tensor:
    """Orthonormal columns with the least tr(A^T Sw A) / tr(A^T Sb A), by the trace-ratio iteration.

    For a quotient rho, the k lowest eigenvectors of Sw - rho Sb have a quotient no larger; repeat with it. The
    iteration is Newton's on a monotone function, so it reaches the global minimum in a few steps. This is the
    limit of Eq. 7 as lambda grows.

    Examples
    --------
    >>> A = orthogonal(torch.diag(torch.tensor([4.0, 1.0])), torch.diag(torch.tensor([9.0, 1.0])), 1)
    >>> A.abs()
    tensor([[1.],
            [0.]])
    """
    A = torch.linalg.qr(fisher(Sw, Sb, k) if start is None else start[..., :k]).Q
    mean = Sw.diagonal(dim1=-2, dim2=-1).mean(-1)
    Sw = Sw + _FLOOR * torch.diag_embed(mean[..., None].expand(Sw.shape[:-1]))  # no direction is free of spread
    rho = quotient_of_traces(A, Sw, Sb)
    for _ in range(50):
        lower = torch.linalg.eigh(Sw - rho[..., None, None] * Sb).eigenvectors[..., :k]
        quotient = quotient_of_traces(lower, Sw, Sb)
        better = rho - quotient > 1e-15 * rho
        if not better.any():
            break
        A, rho = torch.where(better[..., None, None], lower, A), torch.where(better, quotient, rho)
    return A


def penalised(Sw: Tensor, Sb: Tensor, k: int, start: Tensor | None = None, *, weight: float = 1.0) -> Tensor:
    """Minimise Eq. 7 from A(0) by L-BFGS with the gradient of Eq. 10, its signs corrected.

    The norm in Eq. 7 has a kink where the columns are orthonormal, which is where a large weight drives them. It
    is smoothed, less and less, so that the search does not stop at the first orthonormal matrix on its way.

    Examples
    --------
    >>> Sw, Sb = torch.diag(torch.tensor([4.0, 1.0])), torch.diag(torch.tensor([9.0, 1.0]))
    >>> A = penalised(Sw, Sb, 1, weight=10.0)
    >>> bool(objective(A, Sw, Sb, 10.0) < 0.45)
    True
    """
    from scipy.optimize import minimize

    A0 = fisher(Sw, Sb, k)
    if start is not None:  # a direction that was dropped before starts afresh
        A0 = torch.where((start[..., :k] != 0).any(-2, keepdim=True), start[..., :k], A0)
    A0 = torch.nn.functional.normalize(A0, dim=-2)
    answers = []
    for a, sw, sb in zip(*(M.double().cpu().reshape(-1, *M.shape[-2:]) for M in (A0, Sw, Sb)), strict=True):

        def value_and_gradient(
            flat: np.ndarray, smoothing: float, shape: torch.Size = a.shape, sw: Tensor = sw, sb: Tensor = sb
        ) -> tuple[float, np.ndarray]:
            A = torch.from_numpy(flat).reshape(shape)
            slope = objective_gradient(A, sw, sb, weight, smoothing)
            return objective(A, sw, sb, weight, smoothing).item(), slope.numpy().ravel()

        flat = a.numpy().ravel()
        with one_blas_thread():  # the products are small
            for smoothing in _SMOOTHINGS:
                flat = minimize(value_and_gradient, flat, (smoothing,), jac=True, method="L-BFGS-B").x
        answers.append(torch.from_numpy(flat).reshape(a.shape))
    return torch.stack(answers).reshape(A0.shape).to(A0)


def quotient_of_traces(A: Tensor, Sw: Tensor, Sb: Tensor) -> Tensor:
    """Q1 (Eq. 8): tr(A^T Sw A) / tr(A^T Sb A), shape (...); very large where nothing separates.

    Examples
    --------
    >>> quotient_of_traces(torch.eye(2), torch.eye(2), 4 * torch.eye(2))
    tensor(0.2500)
    """
    return _trace_of(A, Sw) / _trace_of(A, Sb).clamp_min(torch.finfo(A.dtype).eps ** 2)


def objective(A: Tensor, Sw: Tensor, Sb: Tensor, weight: float, smoothing: float = 0.0) -> Tensor:
    """Q (Eq. 7): the quotient of traces plus `weight` times the Frobenius norm of I - A^T A.

    With `smoothing` e the norm is sqrt(norm^2 + e^2), which has no kink.

    Examples
    --------
    >>> objective(torch.eye(2), torch.eye(2), 4 * torch.eye(2), 1.0)
    tensor(0.2500)
    """
    return quotient_of_traces(A, Sw, Sb) + weight * _smoothed_norm(_gap(A), smoothing)


def objective_gradient(A: Tensor, Sw: Tensor, Sb: Tensor, weight: float, smoothing: float = 0.0) -> Tensor:
    """Gradient of :func:`objective`: Eq. 10 with the signs of its first two terms turned round.

    As printed, the first two terms of Eq. 10 are minus the gradient of Q1, the third plus that of Q2.

    Examples
    --------
    >>> objective_gradient(torch.eye(2), torch.eye(2), 4 * torch.eye(2), 1.0).norm()
    tensor(0.)
    """
    w, b = _trace_of(A, Sw)[..., None, None], _trace_of(A, Sb)[..., None, None]
    b = b.clamp_min(torch.finfo(A.dtype).eps ** 2)
    gap = _gap(A)
    norm = _smoothed_norm(gap, smoothing)[..., None, None].clamp_min(torch.finfo(A.dtype).tiny)
    return 2 / b * Sw @ A - 2 * w / b**2 * Sb @ A - 2 * weight / norm * A @ gap


def align_to_classes(A: Tensor, deviations: Tensor, Sw: Tensor, present: Tensor | None = None) -> Tensor:
    """Rotate directions so that column j stands for class j.

    The criteria do not change under a rotation of the columns, so choose the one that brings the projected
    class means nearest to the corners of a simplex, one corner a class (orthogonal Procrustes onto the centred
    identity). It also spreads min(c-1, d) directions over c columns. Directions in which the classes do not
    differ, measured against their own spread, are dropped rather than filled with rounding noise.

    Parameters
    ----------
    A : Tensor of shape (..., d, k)
        Directions.
    deviations : Tensor of shape (..., c, d)
        Class means about the overall mean, zero for a class never seen.
    Sw : Tensor of shape (..., d, d)
        Within-class covariance, the yardstick.
    present : Tensor of shape (c,), optional
        Which classes have been seen; by default those whose mean is not the mean of all rows.

    Returns
    -------
    Tensor of shape (..., d, c)
        The projected means, centred, are then a symmetric matrix, and no class is below the mean of the classes
        in its own column. The column of a class never seen is zero.

    Examples
    --------
    >>> means = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    >>> align_to_classes(torch.tensor([[-2.0], [0.0]]), means, torch.eye(2)).sign()
    tensor([[-1.,  1.],
            [ 0.,  0.]])
    """
    seen = (deviations != 0).any(-1, keepdim=True) if present is None else present[:, None]  # [..., c, 1]
    centre = deviations.sum(-2, keepdim=True) / seen.sum(-2, keepdim=True).clamp_min(1)
    Z = ((deviations - centre) * seen) @ A  # [..., c, k]
    U, s, Vt = torch.linalg.svd(Z, full_matrices=False)
    spread = (A * (Sw @ A)).sum(-2).amax(-1, keepdim=True).clamp_min(0).sqrt()
    informative = s > 1e-6 * torch.maximum(s[..., :1], spread)
    return A @ (Vt.mT * informative[..., None, :]) @ (U * seen).mT


@torch.no_grad()
def explained(statistics: ClassStatistics, A: Tensor) -> Tensor:
    r"""Share of its variance that the classes explain along the direction that tells them apart best.

    .. math:: \eta^2 = \lambda / (1 + \lambda), \qquad \lambda = \max_a \frac{a^T S_b a}{a^T S_w a}

    over the directions that the columns of A span.

    Parameters
    ----------
    statistics : ClassStatistics
        Where Sw and Sb come from.
    A : Tensor of shape (groups, d, c)
        From :func:`supervised_projection`.

    Returns
    -------
    Tensor of shape (groups,)
        In [0, 1); zero where nothing separates.

    Examples
    --------
    >>> statistics = ClassStatistics(2, 1).update([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1])
    >>> explained(statistics, supervised_projection(statistics))
    tensor([0.8000], dtype=torch.float64)
    """
    W, B = (A.mT @ S.to(A) @ A for S in (statistics.within, statistics.between))  # [g, c, c]
    values, V = torch.linalg.eigh(W)
    spans = values > 1e-9 * values[..., -1:].clamp_min(torch.finfo(A.dtype).tiny)
    whiten = V * torch.where(spans, values.clamp_min(torch.finfo(A.dtype).tiny).rsqrt(), 0)[..., None, :]
    highest = torch.linalg.eigvalsh(whiten.mT @ B @ whiten)[..., -1].clamp_min(0)
    return highest / (1 + highest)


def _total_variance(statistics: ClassStatistics) -> tuple[Tensor, Tensor]:
    """Variance of every feature, and which of them vary by more than rounding; the others get the mean variance."""
    M = statistics.deviations  # [g, c, d]
    variance = statistics.within.diagonal(dim1=-2, dim2=-1) + (statistics.prior[:, None] * M**2).sum(-2)  # [g, d]
    varies = variance > (_CONSTANT * statistics.overall_mean.squeeze(-2)) ** 2
    level = (variance * varies).sum(-1, keepdim=True) / varies.sum(-1, keepdim=True).clamp_min(1)
    return torch.where(varies, variance, torch.where(level > 0, level, 1)), varies


def _correlation(S: Tensor) -> Tensor:
    """Covariance of the columns divided by their standard deviations; zero where there is none."""
    variance = S.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(variance > 0, variance, 1).rsqrt()
    return S * scale[..., None] * scale[..., None, :]


def _trace_of(A: Tensor, S: Tensor) -> Tensor:
    return (A * (S @ A)).sum((-2, -1))


def _smoothed_norm(gap: Tensor, smoothing: float) -> Tensor:
    norm = torch.linalg.matrix_norm(gap)
    return norm if smoothing == 0 else torch.hypot(norm, torch.full_like(norm, smoothing))


def _gap(A: Tensor) -> Tensor:
    return torch.eye(A.shape[-1], dtype=A.dtype, device=A.device) - A.mT @ A


METHODS: dict[str, Callable[[Tensor, Tensor, int, Tensor | None], Tensor]] = {
    "fisher": fisher,
    "orthogonal": orthogonal,
    "penalised": penalised,
}
