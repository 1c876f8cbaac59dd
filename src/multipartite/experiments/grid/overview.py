"""One live overview of a grid of runs, read off their folders: it serves processes and clusters alike."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from multipartite.experiments.grid.jobs import Job, Outcome
from multipartite.experiments.run.store import Progress, progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["Overview", "live"]


class Overview:
    """A table that draws itself anew from the folders of the jobs whenever it is shown."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.began = time.time()
        self.finished: dict[Path, Progress] = {}
        self.before = sum(self._progress(job).epochs for job in jobs)
        self.total = sum(job.config.epochs for job in jobs)

    def _progress(self, job: Job) -> Progress:
        if job.folder not in self.finished:
            now = progress(job.folder)
            if now.test is None:
                return now
            self.finished[job.folder] = now
        return self.finished[job.folder]

    def __rich__(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in ("pooling", "", "done", "test error", "running"):
            table.add_column(name, overflow="ellipsis", no_wrap=True, header_style="bold")
        everything = 0
        for pooling in dict.fromkeys(job.config.pooling for job in self.jobs):
            jobs = [job for job in self.jobs if job.config.pooling == pooling]
            states = [self._progress(job) for job in jobs]
            tests = [s.test for s in states if s.test is not None]
            epochs, total = sum(s.epochs for s in states), sum(job.config.epochs for job in jobs)
            everything += epochs
            running = [
                f"seed {job.config.seed}: epoch {s.epochs}/{job.config.epochs}"
                + (f", {s.error:.2f}%" if s.error is not None else "")
                for job, s in zip(jobs, states, strict=True)
                if s.test is None and s.taken >= self.began
            ]
            table.add_row(
                pooling,
                ProgressBar(total=total, completed=epochs, width=20),
                f"{len(tests)}/{len(jobs)}",
                f"{statistics.mean(tests):.2f}%" if tests else "",
                "; ".join(running),
            )
        table.add_row("", "", f"{len(self.finished)}/{len(self.jobs)}", "", self._time(everything))
        return table

    def _time(self, epochs: int) -> str:
        """Time since the start, and time left at the rate of the epochs so far."""
        spent, done = time.time() - self.began, epochs - self.before
        left = f"{_clock(spent * (self.total - epochs) / done)} left" if done else "time left unknown yet"
        return f"{_clock(spent)} so far, {left}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@contextmanager
def live(jobs: Sequence[Job], console: Console | None = None) -> Iterator[Callable[[Outcome], None]]:
    """Show how the jobs go while the block runs, on standard error; give what is told of every job that ended.

    A terminal shows the overview, drawn anew all the time; elsewhere every job that ended is a line.
    """
    from rich.console import Console
    from rich.live import Live

    console = console or Console(stderr=True)
    if console.is_terminal:
        with Live(Overview(jobs), console=console, refresh_per_second=2, transient=True):
            yield lambda outcome: None
        return
    ended = itertools.count(1)

    def tell(outcome: Outcome) -> None:
        print(f"{next(ended)}/{len(jobs)} {outcome}", file=console.file, flush=True)

    yield tell
