"""The embedded data set: the handwritten digits that come with scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from multipartite.experiments.data.official import DIGITS
from multipartite.experiments.data.source import Parts, Source

__all__ = ["EMBEDDED", "read_digits"]

_FILE = ("datasets", "data", "digits.csv.gz")
_TEST = 360  # a fifth of the 1797 images


def read_digits(files: Mapping[str, bytes], seed: int) -> Parts:
    """Scale the values 0 to 16 to 0 to 255 and split, always in the same way, whatever the seed.

    Examples
    --------
    >>> train_images, train_labels, test_images, test_labels = read_digits({}, 0)
    >>> train_images.shape, test_images.shape, int(train_images.max())
    ((1437, 1, 8, 8), (360, 1, 8, 8), 255)
    """
    import torch

    from multipartite.experiments.data.dataset import stratified

    values, labels = _table()
    images = np.rint(values * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    test, train = (rows.numpy() for rows in stratified(torch.from_numpy(labels), _TEST, seed=0))
    return images[train], labels[train], images[test], labels[test]


def _table() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Values and labels off scikit-learn's own file: to import its data sets takes longer than a short run."""
    home = find_spec("sklearn")
    path = Path(home.origin or "").parent.joinpath(*_FILE) if home else Path()
    if path.is_file():
        table = np.loadtxt(path, delimiter=",")
        return table[:, :-1], table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits  # another release may keep it elsewhere

    values, labels = load_digits(return_X_y=True)
    return values, labels


EMBEDDED = Source("digits", "handwritten digits inside scikit-learn", (1, 8, 8), (1437, 360), DIGITS, read_digits)
