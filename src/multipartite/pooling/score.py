"""Score of every pixel: steps 1 to 4 of Alg. 3, without reshaping the whole stack."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from multipartite._precision import full_precision
from multipartite.errors import InputError
from multipartite.folding import Fold, reduce_scores
from multipartite.pooling.picking import is_channels_last

__all__ = ["score_map"]

_CHUNK = 1 << 19  # numbers of the map that are held at a time
_NARROW = 16  # a rank below this is filled up, to whole vectors


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
    with full_precision(x):
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
    """Map and reduce a few images at a time, so that the map stays in a cache and is never held whole."""
    if torch.compiler.is_compiling() or x.requires_grad:  # a graph is for any number of images
        return _map_and_reduce(x, fold)
    g, _, r = fold.factor.shape
    images = max(1, _CHUNK // max(1, g * r * math.prod(x.shape[2:])))
    if images >= x.shape[0]:
        return _map_and_reduce(x, fold)
    return torch.cat([_map_and_reduce(part, fold) for part in x.split(images)])


def _map_and_reduce(x: Tensor, fold: Fold) -> Tensor:
    N, _, *spatial = x.shape
    g, d, r = fold.factor.shape
    L = math.prod(spatial)
    F = fold.factor.to(x.dtype).mT  # [g, r, d]
    offset = None if fold.offset is None else fold.offset.to(x.dtype).mT  # [g, r, 1]
    if is_channels_last(x):  # a convolution of one pixel, which torch does best in this layout
        if r < _NARROW and fold.kind == "quadratic":  # zeros cost nothing, vectors that are not full do
            F = nn.functional.pad(F, (0, 0, 0, -r % _NARROW))
        maps = x if len(spatial) == 2 else x.movedim(1, -1).reshape(N, L, 1, g * d).movedim(-1, 1)
        h = nn.functional.conv2d(maps, F.reshape(-1, d, 1, 1), groups=g).movedim(1, -1).reshape(N, L, g, F.shape[1])
        h = h if offset is None else h + offset[:, :, 0]
        return reduce_scores(h, fold.kind, fold.log_prior).transpose(1, 2).reshape(N, g, *spatial)
    h = F @ x.reshape(N, g, d, L)  # [N, g, r, L]
    h = h if offset is None else h + offset
    return reduce_scores(h, fold.kind, fold.log_prior, dim=2).reshape(N, g, *spatial)


def _energy(x: Tensor, groups: int) -> Tensor:
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]).square().sum(2)
