"""Batches: images stay on the device as uint8, and what is drawn depends on seed and place alone.

Neither the order of the batches, nor how their images are moved and mixed, nor what a pooling draws depends on what was
drawn before. So a run that goes on after a stop needs no state of a random generator, on any device and in any number
of processes, and every pooling sees the same images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from multipartite.experiments.data.dataset import Normaliser, Split

__all__ = ["Batch", "Images", "TrainingBatches", "batch_order", "draw_moves", "move", "seed_step", "soften"]


class Images:
    """A split of a data set on a device; batches come out normalised.

    Parameters
    ----------
    split : Split
        Images (N, C, H, W), uint8, and labels (N,), int64.
    normalise : Normaliser
        Of the data set.
    dtype, memory_format
        Of the batches.

    Examples
    --------
    >>> from multipartite.experiments.data import load
    >>> data = load("digits")
    >>> images, labels = Images(data.train, data.normalise).batch(torch.tensor([1, 5]))
    >>> tuple(images.shape), images.dtype, labels.tolist()
    ((2, 1, 8, 8), torch.float32, [1, 6])
    """

    def __init__(
        self,
        split: Split,
        normalise: Normaliser,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self.images = split.images.to(device).contiguous(memory_format=memory_format)
        self.labels = split.labels.to(device)
        self.normalise = normalise.to(device)
        self.dtype, self.memory_format = dtype, memory_format

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, moves: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Give the images (n, C, H, W), normalised, and labels (n,) at `index`; moved, where moves (n, 3) are given."""
        index = index.to(self.labels.device)
        images = self.images[index]
        if moves is not None:
            images = move(images, moves)
        return self.normalise(images, self.memory_format).to(self.dtype), self.labels[index]


@dataclass(frozen=True)
class Batch:
    """What one step of training sees.

    Attributes
    ----------
    images : Tensor of shape (n, C, H, W)
        Normalised.
    targets : Tensor of shape (n,), int64, or (n, c), float32
        What the loss and the layers are told: classes, or weights a class where labels are smoothed or mixed.
    labels : Tensor of shape (n,), int64
        The class that weighs most, against which errors are counted.
    """

    images: Tensor
    targets: Tensor
    labels: Tensor


