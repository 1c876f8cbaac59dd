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

import numpy as np
import torch
from torch import Tensor

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
    "supervised_projection",
]

_FLOOR = 1e-12  # the least eigenvalue of Sw, as a share of the largest
_SMOOTHINGS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)


@torch.no_grad()
def supervised_projection(
    statistics: ClassStatistics,
    method: str = "fisher",
    *,
    shrinkage: float | str = "auto",
    start: Tensor | None = None,
) -> Tensor:
    """Directions that tell the classes apart, one column a class (Alg. 1).

    Parameters
    ----------
    statistics : ClassStatistics
        Where Sw, Sb and the class means come from.
    method : {"fisher", "orthogonal", "penalised"}
        Which problem to solve.
    shrinkage : float in [0, 1] or "auto"
        See :func:`shrink`.
    start : Tensor of shape (groups, d, c), optional
        An earlier answer to start from, for the methods that iterate.

    Returns
    -------
    Tensor of shape (groups, d, c)
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
    Sw = shrink(statistics.within, statistics.total, shrinkage)
    Sb = statistics.between
    k = min(statistics.num_classes - 1, Sw.shape[-1]) or 1
    A = METHODS[method](Sw, Sb, k, start)
    return align_to_classes(A, statistics.deviations, Sw, statistics.present)


def shrink(Sw: Tensor, total: Tensor | float, amount: float | str = "auto") -> Tensor:
    r"""Pull a covariance towards a multiple of the identity: (1 - a) Sw + a tr(Sw)/d I.

    With ``amount="auto"`` a is the oracle approximating amount of Chen, Wiesel, Eldar and Hero (2010), which
    needs no more than Sw and the number of rows. It leaves an invertible matrix whatever the columns: constant,
    duplicated or more than the rows. With an amount of 0, :func:`fisher` keeps eigenvalues above 1e-12 of the largest.

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
    >>> shrink(torch.diag(torch.tensor([1.0, 3.0])), 100, 0.5)
    tensor([[1.5000, 0.0000],
            [0.0000, 2.5000]])
    """
    d = Sw.shape[-1]
    trace = Sw.diagonal(dim1=-2, dim2=-1).sum(-1)  # [...]
    if amount == "auto":
        squared = (Sw * Sw).sum((-2, -1))
        top = (1 - 2 / d) * squared + trace**2
        bottom = (total + 1 - 2 / d) * (squared - trace**2 / d)
        rho = torch.where(bottom > 0, top / bottom.clamp_min(torch.finfo(Sw.dtype).tiny), 1.0).clamp(0, 1)
    elif isinstance(amount, int | float) and 0 <= amount <= 1:
        rho = torch.full_like(trace, float(amount))
    else:
        raise InputError(f"shrinkage must be 'auto' or a number in [0, 1], got {amount!r}")
    level = torch.where(trace > 0, trace / d, 1.0)  # no spread at all: the identity
    rho = torch.where(trace > 0, rho, 1.0)
    eye = torch.eye(d, dtype=Sw.dtype, device=Sw.device)
    return (1 - rho)[..., None, None] * Sw + (rho * level)[..., None, None] * eye


def fisher(Sw: Tensor, Sb: Tensor, k: int, start: Tensor | None = None) -> Tensor:
    """Top k generalised eigenvectors of Sb a = l Sw a, scaled so that A^T Sw A = I (Eq. 4, A(0) of Alg. 1).

    Examples
    --------
    >>> A = fisher(torch.diag(torch.tensor([4.0, 1.0])), torch.diag(torch.tensor([9.0, 1.0])), 1)
    >>> A.abs()
    tensor([[0.5000],
            [0.0000]])
    """
    values, V = torch.linalg.eigh(Sw)
    floor = _FLOOR * values[..., -1:].clamp_min(torch.finfo(Sw.dtype).tiny)
    whiten = V * values.clamp_min(floor).rsqrt()[..., None, :]
    _, U = torch.linalg.eigh(whiten.mT @ Sb @ whiten)
    return whiten @ U[..., -k:].flip(-1)


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
    rho = quotient_of_traces(A, Sw, Sb)
    for _ in range(50):
        A = torch.linalg.eigh(Sw - rho[..., None, None] * Sb).eigenvectors[..., :k]
        rho, before = quotient_of_traces(A, Sw, Sb), rho
        if bool(((before - rho) <= 1e-15 * rho).all()):
            break
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
    spread = torch.einsum("...dk,...de,...ek->...k", A, Sw, A).amax(-1, keepdim=True).sqrt()
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
