"""A comparison of poolings from start to end: the grid is trained, then its report is written.

``multipartite compare`` and a notebook call the same function.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipartite.errors import InputError, unknown
from multipartite.experiments.grid.comparison import POOLINGS, Grid, check_poolings, spell_out, train_grid
from multipartite.experiments.grid.jobs import Outcome
from multipartite.experiments.run.config import RunConfig
from multipartite.words import Places

if TYPE_CHECKING:
    import pandas as pd

    from multipartite.experiments.report import Report

__all__ = ["Comparison", "compare", "default_folder", "explain_failures", "make_grid"]

_TEXT = ["pooling", "metric", "key", "final"]  # columns of the sheets that hold no numbers
_WHOLE = ["seed", "seeds", "epoch", "parameters"]


@dataclass(frozen=True)
class Comparison:
    """What a comparison came to.

    Attributes
    ----------
    report : Report
        What was written: the page and its rows.
    outcomes : tuple of Outcome
        How every run ended.
    """

    report: Report
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> dict[str, str]:
        """Why runs failed, by their names; empty where none did."""
        return _failures(self.outcomes)

    @property
    def page(self) -> Path:
        """The report, one page for the browser."""
        return self.report.page

    @property
    def verdict(self) -> tuple[str, ...]:
        """What the comparison shows, in sentences."""
        return self.report.verdict

    @cached_property
    def errors(self) -> pd.DataFrame:
        """A row a pooling: mean errors, their deviations over seeds, paired differences to max pooling."""
        return self._sheet("errors").set_index("pooling")

    @cached_property
    def cost(self) -> pd.DataFrame:
        """A row a pooling: images a second, memory, parameters."""
        return self._sheet("cost").set_index("pooling")

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row a pooling and seed: objective and errors of train, validation and test."""
        return self._sheet("runs").set_index(["pooling", "seed"])

    @cached_property
    def curves(self) -> pd.DataFrame:
        """A row a pooling, metric and epoch: the mean over the seeds."""
        return self._sheet("curves").set_index(["pooling", "metric", "epoch"])

    def _sheet(self, name: str) -> pd.DataFrame:
        import pandas as pd

        with self.page.with_name(f"{name}.csv").open(newline="") as file:
            sheet = pd.DataFrame(csv.DictReader(file))
        for column in sheet.columns.difference(_TEXT):
            sheet[column] = [float(cell) if cell else math.nan for cell in sheet[column]]
        return sheet.astype({name: int for name in _WHOLE if name in sheet})

    def __str__(self) -> str:
        return "\n".join([*self.verdict, f"Report: {self.page}"])

    def _repr_html_(self) -> str:
        """Show the verdict and the errors where a notebook shows a result."""
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.verdict)
        return f"{words}{self.errors.to_html(float_format='{:.2f}'.format)}<p>{escape(str(self.page))}</p>"


def compare(
    grid: Grid | str = "digits",
    out: Path | str | None = None,
    *,
    workers: int | None = None,
    client: Any = None,
    pictures: bool = True,
    quiet: bool = False,
    **choices: Any,
) -> Comparison:
    """Train every pooling with every seed from the same start, or go on with it, and write the report.

    Parameters
    ----------
    grid : Grid or str
        What to compare; or the name of a data set, and in `choices` ``poolings``, ``seeds`` and whatever
        :class:`RunConfig` takes.
    out : path, optional
        Folder of the comparison; else ``comparisons/DATASET``. What is finished there is not trained again.
    workers : int, optional
        Runs at once on this machine; else as many as fill the cores. The numbers do not depend on it.
    client : distributed.Client, optional
        A Dask client: the runs go to its cluster instead, and `out` must be where all its workers see it.
    pictures : bool
        Whether to look into the trained networks.
    quiet : bool
        Whether nothing is shown meanwhile.

    Returns
    -------
    Comparison
        Its verdict, its page, and its numbers as data frames. Where only some runs failed, `failures` says why.

    Examples
    --------
    >>> import tempfile
    >>> found = compare("digits", tempfile.mkdtemp(), poolings=["max", "average"], seeds=1, epochs=1, limit=200,
    ...                 workers=1, pictures=False, quiet=True)
    >>> sorted(found.errors.index), found.page.name
    (['average', 'max'], 'report.html')
    """
    if isinstance(grid, str):
        grid = make_grid(grid, **choices)
    elif choices:
        raise InputError(f"a grid says everything already, got {', '.join(choices)} beside it: put them into the grid")
    out = Path(out) if out is not None else default_folder(grid.base.dataset)
    out = out.resolve() if client is not None else out  # the workers are elsewhere
    outcomes = tuple(train_grid(grid, out, workers=workers, client=client, quiet=quiet))
    failures = _failures(outcomes)
    if len(failures) == len(outcomes):
        what = f"none of the {len(outcomes)} runs" if len(outcomes) > 1 else "the only run has not"
        raise InputError(f"{what} finished: {explain_failures(failures)}")
    from multipartite.experiments.report import write_report  # brings torch: what is mistyped is said before

    return Comparison(write_report(out, pictures=pictures), outcomes)


def _failures(outcomes: Iterable[Outcome]) -> dict[str, str]:
    return {outcome.job.name: outcome.failure for outcome in outcomes if outcome.failure}


def default_folder(dataset: str) -> Path:
    """Where a comparison on a data set goes if nothing else is said.

    Examples
    --------
    >>> default_folder("my.data:letters").as_posix()
    'comparisons/my.data-letters'
    """
    return Path("comparisons") / Path(dataset).name.replace(":", "-")


def make_grid(
    dataset: str, *, poolings: str | Iterable[str] = POOLINGS, seeds: int = 5, threads: int = 1, **choices: Any
) -> Grid:
    """Put a grid together from single choices.

    Examples
    --------
    >>> make_grid("digits", poolings="max,multipartite:groups=2,temperature=2", seeds=2, epochs=3).poolings
    ('max', 'multipartite:groups=2,temperature=2')
    """
    known = [field.name for field in dataclasses.fields(RunConfig)]
    for name in choices:
        if name not in known:
            raise unknown("choice of a comparison:", name, ["poolings", "seeds", *known])
    words = spell_out(tuple(map(str, Places.split(poolings))) if isinstance(poolings, str) else tuple(poolings))
    check_poolings(words)  # before the configuration brings torch
    return Grid(RunConfig(dataset, threads=threads, **choices), words, seeds)


def explain_failures(failures: Mapping[str, str]) -> str:
    """Say why runs failed, each reason once.

    Examples
    --------
    >>> explain_failures({"max/seed-0": "no space", "max/seed-1": "no space", "lp/seed-0": "training diverged"})
    'max/seed-0 and 1 more: no space; lp/seed-0: training diverged'
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in failures.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
        for reason, names in by_reason.items()
    )
