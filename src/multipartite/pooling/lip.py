"""Local importance pooling, after Gao et al. (2019): a small network says what every pixel weighs in its windows."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.errors import InputError
from multipartite.instance_ranking import as_channels_last, is_channels_last
from multipartite.pooling.sums import window_sum
from multipartite.pooling.weights import WeightedPool
from multipartite.pooling.window import Size, Window, widened
from multipartite.statistics import full_precision

__all__ = ["LIPPool1d", "LIPPool2d", "LIPPool3d", "lip_pool"]

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_STEEPEST = 12.0  # the largest logit, as in the authors' code: what keeps the exponentials in range
_EPS = 1e-5  # of the instance normalisation, torch's own


def lip_pool(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    shift: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    r"""Pool by learned importance (Gao et al., LIP: Local Importance-Based Pooling, 2019).

    .. math:: s = \sum_k e^{z_k} a_k / \sum_k e^{z_k}, \qquad z = 12\, \sigma(\operatorname{norm}(W a))

    The logits z come from the authors' projection form of the logit network: a 1 x 1 convolution without bias,
    instance normalisation with a learned scale and shift, and a logistic function that is twelve at most.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations.
    weight : Tensor of shape (C, C)
        Of the convolution; zeros make it average pooling.
    scale, shift : Tensor of shape (C,)
        Of the normalisation.
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``F.max_pool2d``; padding has no weight.

    Returns
    -------
    Tensor of shape (N, C, *out)

    Examples
    --------
    >>> x = torch.tensor([[[0.0, 0.0, 1.0, 3.0]]])
    >>> lip_pool(x, torch.zeros(1, 1), torch.ones(1), torch.zeros(1), 2)
    tensor([[[0., 2.]]])
    """
    return _pool(x, Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode), weight, scale, shift)


def _pool(x: Tensor, window: Window, weight: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    x, batched = window.as_batch(x)
    C = x.shape[1]
    for name, given, shape in (("weight", weight, (C, C)), ("scale", scale, (C,)), ("shift", shift, (C,))):
        if tuple(given.shape) != shape:
            raise InputError(f"{name} must have the shape {shape} for {C} channels, got {tuple(given.shape)}")
    a = widened(x)
    with full_precision(x):
        e = _logits(a, *(given.to(a.dtype) for given in (weight, scale, shift))).exp()
        pooled = (window_sum(a * e, window) / window_sum(e, window)).to(x.dtype)
    return pooled if batched else pooled[0]


def _logits(a: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    dims = a.ndim - 2
    z = _CONV[dims](a, weight.reshape(*weight.shape, *[1] * dims))
    normed = _normed(z, scale, shift)
    return _STEEPEST * (as_channels_last(normed) if is_channels_last(a) else normed).sigmoid()


def _normed(z: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Instance normalisation, map by map; torch's own refuses maps of one pixel."""
    if is_channels_last(z) and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
        rows = z.movedim(1, -1).flatten(1, -2)  # [N, L, C]: torch's norms are slow where channels lie side by side
        centred = rows - rows.mean(1, keepdim=True)
        spread = scale * (centred.square().mean(1, keepdim=True) + _EPS).rsqrt()
        return torch.addcmul(shift, centred, spread).reshape(z.movedim(1, -1).shape).movedim(-1, 1)
    # by groups of one channel, the maps of an image one after the other: faster, with its backward, copies included
    return torch.group_norm(z.contiguous(), z.shape[1], scale, shift, _EPS)


class _LIPPool(WeightedPool):
    # as in the authors' code, it starts as average pooling
    start: ClassVar[dict[str, float]] = {"weight": 0.0, "scale": 1.0, "shift": 0.0}
    weight: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(self, *sizes: Any, num_channels: int | None = None, **window: Any) -> None:
        super().__init__(*sizes, **window)
        if num_channels is not None:
            self.allocate(num_channels)

    def shape(self, name: str, channels: int) -> tuple[int, ...]:
        """Shape of a weight."""
        return (channels, channels) if name == "weight" else (channels,)

    def pool(self, x: Tensor) -> Tensor:
        """Pool x."""
        self.meet(x)
        return _pool(x, self.window, self.weight, self.scale, self.shift)


class LIPPool1d(_LIPPool, dims=1):
    """Module form of :func:`lip_pool` for (N, C, L), with weights that are learned and start as average pooling."""


class LIPPool2d(_LIPPool, dims=2):
    """Module form of :func:`lip_pool` for (N, C, H, W), with weights that are learned and start as average pooling."""


class LIPPool3d(_LIPPool, dims=3):
    """Module form of :func:`lip_pool` for (N, C, D, H, W), with weights that are learned, from average pooling on."""
