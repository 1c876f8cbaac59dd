"""From a name to a data set in memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from multipartite.errors import InputError, unknown
from multipartite.experiments.data.dataset import Dataset, Split
from multipartite.experiments.data.files import cure, data_folder, missing, read_checked
from multipartite.experiments.data.registry import SOURCES, available

__all__ = ["load"]


def load(
    name: str | os.PathLike[str],
    data_dir: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    seed: int = 0,
) -> Dataset:
    """Load a data set by name, or a folder of one's own images.

    Parameters
    ----------
    name : str or path
        A name of :func:`~multipartite.experiments.data.available`, or a folder with one sub-folder a class.
    data_dir : str or path, optional
        Where the files are, or go; else ``MULTIPARTITE_DATA``, else the user's cache.
    download : bool
        Whether missing files are downloaded; else they are an error.
    seed : int
        Settles what chance decides of the images: the clutter of ``cluttered-mnist`` and the test part of a
        folder. Leave it alone when runs of several seeds are compared: they should see the same images.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load("digits")
    Dataset digits: 10 classes, images 1x8x8, 1437 train, 0 validation, 360 test
    """
    if seed < 0:
        raise InputError(f"seed must be zero or more, got {seed}")
    if (source := SOURCES.get(os.fspath(name))) is None:
        if (images := Path(name).expanduser()).is_dir():
            from multipartite.experiments.data.folder import load_folder

            return load_folder(images, seed=seed)
        raise unknown("data set", os.fspath(name), [*available(), "a folder with one sub-folder of images a class"])
    blobs: dict[str, bytes] = {}
    if source.files:
        folder = data_folder(data_dir)
        if absent := missing(source, folder):
            if not download:
                raise InputError(
                    f"data set {source.name} needs {folder / absent[0]}, which is not there; "
                    f"run: {cure(source, folder)}"
                )
            from multipartite.experiments.data.download import get

            get(source, folder)
        blobs = read_checked(source, folder)
    train_images, train_labels, test_images, test_labels = (
        torch.from_numpy(np.array(part, dtype))
        for part, dtype in zip(source.read(blobs, seed), (np.uint8, np.int64) * 2, strict=True)
    )
    return Dataset(source.name, Split(train_images, train_labels), Split(test_images, test_labels), source.class_names)
