"""A folder of one's own images as a data set: one sub-folder a class."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from multipartite.errors import InputError
from multipartite.experiments.data.dataset import Dataset, Split, stratified

__all__ = ["load_folder"]

LARGEST = 64  # images that share one size up to this stay as they are
SIDE = 32  # others are scaled and cut to this square
TEST_SHARE = 0.2


def load_folder(folder: Path, *, seed: int = 0) -> Dataset:
    """Load the images of a folder; the names of its sub-folders are the classes.

    Images that all have one size of at most 64 x 64 keep it; otherwise each is scaled, and cut about its
    middle, to 32 x 32. They are grey if every one of them is, else RGB. A fifth of every class becomes the
    test set, by `seed`; where the folder holds ``train`` and ``test``, each with its classes, that is kept.

    Parameters
    ----------
    folder : Path
        One sub-folder a class; files with the ending of an image, at any depth, are its images.
    seed : int
        Settles the test set.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for i, colour in enumerate(["red", "blue"] * 5):
    ...         (Path(name) / colour).mkdir(exist_ok=True)
    ...         Image.new("RGB", (8, 8), colour).save(Path(name) / colour / f"{i}.png")
    ...     data = load_folder(Path(name))
    >>> data.class_names, tuple(data.train.images.shape), tuple(data.test.images.shape)
    (('blue', 'red'), (8, 3, 8, 8), (2, 3, 8, 8))
    """
    top = _folders(folder)
    if {"train", "test"} <= top.keys():
        parts = [_files(top[part]) for part in ("train", "test")]
        if parts[0].keys() != parts[1].keys():
            odd = sorted(parts[0].keys() ^ parts[1].keys())
            raise InputError(f"{folder}/train and {folder}/test must hold the same classes, {odd[0]} is in one only")
    else:
        parts = [_files(folder)]
        for name, files in parts[0].items():
            if len(files) < 2:
                raise InputError(f"class {name} needs an image to train and one to test, {folder / name} holds one")
    names = tuple(parts[0])
    paths = [path for part in parts for files in part.values() for path in files]
    labels = torch.tensor([i for part in parts for i, name in enumerate(names) for _ in part[name]])
    everything = Split(_stack(paths), labels)
    if len(parts) == 2:
        first = sum(map(len, parts[0].values()))
        train, test = torch.arange(first), torch.arange(first, len(paths))
    else:
        test, train = stratified(labels, max(len(names), round(TEST_SHARE * len(paths))), seed)
    title = folder.resolve().name
    return Dataset(title, everything.take(train), everything.take(test), names)


def _folders(folder: Path) -> dict[str, Path]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from error
    return {path.name: path for path in paths if not path.name.startswith(".")}


def _files(folder: Path) -> dict[str, list[Path]]:
    """Image files of every class; at least two classes, none of them empty."""
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    classes = {
        name: sorted(p for p in path.rglob("*") if p.suffix.lower() in endings and not p.name.startswith("."))
        for name, path in _folders(folder).items()
    }
    if len(classes) < 2:
        held = f"one class only, {next(iter(classes))}" if classes else "no sub-folders"
        raise InputError(f"a folder of images must hold two sub-folders or more, one a class; {folder} has {held}")
    for name, files in classes.items():
        if not files:
            raise InputError(f"class {name} has no images: {folder / name} holds no file with the ending of an image")
    return classes


def _stack(paths: list[Path]) -> Tensor:
    """Decode the images to one size and one number of channels, shape (N, C, H, W), uint8."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        images = list(pool.map(_open, paths))
    if len({image.size for image in images}) > 1:
        images = [_square(image) for image in images]
    if any(image.mode != "L" for image in images):
        images = [image.convert("RGB") for image in images]
    arrays = np.stack([np.atleast_3d(np.asarray(image)) for image in images])  # [N, H, W, C]
    return torch.from_numpy(np.ascontiguousarray(arrays.transpose(0, 3, 1, 2)))


def _open(path: Path) -> Image.Image:
    try:
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):  # 16 bits a pixel: keep the upper eight
                upright = Image.fromarray((np.asarray(upright) >> 8).clip(0, 255).astype(np.uint8))
            plain = upright.convert("L" if upright.mode in ("1", "L") else "RGB")
            return _square(plain) if max(plain.size) > LARGEST else plain  # no photograph stays whole in memory
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as an image ({error}); repair or remove it") from error


def _square(image: Image.Image) -> Image.Image:
    return ImageOps.fit(image, (SIDE, SIDE), Image.Resampling.BICUBIC)
