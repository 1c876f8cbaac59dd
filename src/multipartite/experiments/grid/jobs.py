"""One job: a run and its folder, worked on by one process at a time, wherever that process is."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from multipartite.errors import InputError, sentence
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Epoch, Summary, progress
from multipartite.experiments.run.watching import Watcher

__all__ = ["Job", "Outcome", "die_with", "work"]

_ONE_RUN = threading.Lock()  # torch draws from one generator a process, so runs in threads take turns


@dataclass(frozen=True)
class Job:
    """A run to train in `folder`; `pause` is the epoch after which it rests, `until` a time to stop at.

    A job that rested is no failure: the same job without `pause` goes on from its checkpoint.

    Examples
    --------
    >>> Job(RunConfig("digits", pooling="max", seed=2), Path("grid/runs/max/seed-2")).name
    'max/seed-2'
    """

    config: RunConfig
    folder: Path
    pause: int | None = None
    until: float | None = None

    @property
    def name(self) -> str:
        """The last two parts of the folder: pooling and seed."""
        return "/".join(self.folder.parts[-2:])


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a summary, with a reason why it failed, or with neither, when it was paused."""

    job: Job
    summary: Summary | None = None
    failure: str | None = None

    def __str__(self) -> str:
        if self.summary is not None:
            return f"{self.job.name}: test error {self.summary.test.top1:.2f}%"
        return f"{self.job.name}: {self.failure or 'paused'}"


class _Paused(Exception):
    pass


class _Pause(Watcher):
    """Ends training after an epoch whose checkpoint is written, or when time is up."""

    def __init__(self, epoch: int | None, until: float | None) -> None:
        self.last, self.until = epoch, until

    def start(self, config: RunConfig, steps: int, done: int) -> None:
        """See whether another process went as far while this one waited for it."""
        if self.last is not None and done * config.epochs >= self.last * steps:
            raise _Paused

    def step(self, epoch: int, meter: object) -> None:
        """Look at the clock."""
        if self.until is not None and time.time() > self.until:
            raise _Paused

    def epoch(self, record: Epoch) -> None:
        """Count."""
        if self.last is not None and record.epoch >= self.last:
            raise _Paused


def work(job: Job) -> Outcome:
    """Train the run of a job, or go on with it; whatever goes wrong becomes the outcome's failure.

    Examples
    --------
    >>> import tempfile
    >>> config = RunConfig("digits", epochs=1, limit=200, threads=1)
    >>> work(Job(config, Path(tempfile.mkdtemp()) / "max" / "seed-0")).summary.epochs
    1
    """
    from multipartite.experiments.run.training import train_run  # brings torch, which a list of jobs need not wait for

    if job.until is not None and time.time() > job.until:
        return Outcome(job)
    try:
        if job.pause is not None and progress(job.folder).epochs >= job.pause:
            return Outcome(job)
        with _ONE_RUN:
            summary = train_run(job.config, job.folder, watcher=_Pause(job.pause, job.until), wait=True)
    except _Paused:
        return Outcome(job)
    except InputError as error:
        return Outcome(job, failure=str(error))
    except OSError as error:
        return Outcome(job, failure=sentence(error))
    except Exception as error:  # whatever it is, it must not take the other runs with it
        return Outcome(job, failure=f"{type(error).__name__}: {error}")
    return Outcome(job, summary)


def die_with(parent: int, every: float = 0.2) -> None:
    """Let this process end when `parent` does: a killed comparison must not leave workers behind."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os._exit(1)

    if any(thread.name == "die-with-parent" for thread in threading.enumerate()):
        return
    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()
