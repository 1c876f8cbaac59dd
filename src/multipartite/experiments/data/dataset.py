"""A data set in memory: uint8 images, their labels, and what normalising them needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from multipartite.errors import InputError
from multipartite.experiments.data.splitting import stratified

__all__ = ["Dataset"]


def _no_images() -> Tensor:
    return torch.empty(0, 1, 1, 1, dtype=torch.uint8)


def _no_labels() -> Tensor:
    return torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images of a training and a test set, as they are in the files; batches are normalised later.

    Parameters
    ----------
    name : str
        What it was loaded as.
    train_images, test_images, validation_images : Tensor of shape (N, C, H, W), uint8
        The validation part is empty until :meth:`with_validation` splits it off the training set.
    train_labels, test_labels, validation_labels : Tensor of shape (N,), int64
        Classes from zero.
    class_names : tuple of str
        One name a class, in the order of the labels.

    Examples
    --------
    >>> from multipartite.experiments.data import load
    >>> digits = load("digits").with_validation(0.1)
    >>> digits
    Dataset digits: 10 classes, images 1x8x8, 1293 train, 144 validation, 360 test
    >>> digits.normalise(digits.train_images[:100]).shape
    torch.Size([100, 1, 8, 8])
    """

    name: str
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    class_names: tuple[str, ...]
    validation_images: Tensor = field(default_factory=_no_images)
    validation_labels: Tensor = field(default_factory=_no_labels)

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        total = torch.zeros(2, self.shape[0], dtype=torch.float64)
        for batch in torch.split(self.train_images, 1024):
            x = batch.float()
            total += torch.stack([v.sum((0, 2, 3), dtype=torch.float64) for v in (x, x.square())])
        total /= len(self.train_images) * self.shape[1] * self.shape[2]
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

    def normalise(self, images: Tensor) -> Tensor:
        """Turn a batch of uint8 images into float32 of zero mean and unit deviation a channel."""
        mean, std = (v.to(images.device).view(-1, 1, 1) for v in (self.mean, self.std))
        return images.float().sub_(mean).div_(std)

    def limit(self, count: int, seed: int = 0) -> Dataset:
        """Keep `count` training images, class by class in proportion; the test set stays whole.

        Examples
        --------
        >>> from multipartite.experiments.data import load
        >>> load("digits").limit(200)
        Dataset digits: 10 classes, images 1x8x8, 200 train, 0 validation, 360 test
        """
        if count == len(self.train_labels):
            return self
        if not self.num_classes <= count < len(self.train_labels):
            raise InputError(
                f"limit must lie from {self.num_classes} (one image a class) to {len(self.train_labels)} "
                f"(the training images of {self.name}), got {count}"
            )
        chosen, _ = stratified(self.train_labels, count, seed)
        return self._with_train(chosen)

    def with_validation(self, share: float, seed: int = 0) -> Dataset:
        """Split a stratified validation part off the training set.

        Parameters
        ----------
        share : float or int
            A fraction of the training images between 0 and 1, or a number of images.
        seed : int
            The split depends on it and on the labels alone.
        """
        count = round(share * len(self.train_labels)) if 0 < share < 1 else int(share)
        highest = len(self.train_labels) - self.num_classes
        if (count != share and share >= 1) or not self.num_classes <= count <= highest:
            raise InputError(
                f"the validation part must be a fraction below 1 or a whole number of images, and hold from "
                f"{self.num_classes} to {highest} of {self.name}'s training images, got {share!r}"
            )
        chosen, rest = stratified(self.train_labels, count, seed)
        return replace(
            self._with_train(rest),
            validation_images=self.train_images[chosen],
            validation_labels=self.train_labels[chosen],
        )

    def _with_train(self, rows: Tensor) -> Dataset:
        return replace(self, train_images=self.train_images[rows], train_labels=self.train_labels[rows])

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, f'{part}_labels'))} {part}" for part in ("train", "validation", "test"))
        shape = "x".join(map(str, self.shape))
        return f"Dataset {self.name}: {self.num_classes} classes, images {shape}, {sizes}"
