"""Unpack the archive of a data set without trusting it."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from pathlib import Path
from typing import IO

from multipartite.errors import InputError
from multipartite.experiments.data.files import cure, missing
from multipartite.experiments.data.source import Source

__all__ = ["extract"]


def extract(source: Source, archive: Path, folder: Path) -> None:
    """Take the files of the data set, and nothing else, out of its archive; all of them or none.

    Members are streamed to names that this project chose, so that no path or link of the archive leads
    elsewhere, and count only with the right SHA-256.

    Parameters
    ----------
    source : Source
        Those of its files that are missing, less their first folder, name the members.
    archive : Path
        A tar file, compressed or not.
    folder : Path
        The data folder.
    """
    wanted = {path.partition("/")[2]: path for path in missing(source, folder)}
    taken: dict[str, Path] = {}
    again = f"delete it, then run: {cure(source, folder)}"
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                stream = tar.extractfile(member) if name in wanted and member.isreg() else None
                if stream is None:
                    continue
                taken[name] = part = folder / f"{wanted[name]}.part"
                found, expected = _copy(stream, part), source.files[wanted[name]]
                if found != expected:
                    raise InputError(
                        f"{name} in {archive} is altered: its SHA-256 is {found}, that of the official file "
                        f"is {expected}; {again}"
                    )
        if absent := wanted.keys() - taken.keys():
            raise InputError(f"{archive} does not hold {min(absent)}; {again}")
        for name, part in taken.items():
            os.replace(part, folder / wanted[name])
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{archive} is not a whole archive ({error}); {again}") from error
    finally:
        for part in taken.values():
            part.unlink(missing_ok=True)


def _copy(stream: IO[bytes], part: Path) -> str:
    """Write a stream to `part` and return its SHA-256."""
    digest = hashlib.sha256()
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as file:
        while piece := stream.read(1 << 20):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()
