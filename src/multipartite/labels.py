"""Labels: how they reach the layers, and the one place where they are read and checked.

Labels come as an index a row, as weights a class (one-hot, soft, mixed up), or as an index a pixel. Whoever needs
them asks :meth:`Labels.of`, which decides once which of these they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from multipartite._validation import as_tensor
from multipartite.errors import InputError

__all__ = ["IGNORE", "Labels", "current_labels", "plain_labels", "read_labels", "supervise", "to_resolution"]

IGNORE = -100  # as in torch's losses: a row with this index counts nowhere
_FEW = 1024  # labels up to which Python sooner tells their range than torch, whose operation is not at hand in a cache


class _Given(NamedTuple):
    """Labels of a context, the index that is ignored, and how they were read, once for all layers that are alike."""

    labels: Tensor
    ignore_index: int
    read: dict[Any, Any]


_GIVEN: ContextVar[_Given | None] = ContextVar("multipartite_labels", default=None)


@contextmanager
def supervise(labels: Any, *, ignore_index: int = IGNORE) -> Iterator[None]:
    """Hand labels to every multipartite layer that runs inside, in this thread.

    Contexts nest, the inner one wins; labels are gone when the context ends, whatever happened in it.

    Parameters
    ----------
    labels : Tensor of shape (N,), (N, c) or (N, *spatial), or None
        Class indices, one-hot or soft labels, or one index a pixel at the resolution of the network's input. None
        switches supervision off inside.
    ignore_index : int
        Images or pixels with this index count nowhere; 255 is usual in segmentation.

    Examples
    --------
    >>> with supervise(torch.tensor([3, 1])):
    ...     current_labels()
    (tensor([3, 1]), -100)
    """
    token = _GIVEN.set(None if labels is None else _Given(_as_tensor(labels), ignore_index, {}))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def current_labels() -> tuple[Tensor, int] | None:
    """Labels of the innermost :func:`supervise` with the index that is ignored, or None outside of any.

    Examples
    --------
    >>> current_labels() is None
    True
    """
    given = _GIVEN.get()
    return None if given is None else given[:2]


def read_labels(
    num_classes: int, spatial: torch.Size | tuple[int, ...] = (), device: torch.device | None = None
) -> Labels | None:
    """Read the labels of the innermost :func:`supervise`, for maps of the size `spatial`; None outside of any.

    Examples
    --------
    >>> with supervise([3, 1]):
    ...     read_labels(4).index
    tensor([3, 1])
    """
    given = _GIVEN.get()
    if given is None:
        return None
    key = (num_classes, device, tuple(spatial) if given.labels.ndim > 1 else len(spatial))
    if key not in given.read:
        labels = given.labels if device in (None, given.labels.device) else given.labels.to(device)
        given.read[key] = Labels.of(labels, num_classes, spatial, ignore_index=given.ignore_index)
    labels_read: Labels = given.read[key]
    return labels_read


def plain_labels(num_classes: int) -> int | None:
    """How many labels the innermost :func:`supervise` has, where they are just legal class indices on a CPU; or None.

    Examples
    --------
    >>> with supervise([3, 1]):
    ...     plain_labels(4), plain_labels(3)
    (2, None)
    """
    given = _GIVEN.get()
    if given is None:
        return None
    if num_classes not in given.read:
        y = given.labels
        plain = y.dtype == torch.int64 and y.ndim == 1 and _all_count(y, num_classes, given.ignore_index)
        given.read[num_classes] = len(y) if plain else None
    found: int | None = given.read[num_classes]
    return found


def _as_tensor(labels: Any) -> Tensor:
    try:
        tensor = labels if isinstance(labels, Tensor) else as_tensor(labels)
        return tensor.detach() if tensor.requires_grad else tensor
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"labels must be a tensor, an array or a list of numbers: {error}") from error


@dataclass(frozen=True)
class Labels:
    """Which rows count for which class: an index a row, or a weight a class.

    Attributes
    ----------
    index : Tensor of shape (N,) or (N, L)
        Classes in [0, c), of images or of their pixels; not used where `soft` is there.
    soft : Tensor of shape (N, c), optional
        Weights a class.
    weight : Tensor of the shape of `index`, optional
        What every row counts; None where each counts once.
    num_classes : int
        The number of classes c.
    """

    index: Tensor
    soft: Tensor | None
    weight: Tensor | None
    num_classes: int

    @classmethod
    def of(
        cls,
        y: Any,
        num_classes: int,
        spatial: torch.Size | tuple[int, ...] = (),
        *,
        ignore_index: int = IGNORE,
        weight: Tensor | None = None,
    ) -> Labels:
        """Read and check labels as a user gives them, for rows, or for maps of the size `spatial`.

        Whole numbers of shape (N, c) are weights a class. Only for maps of one dimension they may be an index a pixel
        instead, of c pixels: then they are weights if every row is one-hot.

        Examples
        --------
        >>> Labels.of([2, 0], 3).index
        tensor([2, 0])
        >>> Labels.of([[0, 0, 1], [1, 0, 0]], 3).sums(torch.ones(2, 1)).flatten()
        tensor([1., 0., 1.])
        >>> Labels.of([[[0, 1], [2, 2]]], 3, (2, 2)).index
        tensor([[0, 1, 2, 2]])
        """
        y = _as_tensor(y)
        y = y.reshape(1) if y.ndim == 0 and spatial else y
        if cls._are_weights(y, num_classes, len(spatial)):
            _require((y >= 0) & torch.isfinite(y), y, "soft labels must be finite and not negative, got {}")
            soft = y.double() if weight is None else y.double() * weight[:, None]
            return cls(y[:, 0], soft, soft.sum(1), num_classes)
        a_pixel = len(spatial) > 0 and y.ndim == 1 + len(spatial)
        if (y.ndim != 1 and not a_pixel) or y.is_floating_point() or y.is_complex():
            pixels = " or an index a pixel" if spatial else ""
            raise InputError(
                f"labels must be (N,) class indices or (N, {num_classes}) weights{pixels}, "
                f"got {str(y.dtype).removeprefix('torch.')} of shape {tuple(y.shape)}"
            )
        y = y if y.dtype == torch.int64 else y.long()  # eight bits cannot hold every class or ignored index
        y = to_resolution(y, spatial).flatten(1) if a_pixel else y
        if weight is None and _all_count(y, num_classes, ignore_index):
            return cls(y, None, None, num_classes)  # as most are: every row counts once
        kept = y != ignore_index
        legal = ~kept | ((y >= 0) & (y < num_classes))
        _require(legal, y, f"labels must lie in [0, {num_classes}) for num_classes={num_classes}, got {{}}")
        counts = kept.double() if weight is None else kept * weight.double()
        every = weight is None and y.device.type == "cpu" and bool(kept.all())
        return cls(torch.where(kept, y, 0), None, None if every else counts, num_classes)

    @staticmethod
    def _are_weights(y: Tensor, num_classes: int, dims: int) -> bool:
        if y.ndim != 2 or y.shape[1] != num_classes:
            return False
        if dims != 1 or y.is_floating_point() or y.dtype == torch.bool:
            return True
        return bool(((y >= 0) & (y.sum(1, keepdim=True) == 1)).all())

    @property
    def empty(self) -> bool:
        """Whether no row counts for any class."""
        return self.weight is not None and not bool((self.weight > 0).any())

    @property
    def a_pixel(self) -> bool:
        """Whether every pixel has its own label."""
        return self.index.ndim == 2

    def at(self, places: slice) -> Labels:
        """Keep the pixels at `places`, where pixels have labels of their own."""
        if not self.a_pixel:
            return self
        weight = None if self.weight is None else self.weight[:, places]
        return Labels(self.index[:, places], None, weight, self.num_classes)

    def rows(self) -> Labels:
        """Make every pixel a row."""
        weight = None if self.weight is None else self.weight.reshape(-1)
        return Labels(self.index.reshape(-1), None, weight, self.num_classes) if self.a_pixel else self

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Any) -> Labels:
        soft, weight = (None if t is None else t[rows] for t in (self.soft, self.weight))
        return Labels(self.index[rows], soft, weight, self.num_classes)

    def sums(self, rows: Tensor) -> Tensor:
        """Weighted sums of `rows` [N, k] over every class, [c, k]."""
        if self.soft is not None:
            return self.soft.T.to(rows) @ rows
        if self.weight is not None:
            rows = rows * self.weight[:, None].to(rows)
        return rows.new_zeros(self.num_classes, rows.shape[1]).index_add_(0, self.index, rows)

    def rescaled_sums(self, rows: Tensor) -> Tensor:
        """Weighted sums of rows that were multiplied by the root of their weight before."""
        if self.weight is not None:
            rows = rows / _positive(self.weight.sqrt())[:, None].to(rows)
        return self.sums(rows)

    def mix(self, a: Tensor) -> Tensor:
        """For every row the mean, by its weights, of one vector a class, [N, k]."""
        if self.soft is None or self.weight is None:
            return a.index_select(0, self.index)
        return (self.soft / _positive(self.weight)[:, None]).to(a) @ a


def to_resolution(labels: Tensor, spatial: torch.Size | tuple[int, ...]) -> Tensor:
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


def _all_count(y: Tensor, num_classes: int, ignore_index: int) -> bool:
    """Whether class indices are sure to be legal and none of them ignored, as a look on a CPU tells."""
    if not y.is_cpu or not y.numel() or 0 <= ignore_index < num_classes:
        return False
    if y.ndim == 1 and len(y) <= _FEW:
        numbers = y.tolist()
        return bool(min(numbers) >= 0 and max(numbers) < num_classes)
    lowest, highest = torch.aminmax(y)
    return int(lowest) >= 0 and int(highest) < num_classes


def _require(legal: Tensor, values: Tensor, message: str) -> None:
    if values.device.type == "cpu":
        if not legal.all():
            raise InputError(message.format(values[~legal][0].item()))
    else:  # checked on the device, without waiting for it
        torch._assert_async(legal.all(), message.format("others"))


def _positive(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 1)
