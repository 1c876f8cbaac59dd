"""A data set in memory: three splits of uint8 images with their labels, and how batches of them are normalised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipartite.errors import InputError

__all__ = ["Dataset", "Normaliser", "Split", "stratified"]


@dataclass(frozen=True, eq=False)
class Split:
    """Images with their labels.

    Parameters
    ----------
    images : Tensor of shape (N, C, H, W), uint8
        As they are in the files.
    labels : Tensor of shape (N,), int64
        Classes from zero.

    Examples
    --------
    >>> split = Split(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 2]))
    >>> len(split), split.take(torch.tensor([2, 0])).labels.tolist()
    (3, [2, 0])
    """

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise InputError(
                f"images must be uint8 of shape (N, C, H, W), got {_described(self.images)}; "
                "scale what lies in 0 to 1 by 255 and round"
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise InputError(f"labels must be int64 of shape ({len(self.images)},), got {_described(self.labels)}")

    @classmethod
    def of(cls, images: npt.ArrayLike, labels: npt.ArrayLike) -> Split:
        """Copy arrays of images (N, C, H, W) in 0 to 255 and of labels (N,).

        Examples
        --------
        >>> len(Split.of(np.zeros((3, 1, 2, 2), np.uint8), [0, 1, 0]))
        3
        """
        classes = np.asarray(labels)
        if classes.dtype.kind in "ui":
            classes = classes.astype(np.int64)
        return cls(torch.from_numpy(np.array(images)), torch.from_numpy(np.array(classes)))

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Tensor) -> Split:
        """Give the images and labels at `rows`, in that order."""
        return Split(self.images[rows], self.labels[rows])


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Turn uint8 images into float32 of zero mean and unit deviation a channel; the one home of that.

    Parameters
    ----------
    mean, scale : Tensor of shape (C, 1, 1)
        What is subtracted, in 0 to 255, and what the difference is multiplied with.

    Examples
    --------
    >>> normalise = Normaliser(torch.full((1, 1, 1), 5.0), torch.full((1, 1, 1), 0.5))
    >>> normalise(torch.full((1, 1, 1, 2), 7, dtype=torch.uint8)).flatten().tolist()
    [1.0, 1.0]
    """

    mean: Tensor
    scale: Tensor

    def __call__(self, images: Tensor, memory_format: torch.memory_format = torch.preserve_format) -> Tensor:
        """Give the images (n, C, H, W), normalised, where they are."""
        mean, scale = (v.to(images.device) for v in (self.mean, self.scale))
        return images.to(torch.float32, copy=True, memory_format=memory_format).sub_(mean).mul_(scale)

    def to(self, device: torch.device | str) -> Normaliser:
        """Keep mean and scale on a device."""
        return Normaliser(self.mean.to(device), self.scale.to(device))


