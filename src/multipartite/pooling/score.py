"""Score of every pixel: steps 1 to 4 of Alg. 3, without reshaping the whole stack."""

from __future__ import annotations

import torch
from torch import Tensor

from multipartite.errors import InputError
from multipartite.folding import Fold, reduce_scores
from multipartite.pooling.window import is_channels_last

__all__ = ["score_map"]


def score_map(x: Tensor, fold: Fold | None, *, groups: int = 1, ordinal: bool = False) -> Tensor:
    """Score of every pixel, group by group (steps 1 to 4 of Alg. 3).

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
    quadratic = fold is None or fold.kind != "information"
    if ordinal and quadratic and g == C:
        return x.abs()
    with torch.autocast(x.device.type, enabled=False):
        if torch.finfo(x.dtype).bits < 32:
            x = x.float()
        if fold is None:
            return _energy(x, g)
        score = _folded_scores(x, fold)
        if fold.may_vanish():
            informed = fold.tells_apart().reshape(1, g, *[1] * (x.ndim - 2))
            score = torch.where(informed, score, _energy(x, g))
        return score


def _folded_scores(x: Tensor, fold: Fold) -> Tensor:
    N, _, *spatial = x.shape
    g, d, _ = fold.factor.shape
    factor = fold.factor.to(x.dtype)
    if is_channels_last(x):
        rows = x.movedim(1, -1).reshape(-1, g, d).transpose(0, 1)  # [g, N L, d]
        h = rows @ factor  # [g, N L, r]
        if fold.offset is not None:
            h = h + fold.offset.to(h)
        return reduce_scores(h, fold.kind, fold.log_prior).reshape(g, N, *spatial).transpose(0, 1)
    h = factor.mT @ x.reshape(N, g, d, -1)  # [N, g, r, L]
    if fold.offset is not None:
        h = h + fold.offset.to(h).mT
    return reduce_scores(h, fold.kind, fold.log_prior, dim=2).reshape(N, g, *spatial)


def _energy(x: Tensor, groups: int) -> Tensor:
    return x.reshape(x.shape[0], groups, -1, *x.shape[2:]).square().sum(2)
