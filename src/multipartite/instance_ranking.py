r"""Multipartite ranking of instances (Eq. 3, Alg. 2), and the fold that makes it as cheap as one small product.

A row is ranked in the projected space: p = x A has one column a class. For class i the foreground is the value
p_i with the within-class variance s_i of its column, the background the other columns, with the mean of their
values and the mean of their variances. No label is needed, so training and test rank alike. A pixel of an
activation map is a row: :func:`score_map` is steps 1 to 4 of Alg. 3, without reshaping the whole stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from multipartite.criteria import CRITERIA, Form, Group, OneVersusRest, Quadratic, row_form
from multipartite.errors import InputError
from multipartite.statistics import ClassStatistics, full_precision

__all__ = [
    "Fold",
    "as_channels_last",
    "by_images",
    "fold",
    "fold_by",
    "is_channels_last",
    "is_eager",
    "is_exporting",
    "leading",
    "one_versus_rest",
    "projected_variance",
    "score_map",
]

_FLOOR = 1e-12  # the least variance, as a share of the largest
_CHUNK = 1 << 21  # numbers of a map that are held at a time
_NARROW = 16  # columns that a vector of the processor holds: a factor is cut to a multiple of them
_AGREEMENT = 0.99  # share of the picks that a factor of lower rank leaves as they are
_TELLING = 0.01  # share of the sum of squares that columns without a say in those picks do not have
_WINDOWS, _PIXELS = 512, 4  # on how many made windows, of how many pixels each, that is measured
_LARGE = 1e15  # squares of numbers beyond this, summed, may be too large for single precision


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
    row_form(name)  # or say why not
    measure = CRITERIA[name].from_moments
    if measure is None:
        raise InputError(f"criterion {name!r} knows no classes: there is no one-versus-rest criterion of it")
    m = variance.new_ones(variance.shape[-1]) if present is None else present.to(variance)
    s = _floored(variance, m)
    two = torch.full_like(s, 2.0)  # each side weighs the same
    foreground = Group(two, P, s)
    background = Group(two, _mean_of_others(P, m), _mean_of_others(s, m))
    return torch.where(m * (m.sum() > 1) > 0, measure(foreground, background), 0)


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
    constant : Tensor of shape (groups,) or None
        What does not depend on x; None where it is not known, for it changes no choice between rows.
    form : Form
        How a score is made of h.
    informed : bool, optional
        Whether every group's factor is known not to be zero; None where nobody has looked.
    """

    factor: Tensor
    offset: Tensor | None
    log_prior: Tensor | None
    constant: Tensor | None
    form: Form
    informed: bool | None = None

    @classmethod
    def quadratic(cls, factor: Tensor) -> Fold:
        """Score by ||x factor||^2."""
        return cls(factor, None, None, None, Quadratic(torch.maximum))

    def may_vanish(self) -> bool:
        """Whether some group's factor may be zero: then nothing it knows tells the classes apart."""
        if self.informed is not None:
            return not self.informed
        return torch.compiler.is_compiling() or not self.tells_apart().all()

    def tells_apart(self) -> Tensor:
        """Which groups have a factor that is not zero, shape (groups,)."""
        return (self.factor != 0).flatten(1).any(1)

    def score(self, rows: Tensor) -> Tensor:
        """Overall criterion C_M of rows (n, groups * d), with its constant, shape (groups, n)."""
        g, d, _ = self.factor.shape
        h = rows.reshape(-1, g, d).transpose(0, 1) @ self.factor.to(rows)  # [g, n, r]
        h = h if self.offset is None else h + self.offset.to(rows)
        score = self.form.reduce(h, self.log_prior, -1)
        return score if self.constant is None else score + self.constant.to(rows)[:, None]


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
        A criterion that can score rows, see :func:`multipartite.criteria.for_rows`.

    Examples
    --------
    >>> from multipartite.projection import supervised_projection
    >>> statistics = ClassStatistics(2, 1).update([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
    >>> A = supervised_projection(statistics, shrinkage=0.0)
    >>> fold(statistics, A).factor.shape
    torch.Size([1, 1, 1])
    """
    folded = fold_by(row_form(name), statistics, A)
    if folded.form.has_offset:
        return folded
    s, m = projected_variance(statistics, A), statistics.present.to(A)
    return folded._replace(constant=one_versus_rest(torch.zeros_like(s), s, m, name).sum(-1))


def fold_by(form: Form, statistics: ClassStatistics, A: Tensor) -> Fold:
    """Fold by a form that is at hand, without the constant, which changes no choice between rows; see :func:`fold`.

    Examples
    --------
    >>> statistics = ClassStatistics(2, 1).update([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
    >>> fold_by(row_form("kl"), statistics, torch.tensor([[[-3.0, 3.0]]], dtype=torch.float64)).factor.shape
    torch.Size([1, 1, 1])
    """
    m = statistics.present.to(A)
    k = m.sum()
    s = _floored(projected_variance(statistics, A), m)  # [g, c]
    H = torch.diag(m) - m[:, None] * m / k.clamp_min(1)
    contrast = k / (k - 1).clamp_min(1) * A @ H  # [g, d, c]
    folded = form.fold(OneVersusRest(statistics, A, contrast, s, _mean_of_others(s, m), m * (k > 1)))
    return Fold(*folded, None, form)


@torch.no_grad()
def leading(statistics: ClassStatistics, folded: Fold, rank: int | str | None = "auto") -> Fold:
    """Turn the columns of a quadratic factor so that few of them decide, and set the others to zero.

    A rotation of h = x factor leaves ||h||^2 as it is; this one takes the eigenvectors of E[h h^T], largest first. With
    ``rank="auto"`` as many are kept as it takes for 99% of the picks to agree with those of the whole factor: picks in
    windows of four pixels of a class, drawn from Gaussians with the means and the covariance that the statistics hold.
    What is kept is a multiple of 16, and a factor of 16 columns or fewer is left as it is: fewer would not be faster.

    Parameters
    ----------
    statistics : ClassStatistics
        What the factor was folded from.
    folded : Fold
        From :func:`fold`; one that is not quadratic is returned as it is.
    rank : int, "auto" or None
        How many columns to keep; None for all.

    Examples
    --------
    >>> statistics = ClassStatistics(3, 2).update([[0.0, 1.0], [2.0, 1.0], [9.0, 1.5], [11.0, 0.5]], [0, 0, 1, 1])
    >>> leading(statistics, Fold.quadratic(torch.eye(2, dtype=torch.float64)[None]), 1).factor.abs()
    tensor([[[0.9947, 0.0000],
             [0.1026, 0.0000]]], dtype=torch.float64)
    """
    F = folded.factor
    g, _, r = F.shape
    least = rank if isinstance(rank, int) else _NARROW
    if not isinstance(folded.form, Quadratic) or rank is None or r <= least:
        return folded
    M, prior = statistics.class_means.to(F) @ F, statistics.prior.to(F)  # [g, c, r]
    Sw = F.mT @ statistics.within.to(F) @ F
    shares, U = torch.linalg.eigh(Sw + (M * prior[:, None]).mT @ M)
    U = U.flip(-1)
    if rank == "auto" and (shares[:, :_NARROW].sum(-1) > _TELLING * shares.sum(-1)).any():
        return folded  # even the last columns tell too much for 99 picks in a hundred to do without them
    kept = least
    if rank == "auto":
        generator = torch.Generator().manual_seed(0)  # every process makes the same windows
        classes = torch.multinomial(prior.cpu().clamp_min(0), _WINDOWS, replacement=True, generator=generator)
        noise = torch.randn(g, _WINDOWS * _PIXELS, r, generator=generator).to(F)
        values, V = torch.linalg.eigh(U.mT @ Sw @ U)
        h = (noise * values.clamp_min(0).sqrt()[:, None, :]) @ V.mT
        h = h.reshape(g, _WINDOWS, _PIXELS, r) + (M @ U)[:, classes.to(F.device), None, :]
        picks = h.square_().cumsum(-1).argmax(2)  # [g, windows, r]: by the first columns, up to each
        agree = (picks == picks[..., -1:]).double().mean(1).amin(0)  # [r]
        low = (agree < _AGREEMENT).nonzero()
        needed = int(low[-1]) + 2 if len(low) else 1
        kept = min(r, -(-needed // _NARROW) * _NARROW)
    if kept == r:
        return folded
    factor = F @ U
    factor[..., kept:] = 0
    return folded._replace(factor=factor)


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
    within, between = ((A * (S.to(A) @ A)).sum(-2) for S in (statistics.within, statistics.between))
    return torch.maximum(within, _FLOOR * between)


def _floored(variance: Tensor, present: Tensor) -> Tensor:
    """Variances no smaller than a trifle of the largest; 1 where none of them is positive."""
    largest = (variance * present).amax(-1, keepdim=True)
    return torch.where(largest > 0, torch.maximum(variance, _FLOOR * largest), 1)


def _mean_of_others(values: Tensor, present: Tensor) -> Tensor:
    """Mean of the other columns, of those that count."""
    values = values * present
    return (values.sum(-1, keepdim=True) - values) / (present.sum() - present).clamp_min(1)


# Rows that are the pixels of a map


def is_exporting() -> bool:
    """Whether torch.export is at work, which older releases of torch do not tell."""
    return bool(getattr(torch.compiler, "is_exporting", bool)())


def is_eager(x: Tensor) -> bool:
    """Whether x has numbers to look at: no graph is made of what becomes of it, and no transform wraps it."""
    return (
        not torch.compiler.is_compiling()
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and not torch.jit.is_tracing()  # type: ignore[no-untyped-call, attr-defined]
    )


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side in memory."""
    if x.ndim == 4 and not torch.compiler.is_compiling():
        _, C, H, W = x.shape
        if C > 1 and x.stride() == (C * H * W, 1, C * W, C):  # the same as below, sooner told
            return True
    return x.shape[1] > 1 and x.stride(1) == 1 and x.movedim(1, -1).is_contiguous()


def as_channels_last(x: Tensor) -> Tensor:
    """Give x with the channels of a pixel side by side in memory, a copy where they are not."""
    return x if is_channels_last(x) else x.movedim(1, -1).contiguous().movedim(-1, 1)


def score_map(x: Tensor, fold: Fold | None, *, groups: int = 1, ordinal: bool = False) -> Tensor:
    """Score of every pixel, group by group (steps 1 to 4 of Alg. 3).

    Activations whose squares would overflow are scored as multiples of the largest: within an image every score
    keeps its proportion to the others.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Activations; half precision is scored in float32.
    fold : Fold or None
        None scores by energy.
    ordinal : bool
        Whether the order of the scores is all that matters. Then groups of one channel are ranked by |x|, which
        is in the order of f^2 x^2 and does not round.

    Returns
    -------
    Tensor of shape (N, groups, *spatial)

    Examples
    --------
    >>> score_map(torch.tensor([[[3.0], [4.0]]]), None)
    tensor([[[25.]]])
    """
    g = groups if fold is None else fold.factor.shape[0]
    C = x.shape[1]
    if C % g or (fold is not None and fold.factor.shape[1] * g != C):
        held = f"groups={g}" if fold is None else f"a factor for {fold.factor.shape[1] * g} channels in {g} groups"
        raise InputError(f"channels do not fit {held}, got x with {C} channels")
    homogeneous = fold is None or fold.form.homogeneous
    if ordinal and homogeneous and g == C:
        return x.abs()
    with full_precision(x):
        if torch.finfo(x.dtype).bits < 32:
            x = x.float()
        if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x):  # no number to look at
            return _score(x if is_exporting() or not homogeneous else _within_range(x), fold, g)
        score = _score(x, fold, g)
        if homogeneous and score.device.type == "cpu" and score.numel() and not _finite(score):
            score = _score(_within_range(x), fold, g)
        return score


def _finite(score: Tensor) -> bool:
    return bool(torch.isfinite(score.detach().amax()))


def _within_range(x: Tensor) -> Tensor:
    """Images that hold very large numbers, as multiples of the largest."""
    largest = x.detach().abs().amax(tuple(range(1, x.ndim)), keepdim=True)
    return x / torch.where((largest > _LARGE) & torch.isfinite(largest), largest, 1)


def _score(x: Tensor, fold: Fold | None, groups: int) -> Tensor:
    if fold is None:
        return _energy(x, groups)
    score = _folded_scores(x, fold)
    if fold.may_vanish():
        informed = fold.tells_apart().reshape(1, groups, *[1] * (x.ndim - 2))
        score = torch.where(informed, score, _energy(x, groups))
    return score


def _folded_scores(x: Tensor, fold: Fold) -> Tensor:
    d, r = fold.factor.shape[1:]
    return by_images(lambda part: _map_and_reduce(part, fold), x, width=max(d, r) / d)


def by_images(function: Callable[..., Any], x: Tensor, *others: Tensor, width: float = 1.0) -> Any:
    """Apply a function of images to a few of them at a time: what it makes on its way stays in a cache.

    Where a gradient or a graph is made, which is for any number of images, it is applied to all at once.

    Parameters
    ----------
    function : callable
        Of x (N, C, *spatial) and the others; each image on its own decides its part of the result, a tensor or a tuple.
    others : Tensor of shape (N, ...)
        What else it takes.
    width : float
        How large its largest map is, as a multiple of x.

    Examples
    --------
    >>> by_images(lambda x: x + 1, torch.zeros(2, 3, 1)).shape
    torch.Size([2, 3, 1])
    """
    followed = x.requires_grad and torch.is_grad_enabled()
    if followed or not is_eager(x):
        return function(x, *others)
    images = max(1, int(_CHUNK / max(1, width * math.prod(x.shape[1:]))))
    if images >= len(x):
        return function(x, *others)
    parts = [function(*some) for some in zip(*(tensor.split(images) for tensor in (x, *others)), strict=True)]
    if isinstance(parts[0], tuple):
        return tuple(_joined(list(some)) for some in zip(*parts, strict=True))
    return _joined(parts)


def _joined(parts: list[Tensor]) -> Tensor:
    if parts[0].ndim > 2 and is_channels_last(parts[0]):
        return torch.cat([part.movedim(1, -1) for part in parts]).movedim(-1, 1)
    return torch.cat(parts)


def _map_and_reduce(x: Tensor, fold: Fold) -> Tensor:
    N, _, *spatial = x.shape
    g, d, r = fold.factor.shape
    L = math.prod(spatial)
    F = fold.factor.to(x.dtype)  # [g, d, r]
    offset = None if fold.offset is None else fold.offset.to(x.dtype)  # [g, 1, r]
    if is_channels_last(x):
        rows = x.movedim(1, -1)
        if g == 1:
            h = rows.reshape(N, L, 1, d) @ F[0]  # [N, L, 1, r]
        else:  # a convolution of one pixel, whose groups torch does best in this layout
            maps = rows.reshape(N, L, 1, g * d).movedim(-1, 1)
            h = nn.functional.conv2d(maps, F.mT.reshape(-1, d, 1, 1), groups=g).movedim(1, -1).reshape(N, L, g, r)
        h = h if offset is None else h + offset[:, 0]
        return fold.form.reduce(h, fold.log_prior, -1).transpose(1, 2).reshape(N, g, *spatial)
    h = F.mT @ x.reshape(N, g, d, L)  # [N, g, r, L]
    h = h if offset is None else h + offset.mT
    return fold.form.reduce(h, fold.log_prior, 2).reshape(N, g, *spatial)


def _energy(x: Tensor, groups: int) -> Tensor:
    pixels = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    if is_channels_last(x):  # reads the map once, and its squares are never held; in the other layout it is slow
        return torch.linalg.vector_norm(pixels, dim=2).square()
    return pixels.square().sum(2)