class TrainingBatches:
    """The batches of a run; which images, how moved and how mixed, is a matter of seed, epoch and step alone.

    Parameters
    ----------
    images : Images
        The training split.
    seed, batch_size, num_classes : int
        Of the run; a batch is that of all processes together.
    augment : bool
        Whether images are moved at random: shifted, and mirrored where `flips` says so.
    flips : bool
        Whether a mirror image is as good an example.
    label_smoothing : float
        Share of each label that is spread over all classes (Szegedy et al. 2016).
    mixup : float
        Parameter of the Beta distribution that images are mixed by, in pairs (Zhang et al. 2018); 0 for none.
    rank, processes : int
        Which of how many processes this one is: each takes its share of every batch.

    Examples
    --------
    >>> from multipartite.experiments.data import load
    >>> data = load("digits")
    >>> images = Images(data.train, data.normalise)
    >>> batches = TrainingBatches(images, seed=0, batch_size=50, num_classes=10, augment=True, mixup=0.2)
    >>> batch = batches.at(epoch=0, step=3)
    >>> batches.steps, tuple(batch.images.shape), tuple(batch.targets.shape), tuple(batch.labels.shape)
    (28, (50, 1, 8, 8), (50, 10), (50,))
    """

    def __init__(
        self,
        images: Images,
        *,
        seed: int,
        batch_size: int,
        num_classes: int,
        augment: bool = False,
        flips: bool = False,
        label_smoothing: float = 0.0,
        mixup: float = 0.0,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self.images = images
        self.seed, self.batch_size, self.num_classes = seed, batch_size, num_classes
        self.augment, self.flips = augment, flips
        self.label_smoothing, self.mixup = label_smoothing, mixup
        self.mine = slice(rank, None, processes)
        self._order = -1, torch.empty(0)  # of the epoch at hand

    @property
    def steps(self) -> int:
        """Batches an epoch; images that do not fill one more are left out."""
        return len(self.images) // self.batch_size

    def order(self, epoch: int) -> Tensor:
        """Order in which an epoch sees the images."""
        if self._order[0] != epoch:
            self._order = epoch, batch_order(self.seed, epoch, len(self.images))
        return self._order[1]

    def at(self, epoch: int, step: int) -> Batch:
        """Give this process's share of a batch."""
        rows = self.order(epoch)[step * self.batch_size :][: self.batch_size]
        moves = None
        if self.augment:
            size = self.images.images.shape[-2:]
            moves = draw_moves(self._random(epoch, step, 0), self.batch_size, size, flips=self.flips)
        images, labels = self._take(rows, moves)
        if not self.label_smoothing and not self.mixup:
            return Batch(images, labels, labels)
        targets = soften(labels, self.num_classes, self.label_smoothing)
        if self.mixup:
            random = self._random(epoch, step, 1)
            share = random.beta(self.mixup, self.mixup)
            partner = torch.from_numpy(random.permutation(self.batch_size))
            others, other_labels = self._take(rows[partner], None if moves is None else moves[partner])
            images.mul_(share).add_(others, alpha=1 - share)
            targets.mul_(share).add_(soften(other_labels, self.num_classes, self.label_smoothing), alpha=1 - share)
            labels = labels if share >= 0.5 else other_labels
        return Batch(images, targets, labels)

    def _random(self, epoch: int, step: int, purpose: int) -> np.random.Generator:
        """Begin a sequence of numbers for the whole batch, whatever the number of processes."""
        return np.random.default_rng((self.seed, epoch, step, purpose))

    def _take(self, rows: Tensor, moves: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.images.batch(rows[self.mine], None if moves is None else moves[self.mine])


def soften(labels: Tensor, num_classes: int, smoothing: float) -> Tensor:
    """Turn classes (n,) into weights a class (n, c): a share of each label is spread over all classes.

    Examples
    --------
    >>> soften(torch.tensor([1]), 4, 0.2)
    tensor([[0.0500, 0.8500, 0.0500, 0.0500]])
    """
    spread = smoothing / num_classes
    weights = torch.full((len(labels), num_classes), spread, device=labels.device)
    return weights.scatter_(1, labels[:, None], 1 - smoothing + spread)


def draw_moves(random: np.random.Generator, count: int, size: Iterable[int], *, flips: bool) -> Tensor:
    """Draw how far each image is shifted, an eighth of its side at most (4 of 32), and whether it is mirrored.

    Returns
    -------
    Tensor of shape (count, 3), int64
        Pixels down, pixels to the right, and 1 where the image is mirrored.

    Examples
    --------
    >>> moves = draw_moves(np.random.default_rng(0), 1000, (32, 32), flips=True)
    >>> moves.amin(0).tolist(), moves.amax(0).tolist()
    ([-4, -4, 0], [4, 4, 1])
    """
    shifts = [random.integers(-_reach(side), _reach(side) + 1, count) for side in size]
    mirrored = random.integers(0, 2, count) if flips else np.zeros(count, np.int64)
    return torch.from_numpy(np.stack([*shifts, mirrored], axis=1))


def _reach(side: int) -> int:
    return max(1, (side + 4) // 8)


def move(images: Tensor, moves: Tensor) -> Tensor:
    """Shift and mirror each image of a batch (n, C, H, W) by its move (n, 3); black comes in at the borders.

    Examples
    --------
    >>> image = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)
    >>> move(image, torch.tensor([[1, 0, 1]])).tolist()
    [[[[0, 0], [2, 1]]]]
    """
    n, channels, height, width = images.shape
    above, beside = _reach(height), _reach(width)
    down, right, mirrored = moves.to(images.device).T[:, :, None]  # [n, 1] each
    rows = torch.arange(height, device=images.device) + above - down  # [n, H]
    columns = torch.arange(width, device=images.device)
    columns = torch.where(mirrored == 1, width - 1 - columns, columns) + beside - right  # [n, W]
    places = rows[:, :, None] * (width + 2 * beside) + columns[:, None, :]  # [n, H, W], in the padded image
    padded = F.pad(images, (beside, beside, above, above)).flatten(2)
    return padded.gather(2, places.view(n, 1, -1).expand(-1, channels, -1)).view_as(images)


def batch_order(seed: int, epoch: int, count: int) -> Tensor:
    """Order in which an epoch sees the `count` training images, shape (count,).

    Examples
    --------
    >>> bool((batch_order(1, 2, 50) == batch_order(1, 2, 50)).all())
    True
    >>> bool((batch_order(1, 2, 50) == batch_order(1, 3, 50)).all())
    False
    """
    generator = torch.Generator().manual_seed(_mixed(seed, epoch, 0))
    return torch.randperm(count, generator=generator)


def seed_step(seed: int, step: int, rank: int, device: torch.device | str = "cpu") -> None:
    """Seed torch for one step of training, counted over the whole run, in the process `rank`."""
    value = _mixed(seed, step, 1 + rank)
    if torch.device(device).type == "cpu":
        torch.default_generator.manual_seed(value)  # a tenth of the time: no other device is looked for
    else:
        torch.manual_seed(value)


def _mixed(*words: int) -> int:
    return int.from_bytes(hashlib.blake2b(repr(words).encode(), digest_size=8).digest(), "little")
