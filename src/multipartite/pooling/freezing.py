"""Make a trained model small: only what scores a pixel stays."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from multipartite.errors import InputError
from multipartite.pooling.supervision import SupervisedLayer

__all__ = ["freeze"]

Model = TypeVar("Model", bound=nn.Module)


def freeze(model: Model) -> Model:
    """Drop the statistics of every multipartite layer and keep its factor, in place.

    A frozen layer pools as before, in training too, and learns no more. Its state is the factor, d * r numbers (and
    2 r more with criterion "information"). A state that was saved frozen loads into a layer that is not, which is
    then frozen as well.

    Examples
    --------
    >>> import torch
    >>> import multipartite as mp
    >>> pool = mp.MultipartitePool2d(2, num_classes=3, num_channels=4)
    >>> with mp.supervise(torch.tensor([0, 1, 2, 0])):
    ...     _ = pool(torch.rand(4, 4, 6, 6))
    >>> list(freeze(pool).state_dict())
    ['factor']
    """
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, SupervisedLayer)]
    if not layers:
        raise InputError("model has no multipartite layers to freeze: see multipartite.convert")
    for name, layer in layers:
        if layer.factor is None or (layer.statistics is not None and layer.steps == 0):
            raise InputError(
                f"layer {name or type(layer).__name__!r} has learned nothing that could be frozen: train it inside "
                "`with multipartite.supervise(labels):`, or settle it with `multipartite.fit(model, loader)`"
            )
    for _, layer in layers:
        layer.freeze()
    return model
