"""Cluttered MNIST: a digit at a random place, among fragments of other digits.

Distractors are where supervision should pay: the strongest pixel of a window need not belong to the digit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from multipartite.experiments.data.formats import Array, Index
from multipartite.experiments.data.source import Parts, read_idx_files

__all__ = ["clutter", "read_cluttered_mnist"]

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


def _others(labels: Array, random: np.random.Generator) -> Index:
    """Draw for each row, uniformly, a row of another class."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    own, start = counts[labels], (np.cumsum(counts) - counts)[labels]
    place = random.integers(len(labels) - own)
    place += own * (place >= start)  # skip the block of the row's own class
    return np.take(order, place)


def read_cluttered_mnist(files: Mapping[str, bytes], seed: int) -> Parts:
    """Clutter MNIST's training images with training digits, its test images with test digits."""
    train_images, train_labels, test_images, test_labels = read_idx_files(files, seed)
    train = clutter(train_images, train_labels, (seed, 0))
    return train, train_labels, clutter(test_images, test_labels, (seed, 1)), test_labels
