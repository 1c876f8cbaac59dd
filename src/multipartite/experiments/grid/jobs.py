"""Jobs: a run and its folder each, worked on by one process at a time; as many at once as this machine can.

A run always uses the threads that its configuration names, never what happens to be free, for the number of
threads changes the order of sums. So the cores are filled with runs, not with threads.
"""

from __future__ import annotations

import importlib
import itertools
import os
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multipartite.errors import InputError, sentence
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Epoch, Summary, progress
from multipartite.experiments.run.watching import Watcher
from multipartite.registry import Entries, added, take_over

__all__ = ["Job", "Outcome", "cores", "run_jobs", "work", "workers_for", "workers_starting"]

_ONE_RUN = threading.Lock()  # torch draws from one generator a process, so runs in threads take turns
_IDLE = 300  # seconds after which a process that nobody needs ends
_STARTS = 3  # how often workers that were killed, by a lack of memory say, are replaced


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


def cores() -> int:
    """How many cores this process may use.

    Examples
    --------
    >>> cores() >= 1
    True
    """
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def workers_for(jobs: Sequence[Job], wanted: int | None = None) -> int:
    """How many jobs run at once: what is wanted, else as many as fill the cores.

    Examples
    --------
    >>> job = Job(RunConfig("digits", threads=cores()), Path("runs/max/seed-0"))
    >>> workers_for([job, job]), workers_for([job, job], wanted=5)
    (1, 2)
    """
    if wanted is not None and wanted < 1:
        raise InputError(f"jobs must be at least 1, got {wanted}")
    threads = max((job.config.threads or cores() for job in jobs), default=1)
    return max(1, min(wanted or cores() // threads, len(jobs)))


def run_jobs(jobs: Iterable[Job | None], workers: int = 1) -> Iterator[Outcome]:
    """Work on jobs, `workers` at a time, and give each outcome as it comes.

    One worker is this process; more are processes of their own, which end when this one does. When the system
    kills a worker the jobs at hand start again, each from its checkpoint.

    Parameters
    ----------
    jobs : iterable of Job
        A job is taken when a worker is free for it, so that what comes next may depend on the outcomes so far; None
        is "nothing just now, ask again after the next outcome".
    workers : int
        How many at once.
    """
    if workers == 1:
        yield from map(work, itertools.takewhile(lambda job: job is not None, jobs))  # type: ignore[arg-type]
        return
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    waiting, again, starts = iter(jobs), list[Job](), 1
    at_hand: dict[Future[Outcome], Job] = {}
    try:
        while True:
            pool = _pool(workers)
            while len(at_hand) < workers and (job := again.pop() if again else next(waiting, None)) is not None:
                at_hand[pool.submit(_work, job, os.getpid(), os.getcwd(), added())] = job
            if not at_hand:
                return
            ended, _ = wait(at_hand, return_when=FIRST_COMPLETED)
            for future in ended:
                job = at_hand.pop(future)
                try:
                    yield future.result()
                except TerminatedWorkerError:
                    again.append(job)
            if not again:
                continue
            again += at_hand.values()  # all are lost when one is
            at_hand.clear()
            starts += 1
            if starts > _STARTS:
                reason = f"its worker was killed {_STARTS} times; try fewer --jobs, memory may be short"
                yield from (Outcome(job, failure=reason) for job in [*again, *waiting] if job is not None)
                return
            warnings.warn("a worker was killed; its run goes on from its checkpoint", stacklevel=2)
    finally:
        if at_hand:  # nobody waits for the outcomes any more; checkpoints keep what was done
            _pool(workers).shutdown(kill_workers=True)


@contextmanager
def workers_starting(workers: int) -> Iterator[None]:
    """Start the workers: they import what training needs while the body goes on, and are ready when it ends."""
    start = threading.Thread(target=_start, args=(workers,), daemon=True)
    start.start()
    yield
    start.join()  # a body that fails does not wait


def _start(workers: int) -> None:
    if workers > 1:
        try:
            pool = _pool(workers)
            wait([pool.submit(_ready, os.getpid()) for _ in range(workers)])
        except RuntimeError:
            if threading.main_thread().is_alive():  # else the command has ended, and nobody waits for workers
                raise


def _pool(workers: int) -> Any:
    """Give the processes, the same ones every time; a library in them that counts cores shall not fight for them."""
    from joblib.externals.loky import get_reusable_executor

    # loky replaces a worker that holds much more memory than at its start; nothing of a run is lost by it
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
    share = str(max(1, cores() // workers))
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), share)
    return get_reusable_executor(workers, timeout=_IDLE, env=threads)


def _die_with(parent: int, every: float = 0.2) -> None:
    """Let this process end when `parent` does: a killed comparison must not leave workers behind."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os._exit(1)

    if any(thread.name == "die-with-parent" for thread in threading.enumerate()):
        return
    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()


def _ready(parent: int) -> None:
    _die_with(parent)
    for name in ("lightning_fabric", "multipartite.experiments.run.training"):
        importlib.import_module(name)


def _work(job: Job, parent: int, folder: str, entries: Entries) -> Outcome:
    _die_with(parent)
    take_over(entries)
    os.chdir(folder)  # paths are relative to where the parent is now, not to where it was when it started the worker
    return work(job)
