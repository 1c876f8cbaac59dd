"""A folder of one's own images as a data set: one sub-folder a class."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from multipartite.errors import InputError, warn
from multipartite.experiments.data.dataset import Dataset, Split, stratified

__all__ = ["load_folder"]

LARGEST = 64  # images that share one size up to this stay as they are
SIDE = 32  # others are scaled and cut to this square
TEST_SHARE = 0.2
_NAMED = 100  # unreadable images that a message names: all, unless something else is wrong


def load_folder(folder: Path, *, seed: int = 0, skip_unreadable: bool = False) -> Dataset:
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
    skip_unreadable : bool
        Whether images that cannot be read are left out with a warning; else they are an error that names them.

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
    images = _read([path for part in parts for files in part.values() for path in files], skip_unreadable)
    least = 3 - len(parts)  # a class needs one image to train and one to test
    for part in parts:
        for name, files in part.items():
            part[name] = [path for path in files if path in images]
            if len(part[name]) < least:
                raise InputError(
                    f"class {name} needs an image to train and one to test, {files[0].parent} holds "
                    f"{len(part[name])} that can be read"
                )
    names = tuple(parts[0])
    labels = torch.tensor([i for part in parts for i, name in enumerate(names) for _ in part[name]])
    everything = Split(_stack(list(images.values())), labels)
    if len(parts) == 2:
        first = sum(map(len, parts[0].values()))
        train, test = torch.arange(first), torch.arange(first, len(labels))
    else:
        test, train = stratified(labels, max(len(names), round(TEST_SHARE * len(labels))), seed)
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


def _read(paths: list[Path], skip_unreadable: bool) -> dict[Path, Image.Image]:
    """Decode the images, in the order of the paths; all that cannot be read are named at once."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        opened = dict(zip(paths, pool.map(_open, paths), strict=True))
    images = {path: image for path, image in opened.items() if isinstance(image, Image.Image)}
    if bad := [f"{path} ({reason})" for path, reason in opened.items() if isinstance(reason, str)]:
        more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        told = f"{len(bad)} of {len(paths)} images cannot be read: {', '.join(bad[:_NAMED])}{more}"
        if not skip_unreadable:
            raise InputError(f"{told}; repair or remove them, or leave them out: --skip-unreadable")
        warn(f"left out, {told}")
    return images


def _stack(images: list[Image.Image]) -> Tensor:
    """Bring the images to one size and one number of channels, shape (N, C, H, W), uint8."""
    if len({image.size for image in images}) > 1:
        images = [_square(image) for image in images]
    if any(image.mode != "L" for image in images):
        images = [image.convert("RGB") for image in images]
    arrays = np.stack([np.atleast_3d(np.asarray(image)) for image in images])  # [N, H, W, C]
    return torch.from_numpy(np.ascontiguousarray(arrays.transpose(0, 3, 1, 2)))


def _open(path: Path) -> Image.Image | str:
    """Give an image, or the reason why it cannot be read."""
    try:
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):  # 16 bits a pixel: keep the upper eight
                upright = Image.fromarray((np.asarray(upright) >> 8).clip(0, 255).astype(np.uint8))
            plain = upright.convert("L" if upright.mode in ("1", "L") else "RGB")
            return _square(plain) if max(plain.size) > LARGEST else plain  # no photograph stays whole in memory
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return "it is no image" if isinstance(error, UnidentifiedImageError) else str(error)


def _square(image: Image.Image) -> Image.Image:
    return ImageOps.fit(image, (SIDE, SIDE), Image.Resampling.BICUBIC)
