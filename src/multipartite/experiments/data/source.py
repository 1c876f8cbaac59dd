"""What a data set is before it is loaded, and how its files become arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from multipartite.experiments.data.formats import Array, read_cifar, read_idx, read_svhn

__all__ = ["Parts", "Source", "read_cifar_files", "read_idx_files", "read_svhn_files"]

Parts = tuple[Array, Array, Array, Array]  # train images and labels, test images and labels
Reader = Callable[[Mapping[str, bytes], int], Parts]  # checked files by path, and the seed


@dataclass(frozen=True)
class Source:
    """What is known of a data set before any of its files is there.

    Parameters
    ----------
    name, summary : str
        How it is asked for, and one line on what it is.
    shape : tuple of int
        Channels, height and width.
    sizes : tuple of int
        Training and test images.
    class_names : tuple of str
        In the order of the labels.
    read : callable
        From the checked bytes of the files and a seed to arrays.
    files : mapping of str to str
        Path under the data folder to its SHA-256.
    mirrors : tuple of str
        Addresses of the folders that hold the files or the archive, in the order in which they are tried.
    archive : tuple of str, optional
        Name and SHA-256 of the .tar.gz that the files come in; without it each is downloaded by itself.
    """

    name: str
    summary: str
    shape: tuple[int, int, int]
    sizes: tuple[int, int]
    class_names: tuple[str, ...]
    read: Reader
    files: Mapping[str, str] = field(default_factory=dict)
    mirrors: tuple[str, ...] = ()
    archive: tuple[str, str] | None = None


def read_idx_files(files: Mapping[str, bytes], seed: int) -> Parts:
    """Read the four files of MNIST and its relatives; nothing is left to the seed."""
    blobs = {path.rpartition("/")[2]: read_idx(path, blob) for path, blob in files.items()}
    images, labels = "images-idx3-ubyte.gz", "labels-idx1-ubyte.gz"
    train = blobs[f"train-{images}"][:, None], blobs[f"train-{labels}"]
    return *train, blobs[f"t10k-{images}"][:, None], blobs[f"t10k-{labels}"]


def read_cifar_files(files: Mapping[str, bytes], seed: int, *, label_bytes: int) -> Parts:
    """Read the batches of CIFAR in their order; the test file has ``test`` in its name."""
    parts = {path: read_cifar(path, blob, label_bytes=label_bytes) for path, blob in files.items()}
    train = [part for path, part in parts.items() if "test" not in path.rpartition("/")[2]]
    (test,) = [part for path, part in parts.items() if "test" in path.rpartition("/")[2]]
    images, labels = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
    return images, labels, *test


def read_svhn_files(files: Mapping[str, bytes], seed: int) -> Parts:
    """Read the training and the test file of SVHN."""
    train, test = (read_svhn(path, blob) for path, blob in sorted(files.items(), reverse=True))
    return *train, *test
