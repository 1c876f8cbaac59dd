"""Where the files of a data set are, and that they are the right ones."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path

from multipartite.errors import InputError
from multipartite.experiments.data.source import Source

__all__ = ["VARIABLE", "cure", "data_folder", "missing", "read_checked"]

VARIABLE = "MULTIPARTITE_DATA"


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
    >>> from multipartite.experiments.data.registry import find
    >>> cure(find("mnist"), Path("my data"))
    "multipartite data get mnist --data-dir 'my data'"
    """
    return f"multipartite data get {source.name} --data-dir {shlex.quote(str(folder))}"
