"""Files that are whole or not there: written beside their place, flushed, then moved into it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["leftovers", "read_json", "write_atomically", "write_json"]


def write_atomically(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Write `content` to `path` so that a crash at any moment leaves the old file or the new one.

    Parameters
    ----------
    path : Path
        Where the content goes; its folder exists.
    content : bytes
        What the file holds afterwards.
    keep : Path, optional
        Where the file that was there before goes.

    Raises
    ------
    OSError
        The disk is full, say; what was there before is untouched and the message says what to do.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", b"one")
    >>> write_atomically(folder / "a.txt", b"two", keep=folder / "b.txt")
    >>> (folder / "a.txt").read_bytes(), (folder / "b.txt").read_bytes()
    (b'two', b'one')
    """
    beside = path.with_name(f".{path.name}.part")  # one name, so that a crash leaves one file at most
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        beside.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        reason = error.strerror or type(error).__name__
        message = f"cannot write {path} ({reason}); what was there before is untouched"
        raise OSError(error.errno, message) from error


def leftovers(folder: Path) -> list[Path]:
    """Files that a process left half written when it was killed.

    Examples
    --------
    >>> leftovers(Path("no such folder"))
    []
    """
    return list(folder.glob(".*.part"))


def _flush_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, whole or not at all; NaN is refused, for no other reader knows it."""
    write_atomically(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
