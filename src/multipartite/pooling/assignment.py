"""What becomes of a window once its pixels are scored: one pick, a draw, or a weighted mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from multipartite.pooling.picking import pick
from multipartite.pooling.window import Window

__all__ = ["ASSIGNMENTS", "Assignment", "assign", "expected", "perturbed"]

_NEVER = -1e5  # logit of a pixel without any score: below every other, yet fair among its like


class Assignment(NamedTuple):
    """How a window is pooled in training and in evaluation.

    Attributes
    ----------
    ranking : callable (score, temperature, generator) -> Tensor, optional
        In training, what to take the highest of in every window; None where windows are averaged instead.
    weights : callable (window scores, temperature) -> Tensor, optional
        In evaluation, weights over the places of a window (dimension 0); None where the highest score is picked.
    differentiable : bool
        Whether gradients pass through the scores too, not only to the activations.
    """

    ranking: Callable[[Tensor, float, torch.Generator | None], Tensor] | None
    weights: Callable[[Tensor, float], Tensor] | None
    differentiable: bool = False


def perturbed(score: Tensor, temperature: float, generator: torch.Generator | None = None) -> Tensor:
    """Noisy log scores, whose highest is a draw with probability proportional to score^(1/temperature).

    This is the Gumbel trick: adding Gumbel noise to logits and taking the highest samples their softmax.

    Examples
    --------
    >>> perturbed(torch.tensor([0.0, 1.0]), 1.0, torch.Generator().manual_seed(0)).argmax()
    tensor(1)
    """
    noise = torch.empty_like(score).exponential_(generator=generator).log()
    if math.isinf(temperature):
        return -noise
    logits = torch.where(score > 0, score.log() / temperature, _NEVER)
    return logits - noise


def _uniform(scores: Tensor) -> Tensor:
    """Equal weights within the window; padding is -inf."""
    inside = (scores > -math.inf).to(scores)
    return inside / inside.sum(0, keepdim=True)


def _proportional(scores: Tensor, temperature: float) -> Tensor:
    """score^(1/temperature), to sum 1 over the window; padding is -inf; equal where nothing scores."""
    if math.isinf(temperature):
        return _uniform(scores)
    highest = scores.amax(0, keepdim=True)
    scaled = torch.where(highest > 0, scores / highest.clamp_min(torch.finfo(scores.dtype).tiny), 1)
    weights = torch.where(scores > -math.inf, scaled.clamp_min(0) ** (1 / temperature), 0)
    return weights / weights.sum(0, keepdim=True)


def _softmax(scores: Tensor, temperature: float) -> Tensor:
    """Softmax of score / (temperature * mean score of the window); padding is -inf."""
    if math.isinf(temperature):  # also keeps 0 * inf out of the gradient
        return _uniform(scores)
    inside = scores > -math.inf
    finite = torch.where(inside, scores, 0)
    mean = finite.sum(0, keepdim=True) / inside.sum(0, keepdim=True)
    logits = finite / (temperature * mean.clamp_min(torch.finfo(scores.dtype).tiny))
    return torch.where(inside, logits, -math.inf).softmax(0)


def expected(x: Tensor, score: Tensor, window: Window, weights: Callable[[Tensor], Tensor]) -> Tensor:
    """Mean of every window, weighted by a function of its scores; padding does not count.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Activations.
    score : Tensor of shape (N, groups, *spatial)
        Scores.
    weights : callable
        Takes the scores of all windows, (places, N, groups, *out), -inf in the padding; gives weights.
    """
    N, C = x.shape[:2]
    g = score.shape[1]
    w = weights(torch.stack(list(window.views(score, -math.inf))))
    total = None
    for share, view in zip(w, window.views(x, 0.0), strict=True):
        part = view.reshape(N, g, C // g, *view.shape[2:]) * share[:, :, None]
        total = part if total is None else total + part
    assert total is not None
    return total.flatten(1, 2).to(x.dtype)


def assign(
    x: Tensor,
    score: Tensor,
    window: Window,
    assignment: str,
    temperature: float,
    *,
    training: bool,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Pool x by its scores: the output, and the indices of the picked pixels where there are any."""
    ranking, weights, _ = ASSIGNMENTS[assignment]
    if weights is None or (training and ranking is not None):
        if training and ranking is not None:
            score = ranking(score, temperature, generator)
        indices = window.best(score)
        return pick(x, indices, distinct=not window.overlaps), indices
    return expected(x, score, window, lambda scores: weights(scores, temperature)), None


ASSIGNMENTS: dict[str, Assignment] = {
    "hard": Assignment(None, None),
    "soft": Assignment(None, _softmax, differentiable=True),
    "stochastic": Assignment(perturbed, _proportional),
}
