"""Mixed pooling, after Lee et al. (2016): a learned share of max, the rest of average pooling."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from multipartite.pooling.sums import window_mean
from multipartite.pooling.window import Pool, Size, Window, widened

__all__ = ["MixedPool1d", "MixedPool2d", "MixedPool3d", "max_average", "mixed_pool"]


def mixed_pool(
    x: Tensor,
    share: Tensor | float,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    r"""Mix max and average pooling (Lee et al., Generalizing Pooling Functions in CNNs, 2016).

    .. math:: s = \alpha \max_k a_k + (1 - \alpha) \operatorname{mean}_k a_k

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    share : float or Tensor of one number
        How much of the maximum; 1 is max pooling, 0 average pooling.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; padding is not counted.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> mixed_pool(torch.tensor([[[1.0, 3.0]]]), 0.5, 2)
    tensor([[[2.5000]]])
    """
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode), share)


def _pool(x: Tensor, window: Window, share: Tensor | float) -> Tensor:
    x, batched = window.as_batch(x)
    a = widened(x)
    pooled = max_average(a, window, torch.as_tensor(share, dtype=a.dtype, device=a.device)).to(x.dtype)
    return pooled if batched else pooled[0]


def max_average(a: Tensor, window: Window, share: Tensor) -> Tensor:
    """Blend the maximum of every window with its mean, by shares that are one number or one a window.

    Examples
    --------
    >>> max_average(torch.tensor([[[1.0, 3.0]]]), Window.of(2, dims=1), torch.tensor([0.0]))
    tensor([[[2.]]])
    """
    mean, highest = window_mean(a, window), window.highest(a)
    return torch.lerp(mean, highest, share)


class _MixedPool(Pool):
    """The share is learned: the logistic function of ``logit``, one number a layer, which starts at 0, a half."""

    def __init__(
        self, *sizes: Any, device: torch.device | str | None = None, dtype: torch.dtype | None = None, **window: Any
    ) -> None:
        super().__init__(*sizes, **window)
        self.logit = nn.Parameter(torch.zeros((), device=device, dtype=dtype))

    @property
    def share(self) -> Tensor:
        """How much of the maximum is in the output, between 0 and 1."""
        return widened(self.logit).sigmoid()

    def pool(self, x: Tensor) -> Tensor:
        """Pool x."""
        return _pool(x, self.window, self.share)


class MixedPool1d(_MixedPool, dims=1):
    """Module form of :func:`mixed_pool` for (N, C, L), with a share that is learned."""


class MixedPool2d(_MixedPool, dims=2):
    """Module form of :func:`mixed_pool` for (N, C, H, W), with a share that is learned."""


class MixedPool3d(_MixedPool, dims=3):
    """Module form of :func:`mixed_pool` for (N, C, D, H, W), with a share that is learned."""
