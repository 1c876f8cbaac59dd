"""Which runs a report is about: those under a folder, finished, of one data set and one set of settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from multipartite.errors import InputError
from multipartite.experiments.grid.comparison import different_settings
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Run, Summary, is_run, read_run
from multipartite.words import Places

__all__ = ["BASELINE", "Collection", "collect"]

BASELINE = "max"


@dataclass(frozen=True)
class Collection:
    """Finished runs by pooling and seed; folders `unfinished` are left out, and so is what cannot be read.

    `damaged` says in a sentence each what is wrong with a run and which folder to delete.
    """

    folder: Path
    runs: dict[str, dict[int, Run]]
    unfinished: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def config(self) -> RunConfig:
        """Any of the configurations: they agree in everything but pooling, seed and machine."""
        return next(iter(next(iter(self.runs.values())).values())).config

    @property
    def seeds(self) -> list[int]:
        """All seeds that some pooling has."""
        return sorted({seed for runs in self.runs.values() for seed in runs})

    @property
    def summaries(self) -> dict[str, dict[int, Summary]]:
        """The summary of every run, by pooling and seed."""
        return {
            pooling: {seed: run.summary for seed, run in sorted(runs.items()) if run.summary is not None}
            for pooling, runs in self.runs.items()
        }

    @property
    def origins(self) -> dict[str, dict[int, object]]:
        """What made every run, by pooling and seed: its revision and versions."""
        return {
            pooling: {seed: (run.revision, run.versions) for seed, run in runs.items()}
            for pooling, runs in self.runs.items()
        }


def collect(folder: Path | str) -> Collection:
    """Read every run under `folder` and check that they can be compared.

    Examples
    --------
    >>> collect("no/such/folder")
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: no/such/folder is not there: give the folder of a comparison
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not there: give the folder of a comparison")
    read = [_read(path) for path in _folders(folder)]
    found = [run for run in read if isinstance(run, Run)]
    damaged = [reason for reason in read if isinstance(reason, str)]
    if not found and damaged:
        raise InputError(damaged[0])
    if not found:
        raise InputError(f"{folder} holds no runs: make some with `multipartite compare --out {folder}`")
    _comparable(found)
    finished = [run for run in found if run.finished]
    if not finished:
        raise InputError(f"none of the {len(found)} runs in {folder} is finished: go on with them first")
    runs: dict[str, dict[int, Run]] = {}
    for run in finished:
        seeds = runs.setdefault(str(Places.parse(run.config.pooling)), {})
        if (twin := seeds.setdefault(run.config.seed, run)) is not run:
            raise InputError(f"{twin.path} and {run.path} hold the same run: take one away")
    unfinished = (str(run.path.relative_to(folder)) for run in found if not run.finished)
    return Collection(folder, runs, tuple(unfinished), tuple(damaged))


def _read(path: Path) -> Run | str:
    """Read a run, or say in a sentence why it cannot be read."""
    try:
        return read_run(path)
    except InputError as error:
        return str(error)


def _folders(folder: Path) -> Iterator[Path]:
    """Folders of runs in and under `folder`; other people's config.json files are passed over."""
    for place, below, _ in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if is_run(place):
            below.clear()
            yield Path(place)


def _comparable(runs: Sequence[Run]) -> None:
    configs = [run.config for run in runs]
    if not (names := different_settings(configs)):
        return
    name = "dataset" if "dataset" in names else names[0]
    first: dict[object, Run] = {}
    for run in runs:
        first.setdefault(getattr(run.config, name), run)
    which = ", ".join(f"{value} (in {run.path})" for value, run in first.items())
    kind = "data sets" if name == "dataset" else f"settings of {name}"
    raise InputError(f"runs of different {kind} are mixed, which cannot be compared: {which}; give one folder each")
