"""Where a data set comes from: what is known of it before any image is there, and the folder that holds its files."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multipartite.errors import InputError

__all__ = ["VARIABLE", "Array", "Parts", "Source", "cure", "data_folder", "missing", "read_checked"]

VARIABLE = "MULTIPARTITE_DATA"

Array = np.ndarray[Any, np.dtype[Any]]
Parts = tuple[Array, Array, Array, Array]  # train images (N, C, H, W) and labels (N,), test images and labels


@dataclass(frozen=True)
class Source:
    """What is known of a data set before it is loaded.

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
        From a mapping and a seed to arrays. What the mapping holds are the checked bytes of the files, by path;
        or, where `made_from` names other data sets, their arrays, by name.
    files : mapping of str to str
        Path under the data folder to its SHA-256.
    mirrors : tuple of str
        Addresses of the folders that hold the files or the archive, in the order in which they are tried.
    archive : tuple of str, optional
        Name and SHA-256 of the .tar.gz that the files come in; without it each is downloaded by itself.
    made_from : tuple of str
        Names of the data sets that this one is made from; it then has no files of its own.
    flips : bool
        Whether a mirror image is as good an example, as it is of photographs and clothes, and not of digits.

    Examples
    --------
    >>> blank = np.zeros((4, 1, 8, 8), np.uint8)
    >>> half = blank, np.arange(4) % 2
    >>> Source("blank", "nothing to see", (1, 8, 8), (4, 4), ("a", "b"), lambda files, seed: (*half, *half)).files
    {}
    """

    name: str
    summary: str
    shape: tuple[int, int, int]
    sizes: tuple[int, int]
    class_names: tuple[str, ...]
    read: Callable[[Mapping[str, Any], int], Parts]
    files: Mapping[str, str] = field(default_factory=dict)
    mirrors: tuple[str, ...] = ()
    archive: tuple[str, str] | None = None
    made_from: tuple[str, ...] = ()
    flips: bool = False


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where data sets are looked for: `data_dir`, else ``MULTIPARTITE_DATA``, else the user's cache.

    Examples
    --------
    >>> data_folder("here").name
    'here'
    """
    given = data_dir or os.environ.get(VARIABLE)
    if given:
        folder = Path(given).expanduser().absolute()
    else:
        import pooch

        folder = Path(pooch.os_cache("multipartite"))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"the data folder must be a folder, {folder} is a file")
    return folder


def missing(source: Source, folder: Path) -> list[str]:
    """Files of the data set that are not under `folder`."""
    return [path for path in source.files if not (folder / path).is_file()]


def read_checked(source: Source, folder: Path) -> dict[str, bytes]:
    """Read every file of the data set, or none: each must have the hash of the official one.

    What is parsed later are these very bytes, so nothing can change between check and use.
    """
    blobs = {}
    for path, expected in source.files.items():
        file = folder / path
        try:
            blobs[path] = file.read_bytes()
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}") from error
        if (found := hashlib.sha256(blobs[path]).hexdigest()) != expected:
            raise InputError(
                f"{file} is truncated or altered: its SHA-256 is {found}, that of the official file is "
                f"{expected}; delete it, then run: {cure(source, folder)}"
            )
    return blobs


def cure(source: Source, folder: Path) -> str:
    """Name the command that brings the files of a data set, to be pasted into a shell.

    Examples
    --------
    >>> from multipartite.experiments.data.catalogue import find
    >>> cure(find("mnist"), Path("my data"))
    "multipartite data get mnist --data-dir 'my data'"
    """
    return f"multipartite data get {source.name} --data-dir {shlex.quote(str(folder))}"
