"""Bring the files of a data set into a folder: mirrors in order, resumed, checked by SHA-256, taken out of archives."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pooch
import requests
from filelock import FileLock
from urllib3.exceptions import HTTPError

from multipartite.errors import InputError
from multipartite.experiments.data.source import Source, cure, missing

__all__ = ["Resume", "extract", "get"]

Report = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all where known


def get(source: Source, folder: Path) -> list[str]:
    """Download what is missing of a data set.

    Files that are there stay untouched; a download that broke off goes on where it stopped. With a terminal
    there is a progress bar.

    Parameters
    ----------
    source : Source
        The data set.
    folder : Path
        The data folder; made where it is missing.

    Returns
    -------
    list of str
        The files that came, as paths under `folder`.

    Examples
    --------
    >>> from multipartite.experiments.data.catalogue import find
    >>> get(find("digits"), Path("anywhere"))  # inside scikit-learn
    []
    """
    if not missing(source, folder):
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"), _progress() as report:  # one process at a time
            absent = missing(source, folder)  # another process may have brought them while this one waited
            if absent and source.archive:
                name, sha256 = source.archive
                archive = f"{absent[0].partition('/')[0]}/{name}"
                _fetch(source, folder, archive, sha256, report)
                extract(source, folder / archive, folder)
                (folder / archive).unlink()
            else:
                for path in absent:
                    _fetch(source, folder, path, source.files[path], report)
    except OSError as error:
        raise InputError(f"data set {source.name} cannot be stored under {folder}: {error}") from error
    return absent


def _fetch(source: Source, folder: Path, path: str, sha256: str, report: Report) -> None:
    """Download one file from the first mirror that gives the right one."""
    pooch.get_logger().setLevel("WARNING")
    target = folder / path
    part = target.with_name(target.name + ".part")
    resume = Resume(part, lambda done, total: report(target.name, done, total))
    failures = []
    for url in [mirror + target.name for mirror in source.mirrors]:
        for _ in range(2):
            begun = resume.have > 0
            try:
                pooch.retrieve(url, f"sha256:{sha256}", target.name, target.parent, downloader=resume)
                return
            except requests.RequestException as error:
                failures.append(f"{url}: {error}")
                break
            except ValueError:  # pooch's word for a wrong hash; it has removed what came
                failures.append(f"{url}: what came has not the SHA-256 {sha256}")
                if not begun:
                    break  # else the older beginning may be to blame: once more, from nothing
    raise InputError(
        f"{target.name} of data set {source.name} could not be downloaded ({'; '.join(failures)}); put it "
        f"into {target.parent} by hand, or go on where this stopped: {cure(source, folder)}"
    )


@contextlib.contextmanager
def _progress() -> Iterator[Report]:
    """Show one bar a file on standard error; nothing where that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console, tasks = Console(stderr=True), {}
    columns = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done, total=total)

        yield report


class Resume:
    """Download into a ``.part`` file that outlives a failure; the next attempt asks for the rest only.

    A connection that breaks is taken up again as long as each attempt brings something. Whether the pieces
    make the right file is for pooch to say, by the hash.

    Parameters
    ----------
    part : Path
        Where the bytes are gathered.
    report : callable
        Called with the bytes so far and in all, after every piece.
    attempts : int
        How often one address is asked at most.
    timeout : float
        Seconds without an answer after which a connection counts as broken.

    Examples
    --------
    >>> downloader = Resume(Path("mnist.gz.part"))  # then pooch.retrieve(..., downloader=downloader)
    >>> downloader.have
    0
    """

    def __init__(
        self,
        part: Path,
        report: Callable[[int, int | None], None] = lambda done, total: None,
        *,
        attempts: int = 20,
        timeout: float = 30,
    ) -> None:
        self.part, self.report, self.attempts, self.timeout = part, report, attempts, timeout

    @property
    def have(self) -> int:
        """How many bytes are there already."""
        return self.part.stat().st_size if self.part.exists() else 0

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Bring `url` to `output_file`, as pooch asks of a downloader."""
        for attempt in range(1, self.attempts + 1):
            before = self.have
            try:
                self._continue(url)
                break
            except (requests.RequestException, HTTPError) as error:
                if self.have == before or attempt == self.attempts:
                    raise requests.ConnectionError(_reason(error)) from error
        os.replace(self.part, output_file)

    def _continue(self, url: str) -> None:
        have = self.have
        # No transfer encoding: a .gz must arrive as it is, and a range must count its bytes.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as response:
            if have and response.status_code == requests.codes.requested_range_not_satisfiable:
                if response.headers.get("Content-Range") == f"bytes */{have}":
                    return  # it was whole already
                self.part.unlink()  # longer than the file: not its beginning
                raise requests.ConnectionError("the server has fewer bytes than came before")
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                have = 0  # a server without ranges sends everything again
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise requests.ConnectionError(f"asked for the bytes from {have}, the server sent others")
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            with self.part.open("ab" if have else "wb") as file:
                for piece in response.raw.stream(1 << 16, decode_content=False):
                    file.write(piece)
                    have += len(piece)
                    self.report(have, total)
        if total is not None and have != total:
            raise requests.ConnectionError(f"the connection broke after {have} of {total} bytes")


def _reason(error: Exception) -> str:
    """Say in a few words what requests says in many."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError) and not isinstance(error.args[0], str):
        return "no connection"
    return str(error)


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
