"""Gated pooling, after Lee et al. (2016): how much of max and of average pooling, the window itself decides."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from multipartite.errors import InputError, unknown
from multipartite.pooling.mixed import max_average
from multipartite.pooling.weights import WeightedPool
from multipartite.pooling.window import Size, Window, widened
from multipartite.statistics import full_precision

__all__ = ["GatedPool1d", "GatedPool2d", "GatedPool3d", "gated_pool"]

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_PER = ("layer", "channel")


def gated_pool(
    x: Tensor,
    mask: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    r"""Mix max and average pooling by a gate (Lee et al., Generalizing Pooling Functions in CNNs, 2016).

    .. math:: s = g \max_k a_k + (1 - g) \operatorname{mean}_k a_k, \qquad g = \sigma\Big(\sum_k \omega_k a_k\Big)

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    mask : Tensor of shape (1, *kernel_size) or (C, *kernel_size)
        The weights, one mask for all channels or one for each; of zeros, it is half of each.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; padding is not counted, and is zero to the gate.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> import torch
    >>> gated_pool(torch.tensor([[[1.0, 3.0]]]), torch.zeros(1, 2), 2)
    tensor([[[2.5000]]])
    """
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode), mask)


def _pool(x: Tensor, window: Window, mask: Tensor) -> Tensor:
    x, batched = window.as_batch(x)
    C = x.shape[1]
    if tuple(mask.shape[1:]) != window.kernel_size or mask.shape[0] not in (1, C):
        raise InputError(
            f"mask must have the shape (1, *kernel_size) or ({C}, *kernel_size) with kernel_size={window.kernel_size}, "
            f"got {tuple(mask.shape)}"
        )
    a = widened(x)
    with full_precision(x):
        weight = mask.to(a.dtype)[:, None].expand(C, 1, *window.kernel_size)
        padded = window.padded(a, 0.0, window.out_size(a.shape[2:]))
        gate = _CONV[window.dims](padded, weight, None, window.stride, 0, window.dilation, C).sigmoid()
        pooled = max_average(a, window, gate).to(x.dtype)
    return pooled if batched else pooled[0]


class _GatedPool(WeightedPool):
    start: ClassVar[dict[str, float]] = {"mask": 0.0}
    mask: Tensor
    shown = ("per",)

    def __init__(self, *sizes: Any, per: str = "layer", num_channels: int | None = None, **window: Any) -> None:
        if per not in _PER:
            raise unknown("per", per, _PER)
        super().__init__(*sizes, **window)
        self.per = per
        if per == "layer" or num_channels is not None:
            self.allocate(1 if num_channels is None else num_channels)

    def shape(self, name: str, channels: int) -> tuple[int, ...]:
        """Shape of the masks."""
        return (1 if self.per == "layer" else channels, *self.window.kernel_size)

    def pool(self, x: Tensor) -> Tensor:
        """Pool x."""
        self.meet(x)
        return _pool(x, self.window, self.mask)


class GatedPool1d(_GatedPool, dims=1):
    """Module form of :func:`gated_pool` for (N, C, L), with masks that are learned, one a layer or one a channel.

    Examples
    --------
    >>> pool = GatedPool1d(2, per="channel", num_channels=3)
    >>> pool.mask.shape
    torch.Size([3, 2])
    """


class GatedPool2d(_GatedPool, dims=2):
    """Module form of :func:`gated_pool` for (N, C, H, W), with masks that are learned, one a layer or one a channel."""


class GatedPool3d(_GatedPool, dims=3):
    """Module form of :func:`gated_pool` for (N, C, D, H, W), with learned masks, one a layer or one a channel."""
