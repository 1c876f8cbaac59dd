"""Settle the multipartite layers of a model from data, without training it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from multipartite.errors import InputError
from multipartite.pooling.labels import supervise
from multipartite.pooling.supervision import SupervisedLayer

__all__ = ["fit"]

Model = TypeVar("Model", bound=nn.Module)


@torch.no_grad()
def fit(
    model: Model,
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    passes: int = 1,
    progress: bool | None = None,
) -> Model:
    """Settle every multipartite layer of a trained or converted model in one streamed pass.

    It is what ``torch.optim.swa_utils.update_bn`` is to batch normalisation. The model runs in evaluation mode,
    its weights stay. Every batch settles the layers front to back: a layer learns from the batch and is refitted
    before it hands its output on, so later layers always see earlier ones as they are after all data so far. With
    more `passes`, the first layer is left alone in the second pass and the others start afresh, and so on; as many
    passes as there are layers make every layer see only finished ones.

    Parameters
    ----------
    model : nn.Module
        Changed in place and returned.
    loader : iterable of (input, labels)
        Batches, such as a ``DataLoader`` gives.
    device : optional
        Where inputs and labels are moved; by default where the model's first parameter is.
    passes : int
        How often to read the loader.
    progress : bool, optional
        Whether to show progress; by default in a terminal.

    Examples
    --------
    >>> import multipartite as mp
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), mp.MultipartitePool2d(2, num_classes=2))
    >>> batches = [(torch.rand(6, 1, 8, 8), torch.tensor([0, 1, 0, 1, 0, 1]))]
    >>> int(mp.fit(model, batches)[1].updates)
    1
    """
    layers = [m for m in model.modules() if isinstance(m, SupervisedLayer)]
    if not layers:
        raise InputError("model has no multipartite layers to fit: see multipartite.convert")
    if passes < 1:
        raise InputError(f"passes must be at least 1, got {passes}")
    if passes > 1 and isinstance(loader, Iterator):
        raise InputError("an iterator can be read once only: give a loader, or passes=1")
    if device is None:
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
    for done in range(passes):
        batches = 0
        with _settling(model, layers, layers[done:]):
            for inputs, labels in _shown(loader, progress, f"fit {done + 1}/{passes}"):
                with supervise(torch.as_tensor(labels).to(device)):
                    model(inputs.to(device))
                batches += 1
        if not batches:
            raise InputError("the loader gave no batches: there is nothing to fit to")
    return model


@contextmanager
def _settling(model: nn.Module, layers: list[SupervisedLayer], open_layers: list[SupervisedLayer]) -> Iterator[None]:
    """In evaluation mode, with `open_layers` started afresh and remembering everything."""
    modes = [(m, m.training) for m in model.modules()]
    momenta = [(layer, layer.momentum) for layer in layers]
    try:
        model.eval()
        for layer in open_layers:
            layer.reset()
            layer.momentum, layer.settling = 0.0, True
        yield
    finally:
        for layer, momentum in momenta:
            layer.momentum, layer.settling = momentum, False
        for module, mode in modes:
            module.training = mode


def _shown(loader: Iterable[Any], progress: bool | None, what: str) -> Iterable[Any]:
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        return loader
    try:
        from rich.progress import track
    except ModuleNotFoundError:
        return loader
    return track(loader, description=what)
