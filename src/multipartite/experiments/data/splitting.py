"""Seeded, class-stratified choices of images: the only home of chance in the splits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from multipartite.errors import InputError
from multipartite.experiments.data.formats import Index

__all__ = ["stratified"]


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


def _shares(classes: Index, count: int) -> Index:
    """Rows that each class gives: the largest remainders, and one at least where the class has any."""
    exact = classes * (count / classes.sum())
    shares: Index = np.maximum(np.floor(exact).astype(np.int64), np.minimum(classes, 1))
    while shares.sum() < count:
        shares[np.argmax(np.where(shares < classes, exact - shares, -np.inf))] += 1
    while shares.sum() > count:  # the ones given to rare classes are taken from the most favoured
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    return shares
