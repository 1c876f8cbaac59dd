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
    met: list[SupervisedLayer] = []  # in the order in which the model runs them
    with _in_evaluation(model), _undone_by_errors(layers):
        for done in range(min(passes, len(layers))):
            batches = 0
            with _settling([layer for layer in layers if layer not in met[:done]], met):
                for batch in _shown(loader, progress, f"fit {done + 1}/{passes}"):
                    inputs, labels = _pair(batch)
                    with supervise(torch.as_tensor(labels).to(device)):
                        model(inputs.to(device))
                    batches += 1
            if not batches:
                raise InputError("the loader gave no batches: there is nothing to fit to")
    return model


def _pair(batch: Any) -> tuple[Any, Any]:
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise InputError(f"batches must be (input, labels), got {type(batch).__name__}")
    return batch[0], batch[1]


@contextmanager
def _in_evaluation(model: nn.Module) -> Iterator[None]:
    """In evaluation mode; afterwards every module is in its own mode again."""
    modes = [(m, m.training) for m in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def _undone_by_errors(layers: list[SupervisedLayer]) -> Iterator[None]:
    """Put everything back that the layers had learned, if what runs inside fails."""
    put_back = [layer.remember() for layer in layers]
    try:
        yield
    except BaseException:
        for undo in put_back:
            undo()
        raise


@contextmanager
def _settling(layers: list[SupervisedLayer], met: list[SupervisedLayer]) -> Iterator[None]:
    """Let `layers` learn in evaluation mode, each afresh when it first runs; `met` gets those new to it."""
    momenta = [layer.momentum for layer in layers]
    fresh = set(layers)

    def start(layer: nn.Module, _: Any) -> None:
        if isinstance(layer, SupervisedLayer) and layer in fresh:
            fresh.remove(layer)
            layer.reset()
            layer.momentum, layer.settling = 0.0, True
            if layer not in met:
                met.append(layer)

    hooks = [layer.register_forward_pre_hook(start) for layer in layers]
    try:
        yield
    finally:
        for layer, momentum, hook in zip(layers, momenta, hooks, strict=True):
            layer.momentum, layer.settling = momentum, False
            hook.remove()


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
