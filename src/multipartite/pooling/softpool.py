"""SoftPool, after Stergiou et al. (2021): the mean of a window, weighted by the exponentials of its numbers."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from multipartite.instance_ranking import is_eager
from multipartite.pooling.choose import weighted_mean
from multipartite.pooling.sums import window_spread, window_sum
from multipartite.pooling.window import Pool, Size, Window, widened

__all__ = ["SoftPool1d", "SoftPool2d", "SoftPool3d", "soft_pool"]

_SAFE = 1e30  # sums of exponentials up to this, and down to its inverse, have all their digits


def soft_pool(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    r"""Pool by exponential weights (Stergiou et al., Refining Activation Downsampling with SoftPool, 2021).

    .. math:: s = \sum_k w_k a_k, \qquad w_k = e^{a_k} / \sum_j e^{a_j}

    channel by channel, as in the paper. Numbers of any size keep weights and gradients finite.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; padding has no weight.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> soft_pool(torch.tensor([[[0.0, math.log(3.0), 500.0, 500.0]]]), 2)
    tensor([[[  0.8240, 500.0000]]])
    """
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode))


def _pool(x: Tensor, window: Window) -> Tensor:
    x, batched = window.as_batch(x)
    a = widened(x)
    pooled = _by_sums(a, window)
    pooled = (_by_places(a, window) if pooled is None else pooled).to(x.dtype)
    return pooled if batched else pooled[0]


def _by_sums(a: Tensor, window: Window) -> Tensor | None:
    """Take the exponentials as they are, each once; None where they are out of range, or nobody can look at them."""
    if a.device.type != "cpu" or not a.numel() or not is_eager(a):
        return None
    followed = torch.is_grad_enabled() and a.requires_grad
    with nullcontext() if forward_ad._current_level >= 0 else torch.no_grad():
        e = a.exp()
        total = window_sum(e, window)
        seen = total.detach()
        if not 1 / _SAFE < seen.amin().item() <= seen.amax().item() < _SAFE:
            return None
        if not followed:  # what is no longer needed is written over
            return window_sum(e.mul_(a), window) / total
    if forward_ad._current_level >= 0:
        return window_sum(a * e, window) / total
    mean: Tensor = _SoftMean.apply(a, e, total, window)  # type: ignore[no-untyped-call]
    return mean


class _SoftMean(torch.autograd.Function):
    """The mean whose weights are e = exp(a) / total, and its gradient in fewer passes than operation by operation."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, e: Tensor, total: Tensor, window: Window) -> Tensor:
        mean = window_sum(a * e, window).div_(total)
        ctx.save_for_backward(a, e, total, mean)
        ctx.window = window
        return mean

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        a, e, total, mean = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody asks for the gradient of the gradient
            (slope,) = torch.autograd.grad(_by_places(a, ctx.window), a, grad, create_graph=True)
            return slope, None, None, None
        share = grad / total
        spread = window_spread(share, ctx.window, a)  # e (1 + a) of it, less e of it times the mean
        spread = spread.addcmul_(spread, a).sub_(window_spread(share.mul_(mean), ctx.window, a)).mul_(e)
        return spread, None, None, None


def _by_places(a: Tensor, window: Window) -> Tensor:
    """Take the exponentials window by window, as shares of the largest."""
    views = list(window.views(a, -math.inf))
    largest = reduce(torch.maximum, views).detach()
    return weighted_mean(a, [(view - largest).exp() for view in views], window)


class _SoftPool(Pool):
    def pool(self, x: Tensor) -> Tensor:
        """Pool x."""
        return _pool(x, self.window)


class SoftPool1d(_SoftPool, dims=1):
    """Module form of :func:`soft_pool` for (N, C, L).

    Examples
    --------
    >>> SoftPool1d(2)(torch.tensor([[[0.0, 0.0, 4.0, 4.0]]]))
    tensor([[[0., 4.]]])
    """


class SoftPool2d(_SoftPool, dims=2):
    """Module form of :func:`soft_pool` for (N, C, H, W)."""


class SoftPool3d(_SoftPool, dims=3):
    """Module form of :func:`soft_pool` for (N, C, D, H, W)."""
