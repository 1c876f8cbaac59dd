"""How labels reach the layers: a context, so that ``forward(x)`` keeps its signature."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from multipartite.errors import InputError

__all__ = ["current_labels", "supervise", "to_resolution"]

_LABELS: ContextVar[Tensor | None] = ContextVar("multipartite_labels", default=None)


@contextmanager
def supervise(labels: Any) -> Iterator[None]:
    """Hand labels to every multipartite layer that runs inside, in this thread.

    Contexts nest, the inner one wins; labels are gone when the context ends, whatever happened in it.

    Parameters
    ----------
    labels : Tensor of shape (N,), (N, c) or (N, *spatial), or None
        Class indices (-100 is ignored), one-hot or soft labels, or one index a pixel at the resolution of the
        network's input. None switches supervision off inside.

    Examples
    --------
    >>> with supervise(torch.tensor([3, 1])):
    ...     current_labels()
    tensor([3, 1])
    """
    token = _LABELS.set(None if labels is None else _as_tensor(labels))
    try:
        yield
    finally:
        _LABELS.reset(token)


def _as_tensor(labels: Any) -> Tensor:
    try:
        return torch.as_tensor(labels).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"labels must be a tensor, an array or a list of numbers: {error}") from error


def current_labels() -> Tensor | None:
    """Labels of the innermost :func:`supervise`, or None outside of any.

    Examples
    --------
    >>> current_labels() is None
    True
    """
    return _LABELS.get()


def to_resolution(labels: Tensor, spatial: torch.Size) -> Tensor:
    """Reduce labels a pixel to another resolution, by the nearest neighbour.

    Examples
    --------
    >>> to_resolution(torch.tensor([[0, 0, 1, 1, 2, 2]]), torch.Size([3]))
    tensor([[0, 1, 2]])
    """
    for dim, size in enumerate(spatial, start=1):
        length = labels.shape[dim]
        if length == 0 and size > 0:
            raise InputError(f"labels a pixel must cover the image, got shape {tuple(labels.shape)}")
        if length != size:
            nearest = (2 * torch.arange(size, device=labels.device) + 1) * length // (2 * size)
            labels = labels.index_select(dim, nearest)
    return labels
