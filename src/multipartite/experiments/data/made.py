"""Data sets made with a seed from those of others: what they add is known, so what a pooling does about it can be.

Distractors are where supervision should pay: the strongest pixel of a window need not belong to the digit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from multipartite.experiments.data.official import DIGITS
from multipartite.experiments.data.source import Array, Parts, Source

__all__ = ["MADE", "clutter", "grey", "make_background_mnist", "make_cluttered_mnist", "put_on_photographs"]

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


def put_on_photographs(images: Array, photographs: Array, seed: int | tuple[int, ...]) -> Array:
    """Take the absolute difference of each digit and a random piece of a random photograph, in grey.

    After MNIST-M (Ganin et al., "Domain-adversarial training of neural networks", 2016), which does so in colour.

    Parameters
    ----------
    images : array of shape (N, 1, h, w), uint8
    photographs : array of shape (M, 3, H, W), uint8
        Red, green and blue; no smaller than the images.
    seed : int or tuple of int
        Images, photographs and seed settle the outcome.

    Returns
    -------
    array of shape (N, 1, h, w), uint8

    Examples
    --------
    >>> digits, photographs = np.full((2, 1, 28, 28), 9, np.uint8), np.full((5, 3, 32, 32), 200, np.uint8)
    >>> made = put_on_photographs(digits, photographs, seed=0)
    >>> made.shape, int(made.min()), int(made.max())
    ((2, 1, 28, 28), 191, 191)
    """
    size = images.shape[-2:]
    pieces = np.lib.stride_tricks.sliding_window_view(grey(photographs), size, axis=(1, 2))  # [M, tops, lefts, h, w]
    draw = np.random.default_rng(seed).integers
    which, top, left = (draw(count, size=len(images)) for count in pieces.shape[:3])
    ground, digits = pieces[which, top, left], images[:, 0]
    return (np.maximum(ground, digits) - np.minimum(ground, digits))[:, None]


def grey(photographs: Array) -> Array:
    """Turn (M, 3, H, W) into (M, H, W) by the luma of ITU-R 601, 0.299 R + 0.587 G + 0.114 B, rounded.

    The weights are integers over 2^16, so that every machine rounds alike.

    Examples
    --------
    >>> grey(np.array([[[[255]], [[0]], [[0]]]], np.uint8)).tolist()
    [[[76]]]
    """
    luma = np.empty(photographs[:, 0].shape, np.uint8)
    for start in range(0, len(photographs), 500):  # pieces that stay in the cache
        red, green, blue = photographs[start : start + 500].transpose(1, 0, 2, 3).astype(np.uint32)
        luma[start : start + 500] = (19595 * red + 38470 * green + 7471 * blue + (1 << 15)) >> 16
    return luma


def make_background_mnist(sources: Mapping[str, Parts], seed: int) -> Parts:
    """Put MNIST's training digits on CIFAR-10's training photographs, its test digits on the test photographs."""
    train_images, train_labels, test_images, test_labels = sources["mnist"]
    train_photographs, _, test_photographs, _ = sources["cifar10"]
    train = put_on_photographs(train_images, train_photographs, (seed, 0))
    return train, train_labels, put_on_photographs(test_images, test_photographs, (seed, 1)), test_labels


# fmt: off
MADE = (
    Source("cluttered-mnist", "MNIST digits among fragments", (1, 40, 40), (60000, 10000), DIGITS,
           make_cluttered_mnist, made_from=("mnist",)),
    Source("background-mnist", "MNIST digits on grey photographs", (1, 28, 28), (60000, 10000), DIGITS,
           make_background_mnist, made_from=("mnist", "cifar10")),
)
# fmt: on
