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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from multipartite import pooling
from multipartite.errors import InputError
from multipartite.experiments.grid.jobs import Job
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import is_run, read_run
from multipartite.pooling.registry import find
from multipartite.words import Places

__all__ = ["Grid", "different_settings", "place"]

_FREE = {"pooling", "seed", "accelerator", "devices", "num_nodes", "threads", "data_dir", "download"}


@dataclass(frozen=True)
class Grid:
    """Poolings times seeds; `base` says everything else.

    Examples
    --------
    >>> grid = Grid(RunConfig("digits", epochs=3), ("max", "average"), seeds=2)
    >>> [job.name for job in grid.jobs(Path("out"))]
    ['max/seed-0', 'average/seed-0', 'max/seed-1', 'average/seed-1']
    """

    base: RunConfig
    poolings: tuple[str, ...]
    seeds: int

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")
        if not self.poolings:
            raise InputError(f"poolings must name at least one of {', '.join(pooling.available())}")
        seen: dict[str, str] = {}
        for word in self.poolings:
            for one in Places.parse(word).words:
                find(one.name)  # or refuse it
            if (first := seen.setdefault(str(Places.parse(word)), word)) is not word:
                raise InputError(f"poolings must differ, but {word!r} and {first!r} are the same")

    def jobs(self, out: Path) -> list[Job]:
        """Lay the grid out under `out`, seed by seed, so that the early results compare all poolings."""
        return [
            Job(dataclasses.replace(self.base, pooling=word, seed=seed), place(out, word, seed))
            for seed in range(self.seeds)
            for word in self.poolings
        ]

    def check(self, out: Path) -> None:
        """Refuse an `out` that holds runs of other settings; better now than after hours of training."""
        for folder in filter(is_run, sorted(out.glob("runs/*/seed-*"))):
            there = read_run(folder).config
            if names := different_settings([self.base, there]):
                was, now = (", ".join(f"{n}={getattr(c, n)!r}" for n in names) for c in (there, self.base))
                raise InputError(f"{out} holds runs with {was}, not {now}: choose another --out")


def place(out: Path, word: str, seed: int) -> Path:
    """Folder of one run in a comparison.

    Examples
    --------
    >>> place(Path("out"), "max:dilation=1,ceil_mode=True", 3).as_posix()
    'out/runs/max-ceil_mode=True-dilation=1/seed-3'
    """
    return out / "runs" / Places.parse(word).slug / f"seed-{seed}"


def different_settings(configs: Sequence[RunConfig]) -> list[str]:
    """Name the settings in which runs differ, other than the pooling, the seed and where they ran.

    Examples
    --------
    >>> different_settings([RunConfig(seed=1), RunConfig(pooling="average"), RunConfig(epochs=3)])
    ['epochs']
    """
    names = [field.name for field in dataclasses.fields(RunConfig) if field.name not in _FREE]
    return [name for name in names if len({getattr(config, name) for config in configs}) > 1]
