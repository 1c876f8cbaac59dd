"""Stochastic pooling, after Zeiler and Fergus (2013): the paper's strongest baseline."""

from __future__ import annotations

import torch
from torch import Tensor

from multipartite.pooling import native
from multipartite.pooling.choose import draw, expectation, take
from multipartite.pooling.window import Pool, Size, Window, widened

__all__ = ["StochasticPool1d", "StochasticPool2d", "StochasticPool3d", "stochastic_pool"]


def stochastic_pool(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Pool by sampling, channel by channel.

    .. math:: p_k = a_k / \sum_j a_j, \qquad
              s = a_l,\ l \sim p \ \text{(training)}, \qquad s = \sum_k p_k a_k \ \text{(evaluation)}

    It is a corner of multipartite pooling: one group a channel, whose score is the activation itself.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations; negative ones have probability zero, a window without positive ones gives 0.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; padding is never drawn.
    training : bool
        Draw (True) or take the expectation.
    generator : torch.Generator, optional
        What to draw from; torch's own by default.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> stochastic_pool(torch.tensor([[[1.0, 3.0, 0.0, 0.0]]]), 2)
    tensor([[[2.5000, 0.0000]]])
    """
    window = Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode)
    return _pool(x, window, training, generator)


def _pool(x: Tensor, window: Window, training: bool, generator: torch.Generator | None) -> Tensor:
    x, batched = window.as_batch(x)
    if native.handles(x, window):
        out = window.out_size(x.shape[2:])
        found = native.pool_channels(x, window, out, training=training, generator=generator)
        if found is not None:
            return found if batched else found[0]
    a = x.clamp_min(0)
    chances = widened(a.detach())
    drawn = draw(chances, window, generator=generator) if training else None
    pooled = expectation(a, chances, window) if drawn is None else take(a, drawn, window)
    return pooled if batched else pooled[0]


class _StochasticPool(Pool):
    def pool(self, x: Tensor) -> Tensor:
        """Pool x: draw in training, take the expectation in evaluation."""
        return _pool(x, self.window, self.training, self.generator)


class StochasticPool1d(_StochasticPool, dims=1):
    """Module form of :func:`stochastic_pool` for (N, C, L)."""


class StochasticPool2d(_StochasticPool, dims=2):
    """Module form of :func:`stochastic_pool` for (N, C, H, W)."""


class StochasticPool3d(_StochasticPool, dims=3):
    """Module form of :func:`stochastic_pool` for (N, C, D, H, W)."""
