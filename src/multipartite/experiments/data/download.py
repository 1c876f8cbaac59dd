"""Bring the files of a data set into a folder: mirrors in order, resumed, checked by SHA-256."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from multipartite.errors import InputError
from multipartite.experiments.data.archive import extract
from multipartite.experiments.data.files import cure, missing
from multipartite.experiments.data.source import Source

__all__ = ["get"]

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
    >>> from multipartite.experiments.data.registry import find
    >>> get(find("digits"), Path("anywhere"))  # inside scikit-learn
    []
    """
    if not missing(source, folder):
        return []
    try:
        with _alone(folder), _progress() as report:
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
    import pooch
    import requests

    from multipartite.experiments.data.transfer import Resume

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
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time download into `folder`, where the system has such locks."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ModuleNotFoundError:
        yield
        return
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
