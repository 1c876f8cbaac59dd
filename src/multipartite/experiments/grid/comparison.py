"""The grid of a fair comparison: every pooling with every seed, all else equal.

Initial weights and batches depend on the seed alone, so runs of one seed differ in nothing but the pooling, and
differences between poolings can be taken seed by seed. A comparison is a folder::

    OUT/runs/POOLING/seed-N/    one run each, see `multipartite.experiments.run.store`
    OUT/report/                 what `multipartite report` writes

Nothing else is kept: what is finished, what is half done and what is new is read off the runs themselves, so a
comparison that was killed is taken up again by the same command, and a wider one adds to it.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multipartite import pooling
from multipartite.errors import InputError
from multipartite.experiments.grid.cluster import run_jobs_on
from multipartite.experiments.grid.jobs import Job, Outcome, run_jobs, workers_for, workers_starting
from multipartite.experiments.grid.overview import live
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import check_writable, is_run, read_run
from multipartite.pooling.registry import find
from multipartite.words import Places

__all__ = [
    "POOLINGS",
    "Grid",
    "check_poolings",
    "check_settings",
    "different_settings",
    "place",
    "spell_out",
    "train_grid",
]

POOLINGS = ("max", "average", "stochastic", "multipartite-printed", "multipartite", "multipartite:criterion=energy")

_FREE = {"pooling", "seed", "accelerator", "devices", "num_nodes", "threads", "data_dir", "download"}


@dataclass(frozen=True)
class Grid:
    """Poolings times seeds; `base` says everything else.

    Parameters
    ----------
    base : RunConfig
        Data set, network, epochs and all the rest; its pooling and seed do not matter.
    poolings : sequence of str
        A word each, or a word a place, ``word|word|...``.
    seeds : int
        How many: 0, 1, ...; each with every pooling.

    Examples
    --------
    >>> grid = Grid(RunConfig("digits", epochs=3), ("max", "average"), seeds=2)
    >>> [job.name for job in grid.jobs(Path("out"))]
    ['max/seed-0', 'average/seed-0', 'max/seed-1', 'average/seed-1']
    """

    base: RunConfig
    poolings: Sequence[str] = POOLINGS
    seeds: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "poolings", tuple(self.poolings))
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")
        if not self.poolings:
            raise InputError(f"poolings must name at least one of {', '.join(pooling.available())}")
        check_poolings(self.poolings)
        seen: dict[str, str] = {}
        for word in self.poolings:
            if (first := seen.setdefault(str(Places.parse(word)), word)) is not word:
                raise InputError(f"poolings must differ, but {word!r} and {first!r} are the same")

    def jobs(self, out: Path) -> list[Job]:
        """Lay the grid out under `out`, seed by seed, so that the early results compare all poolings."""
        return [
            Job(dataclasses.replace(self.base, pooling=word, seed=seed), place(out, word, seed))
            for seed in range(self.seeds)
            for word in self.poolings
        ]


def train_grid(
    grid: Grid, out: Path, *, workers: int | None = None, client: Any = None, quiet: bool = False
) -> list[Outcome]:
    """Train every run of a grid under `out`, or go on with it; give the outcomes as they came.

    What is wrong with the grid is said before anything is trained.

    Parameters
    ----------
    grid : Grid
        What to train.
    out : Path
        Folder of the comparison.
    workers : int, optional
        Runs at once on this machine; else as many as fill the cores. The numbers do not depend on it.
    client : distributed.Client, optional
        A Dask client: the runs go to its cluster instead.
    quiet : bool
        Whether nothing is shown meanwhile.
    """
    check_settings(grid.base, out)
    jobs = grid.jobs(out)
    if client is not None:
        outcomes = run_jobs_on(client, jobs)
    else:
        count = workers_for(jobs, workers)
        with workers_starting(count):
            _rehearse(jobs)
            check_writable(out)
        outcomes = run_jobs(jobs, count)
    show = nullcontext(lambda outcome: None) if quiet else live(jobs)
    ended = []
    with warnings.catch_warnings(record=True) as heard, show as tell:  # warnings would tear the overview
        for outcome in outcomes:
            tell(outcome)
            ended.append(outcome)
    for words in dict.fromkeys(str(warning.message) for warning in heard):
        warnings.warn(words, stacklevel=3)
    return ended


def _rehearse(jobs: Sequence[Job]) -> None:
    """Load the data, which downloads them once, and build every network: what is wrong is said before any training."""
    from multipartite.experiments.run.processes import start  # these bring torch
    from multipartite.experiments.run.training import assemble, prepare

    if jobs[0].config.accelerator not in ("auto", "cpu"):  # which are always there
        start(jobs[0].config)
    data = prepare(jobs[0].config)
    for config in {job.config.pooling: job.config for job in jobs}.values():
        assemble(config, data)


def place(out: Path, word: str, seed: int) -> Path:
    """Folder of one run in a comparison.

    Examples
    --------
    >>> place(Path("out"), "max:dilation=1,ceil_mode=True", 3).as_posix()
    'out/runs/max-ceil_mode=True-dilation=1/seed-3'
    """
    return out / "runs" / Places.parse(word).slug / f"seed-{seed}"


def spell_out(words: Sequence[str]) -> tuple[str, ...]:
    """Put every registered pooling, and the ablation by energy, in the place of the word ``all``; none comes twice.

    Examples
    --------
    >>> spell_out(["blur:width=3", "all"])[:4]
    ('blur:width=3', 'average', 'blur', 'fractional')
    """
    if "all" not in words:
        return tuple(words)
    every = [*pooling.available(), "multipartite:criterion=energy"]
    named = [other for word in words for other in (every if word == "all" else [word])]
    return tuple({str(Places.parse(word)): None for word in named})


def check_poolings(words: Sequence[str]) -> None:
    """Refuse a pooling that nobody knows; torch is not imported for it."""
    for places in map(Places.parse, words):
        for word in places.words:
            find(word.name)


def check_settings(base: RunConfig, out: Path) -> None:
    """Refuse an `out` that holds runs of other settings; better now than after hours of training."""
    for folder in filter(is_run, sorted(out.glob("runs/*/seed-*"))):
        there = read_run(folder).config
        if names := different_settings([base, there]):
            was, now = (", ".join(f"{n}={getattr(c, n)!r}" for n in names) for c in (there, base))
            raise InputError(f"{out} holds runs with {was}, not {now}: choose another --out")


def different_settings(configs: Sequence[RunConfig]) -> list[str]:
    """Name the settings in which runs differ, other than the pooling, the seed and where they ran.

    Examples
    --------
    >>> different_settings([RunConfig(seed=1), RunConfig(pooling="average"), RunConfig(epochs=3)])
    ['epochs']
    """
    names = [field.name for field in dataclasses.fields(RunConfig) if field.name not in _FREE]
    return [name for name in names if len({getattr(config, name) for config in configs}) > 1]
