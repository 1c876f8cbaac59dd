"""What is done to the multipartite layers of a whole model: fit them to data, or freeze what they have learned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from multipartite._validation import as_tensor
from multipartite.errors import InputError
from multipartite.labels import IGNORE, supervise
from multipartite.pooling.learning import SupervisedLayer

__all__ = ["call", "fit", "freeze", "in_evaluation", "labels_of"]

Model = TypeVar("Model", bound=nn.Module)

_NAMES = ("labels", "label", "y", "target", "targets")  # of labels in a dict


@torch.no_grad()
def fit(
    model: Model,
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    passes: int = 1,
    labels: Callable[[Any], Any] | None = None,
    inputs: Callable[[Any], Any] | None = None,
    ignore_index: int = IGNORE,
    progress: bool | None = None,
) -> Model:
    """Fit every multipartite layer of a trained or converted model in one streamed pass.

    It is what ``torch.optim.swa_utils.update_bn`` is to batch normalisation. The model runs in evaluation mode,
    its weights stay. Every batch teaches the layers front to back: a layer learns from the batch and is refitted
    before it hands its output on, so later layers always see earlier ones as they are after all data so far. With
    more `passes`, the first layer is left alone in the second pass and the others start afresh, and so on; as many
    passes as there are layers make every layer see only finished ones.

    Parameters
    ----------
    model : nn.Module
        Changed in place and returned.
    loader : iterable of (input, labels), or of dicts
        Batches, such as a ``DataLoader`` gives. A dict is handed to the model by its keys, without the labels.
    device : optional
        Where inputs and labels are moved; by default where the model's first parameter is.
    passes : int
        How often to read the loader.
    labels : callable, optional
        Takes the labels out of a batch, see :func:`labels_of`.
    inputs : callable, optional
        Takes what the model is called with out of a batch: a tensor, a tuple of arguments or a dict of them.
    ignore_index : int
        As in :func:`multipartite.supervise`.
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
    every = [m for m in model.modules() if isinstance(m, SupervisedLayer)]
    if not every:
        raise InputError("model has no multipartite layers to fit: see multipartite.convert")
    if passes < 1:
        raise InputError(f"passes must be at least 1, got {passes}")
    if passes > 1 and isinstance(loader, Iterator):
        raise InputError("an iterator can be read once only: give a loader, or passes=1")
    layers = [layer for layer in every if layer.learns]
    if any(layer.frozen for layer in layers):
        raise InputError("model has frozen layers, which cannot be fitted: load a state that is not frozen first")
    if device is None:
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
    met: list[SupervisedLayer] = []  # in the order in which the model runs them
    with in_evaluation(model), _undone_by_errors(layers):
        for done in range(min(passes, len(layers))):
            batches = 0
            with _fitting([layer for layer in layers if layer not in met[:done]], met):
                for batch in _shown(loader, progress, f"fit {done + 1}/{passes}"):
                    y = (labels or labels_of)(batch)
                    with supervise(as_tensor(y).to(device), ignore_index=ignore_index):
                        call(model, _inputs_of(batch) if inputs is None else inputs(batch), device)
                    batches += 1
            if not batches:
                raise InputError("the loader gave no batches: there is nothing to fit to")
    return model


def labels_of(batch: Any) -> Any:
    """Take the labels out of a batch: the second of (input, labels), or what a dict calls label or labels.

    Examples
    --------
    >>> labels_of(("images", "labels")), labels_of({"pixel_values": "images", "labels": "those"})
    ('labels', 'those')
    """
    if isinstance(batch, Mapping):
        for name in _NAMES:
            if name in batch:
                return batch[name]
    elif isinstance(batch, tuple | list) and len(batch) >= 2:
        return batch[1]
    held = f"dict with {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else type(batch).__name__
    raise InputError(
        f"batches must be (input, labels) or dicts with one of {', '.join(_NAMES)}, got {held}; give a function that "
        'takes the labels out of a batch, such as lambda batch: batch["target"]'
    )


def _inputs_of(batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return {name: value for name, value in batch.items() if name not in _NAMES}
    return batch[0]


def call(model: nn.Module, inputs: Any, device: torch.device | str | None = None) -> Any:
    """Call a model with a tensor, a tuple of arguments or a dict of them, moved to `device`.

    Examples
    --------
    >>> call(nn.Identity(), (torch.ones(1),))
    tensor([1.])
    """

    def moved(value: Any) -> Any:
        return value.to(device) if isinstance(value, torch.Tensor) and device is not None else value

    if isinstance(inputs, Mapping):
        return model(**{name: moved(value) for name, value in inputs.items()})
    if isinstance(inputs, tuple | list):
        return model(*map(moved, inputs))
    return model(moved(inputs))


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
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
def _fitting(layers: list[SupervisedLayer], met: list[SupervisedLayer]) -> Iterator[None]:
    """Let `layers` learn in evaluation mode, each afresh when it first runs; `met` gets those new to it."""
    momenta = [layer.momentum for layer in layers]
    fresh = set(layers)

    def start(layer: nn.Module, _: Any) -> None:
        if isinstance(layer, SupervisedLayer) and layer in fresh:
            fresh.remove(layer)
            layer.reset()
            layer.momentum, layer.fitting = 0.0, True
            if layer not in met:
                met.append(layer)

    hooks = [layer.register_forward_pre_hook(start) for layer in layers]
    try:
        yield
    finally:
        for layer, momentum, hook in zip(layers, momenta, hooks, strict=True):
            layer.momentum, layer.fitting = momentum, False
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


def freeze(model: Model) -> Model:
    """Drop the statistics of every multipartite layer and keep its factor, in place.

    A frozen layer pools as before, in training too, with labels or without, and learns no more. Its state is the
    factor, d * r numbers (and 2 r more with criterion "information"). A state that was saved frozen loads into a layer
    that is not, which is then frozen as well; a state that was not thaws a frozen layer.

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
    layers = [(name, layer) for name, layer in layers if layer.learns]
    for name, layer in layers:
        if layer.factor is None or (layer.statistics is not None and layer.steps == 0):
            raise InputError(
                f"layer {name or type(layer).__name__!r} has learned nothing that could be frozen: train it inside "
                "`with multipartite.supervise(labels):`, or fit it with `multipartite.fit(model, loader)`"
            )
    for _, layer in layers:
        layer.freeze()
    return model
