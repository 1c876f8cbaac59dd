"""Batches: images stay on the device as uint8, and what is drawn depends on seed and place alone.

Neither the order of the batches nor what a pooling draws depends on what was drawn before, so a run that
goes on after a stop needs no state of a random generator, on any device and in any number of processes.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from multipartite.experiments.data import Normaliser, Split

__all__ = ["Images", "batch_order", "seed_step"]


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

    def batch(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Give the images (n, C, H, W), normalised, and labels (n,) at `index`."""
        if isinstance(index, Tensor):
            index = index.to(self.labels.device)
        return self.normalise(self.images[index], self.memory_format).to(self.dtype), self.labels[index]


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
