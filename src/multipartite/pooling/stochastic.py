"""Stochastic pooling, after Zeiler and Fergus (2013): the paper's strongest baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multipartite.pooling.assignment import expected
from multipartite.pooling.picking import pick
from multipartite.pooling.window import Size, Window

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
    dims = len(kernel_size) if isinstance(kernel_size, tuple | list) else x.ndim - 2
    window = Window.of(kernel_size, stride, padding, dilation, ceil_mode, dims=dims)
    return _pool(x, window, training, generator)


def _pool(x: Tensor, window: Window, training: bool, generator: torch.Generator | None) -> Tensor:
    batched = window.is_batched(x)
    a = (x if batched else x[None]).clamp_min(0)
    chances = a.detach().float() if torch.finfo(x.dtype).bits < 32 else a.detach()
    if training:
        # the highest of a_k / E_k with exponential E_k is a draw with probability a_k / sum a
        raced = chances / torch.empty_like(chances).exponential_(generator=generator)
        out = pick(a, window.best(raced), distinct=not window.overlaps)
    else:
        out = expected(a, chances, window, _shares)
    return out if batched else out[0]


def _shares(chances: Tensor) -> Tensor:
    chances = chances.clamp_min(0)  # padding, -inf, is never drawn
    return chances / chances.sum(0, keepdim=True).clamp_min(torch.finfo(chances.dtype).tiny)


class _StochasticPool(nn.Module):
    dims: int

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.window = Window.of(kernel_size, stride, padding, dilation, ceil_mode, dims=self.dims)
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Pool x: draw in training, take the expectation in evaluation."""
        return _pool(x, self.window, self.training, self.generator)

    def extra_repr(self) -> str:
        """Show the window."""
        w = self.window
        return (
            f"kernel_size={w.kernel_size}, stride={w.stride}, padding={w.padding}, dilation={w.dilation}, "
            f"ceil_mode={w.ceil_mode}"
        )


class StochasticPool1d(_StochasticPool):
    """Module form of :func:`stochastic_pool` for (N, C, L)."""

    dims = 1


class StochasticPool2d(_StochasticPool):
    """Module form of :func:`stochastic_pool` for (N, C, H, W)."""

    dims = 2


class StochasticPool3d(_StochasticPool):
    """Module form of :func:`stochastic_pool` for (N, C, D, H, W)."""

    dims = 3
