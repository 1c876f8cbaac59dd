"""Data sets made with a seed from those of others: what they add is known, so what a pooling does about it can be.

Distractors are where supervision should pay: the strongest pixel of a window need not belong to the digit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from multipartite.experiments.data.official import DIGITS
from multipartite.experiments.data.source import Array, Parts, Source

__all__ = ["MADE", "clutter", "make_cluttered_mnist"]

_SIDE = 40
_FRAGMENTS = 6
_PATCH = 8
_MARGIN = 4  # MNIST draws in the middle 20 x 20 of its 28 x 28; fragments are cut from there


def clutter(images: Array, labels: Array, seed: int | tuple[int, ...]) -> Array:
    """Put each digit somewhere on a 40 x 40 canvas and add six 8 x 8 fragments of digits of other classes.

    Parameters
    ----------
    images : array of shape (N, 1, 28, 28), uint8
    labels : array of shape (N,)
        Classes from zero; at least two of them.
    seed : int or tuple of int
        Images, labels and seed settle the outcome.

    Returns
    -------
    array of shape (N, 1, 40, 40), uint8
        The brightest of what overlaps.

    Examples
    --------
    >>> digits = np.full((2, 1, 28, 28), 9, np.uint8)
    >>> clutter(digits, np.array([0, 1]), seed=0).shape
    (2, 1, 40, 40)
    """
    n, side = len(images), images.shape[-1]
    random = np.random.default_rng(seed)
    draw = random.integers
    canvas = np.zeros((n, _SIDE, _SIDE), np.uint8)
    top, left = draw(_SIDE - side + 1, size=(2, n))
    for y, x in np.unique(np.stack([top, left], axis=1), axis=0):  # 169 places, many digits at each
        here = (top == y) & (left == x)
        canvas[here, y : y + side, x : x + side] = images[here, 0]
    rows, columns = np.mgrid[:_PATCH, :_PATCH]
    row = np.arange(n)[:, None, None]
    for _ in range(_FRAGMENTS):
        donor = _others(labels, random)[:, None, None]
        cut_y, cut_x = draw(_MARGIN, side - _MARGIN - _PATCH + 1, size=(2, n, 1, 1))
        put_y, put_x = draw(_SIDE - _PATCH + 1, size=(2, n, 1, 1))
        fragment = images[donor, 0, cut_y + rows, cut_x + columns]
        place = row, put_y + rows, put_x + columns
        canvas[place] = np.maximum(canvas[place], fragment)
    return canvas[:, None]


def _others(labels: Array, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw for each row, uniformly, a row of another class."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    own, start = counts[labels], (np.cumsum(counts) - counts)[labels]
    place = random.integers(len(labels) - own)
    place += own * (place >= start)  # skip the block of the row's own class
    return np.take(order, place)


def make_cluttered_mnist(sources: Mapping[str, Parts], seed: int) -> Parts:
    """Clutter MNIST's training images with training digits, its test images with test digits."""
    train_images, train_labels, test_images, test_labels = sources["mnist"]
    train = clutter(train_images, train_labels, (seed, 0))
    return train, train_labels, clutter(test_images, test_labels, (seed, 1)), test_labels


# fmt: off
MADE = (
    Source("cluttered-mnist", "MNIST digits among fragments", (1, 40, 40), (60000, 10000), DIGITS,
           make_cluttered_mnist, made_from=("mnist",)),
)
# fmt: on