def _nothing() -> Split:
    return Split(torch.empty(0, 1, 1, 1, dtype=torch.uint8), torch.empty(0, dtype=torch.int64))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to train, validate and test with, as they are in the files; batches are normalised later.

    Parameters
    ----------
    name : str
        What it was loaded as.
    train, test : Split
        Images and labels.
    class_names : tuple of str
        One name a class, in the order of the labels.
    validation : Split
        Empty until :meth:`with_validation` splits it off the training set.
    flips : bool
        Whether a mirror image is as good an example, as it is of photographs and clothes, and not of digits.

    Examples
    --------
    >>> from multipartite.experiments.data import load
    >>> digits = load("digits").with_validation(0.1)
    >>> digits
    Dataset digits: 10 classes, images 1x8x8, 1293 train, 144 validation, 360 test
    >>> digits.normalise(digits.train.images[:100]).shape
    torch.Size([100, 1, 8, 8])
    """

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    validation: Split = field(default_factory=_nothing)
    flips: bool = False

    def __post_init__(self) -> None:
        if not len(self.train):
            raise InputError(f"data set {self.name} must hold images to train with, it has none")
        for part, split in self._splits():
            if not len(split):
                continue
            if (shape := tuple(split.images.shape[1:])) != self.shape:
                raise InputError(f"all images of {self.name} must be {self.shape} as in train, got {shape} in {part}")
            low, high = (int(label) for label in split.labels.aminmax())
            if low < 0 or high >= (count := self.num_classes):
                raise InputError(
                    f"labels of {self.name} must lie in [0, {count}) for {count} class_names, "
                    f"got {low} to {high} in {part}"
                )

    def _splits(self) -> list[tuple[str, Split]]:
        return [("train", self.train), ("validation", self.validation), ("test", self.test)]

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        total = torch.zeros(2, self.shape[0], dtype=torch.float64)
        for batch in torch.split(self.train.images, 1024):
            x = batch.float()
            total += torch.stack([v.sum((0, 2, 3), dtype=torch.float64) for v in (x, x.square())])
        total /= len(self.train) * self.shape[1] * self.shape[2]
        mean, square = total
        std = (square - mean.square()).clamp(min=0).sqrt()
        std[std == 0] = 1.0  # a constant channel becomes zero, not NaN
        return mean.float(), std.float()

    @property
    def mean(self) -> Tensor:
        """Mean of every channel over the training images, shape (C,), float32, in 0 to 255."""
        return self._moments[0]

    @property
    def std(self) -> Tensor:
        """Standard deviation of every channel over the training images, shape (C,), float32, in 0 to 255."""
        return self._moments[1]

    @cached_property
    def normalise(self) -> Normaliser:
        """What turns a batch of uint8 images into float32 of zero mean and unit deviation a channel."""
        return Normaliser(self.mean.view(-1, 1, 1), 1.0 / self.std.view(-1, 1, 1))

    def limit(self, count: int, seed: int = 0) -> Dataset:
        """Keep `count` training images, class by class in proportion; the test set stays whole.

        Examples
        --------
        >>> from multipartite.experiments.data import load
        >>> load("digits").limit(200)
        Dataset digits: 10 classes, images 1x8x8, 200 train, 0 validation, 360 test
        """
        if count == len(self.train):
            return self
        if not self.num_classes <= count < len(self.train):
            raise InputError(
                f"limit must lie from {self.num_classes} (one image a class) to {len(self.train)} "
                f"(the training images of {self.name}), got {count}"
            )
        chosen, _ = stratified(self.train.labels, count, seed)
        return replace(self, train=self.train.take(chosen))

    def with_validation(self, share: float, seed: int = 0) -> Dataset:
        """Split a stratified validation part off the training set.

        Parameters
        ----------
        share : float or int
            A fraction of the training images between 0 and 1, or a number of images.
        seed : int
            The split depends on it and on the labels alone.
        """
        count = round(share * len(self.train)) if 0 < share < 1 else int(share)
        highest = len(self.train) - self.num_classes
        if (count != share and share >= 1) or not self.num_classes <= count <= highest:
            raise InputError(
                f"the validation part must be a fraction below 1 or a whole number of images, and hold from "
                f"{self.num_classes} to {highest} of {self.name}'s training images, got {share!r}"
            )
        chosen, rest = stratified(self.train.labels, count, seed)
        return replace(self, train=self.train.take(rest), validation=self.train.take(chosen))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(split)} {part}" for part, split in self._splits())
        shape = "x".join(map(str, self.shape))
        return f"Dataset {self.name}: {self.num_classes} classes, images {shape}, {sizes}"


def stratified(labels: Tensor, count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Choose `count` rows so that every class keeps its share.

    Parameters
    ----------
    labels : Tensor of shape (N,)
        Class of every row, integers from zero.
    count : int
        How many rows to choose; at least one for every class present, fewer than N.
    seed : int
        The choice depends on it and on the labels alone.

    Returns
    -------
    chosen, rest : Tensor of shape (count,) and (N - count,), int64
        Indices of the rows chosen and of the others, both ascending.

    Examples
    --------
    >>> chosen, rest = stratified(torch.tensor([0, 0, 0, 0, 1, 1]), 3)
    >>> len(chosen), len(rest), torch.tensor([0, 0, 0, 0, 1, 1])[chosen].tolist()
    (3, 3, [0, 0, 1])
    """
    classes = np.bincount(labels.numpy())
    present = int(np.count_nonzero(classes))
    if not present <= count < len(labels):
        raise InputError(
            f"a stratified choice among {len(labels)} images of {present} classes must take "
            f"from {present} to {len(labels) - 1} of them, got {count}"
        )
    shares = _shares(classes, count)
    # Shuffle once, then sort by class: the first rows of every class are its random choice.
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels.numpy()[order], kind="stable")]
    place = np.arange(len(labels)) - np.repeat(np.cumsum(classes) - classes, classes)
    taken = place < np.repeat(shares, classes)
    return torch.from_numpy(np.sort(order[taken])), torch.from_numpy(np.sort(order[~taken]))


def _shares(classes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Rows that each class gives: the largest remainders, and one at least where the class has any."""
    exact = classes * (count / classes.sum())
    shares: npt.NDArray[np.int64] = np.maximum(np.floor(exact).astype(np.int64), np.minimum(classes, 1))
    while shares.sum() < count:
        shares[np.argmax(np.where(shares < classes, exact - shares, -np.inf))] += 1
    while shares.sum() > count:  # the ones given to rare classes are taken from the most favoured
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    return shares
