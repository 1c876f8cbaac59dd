"""Many jobs on one machine: as many at once as asked for, the same numbers whatever their number.

A run always uses the threads that its configuration names, never what happens to be free, for the number of
threads changes the order of sums. So the cores are filled with runs, not with threads.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from multipartite.errors import InputError
from multipartite.experiments.grid.jobs import Job, Outcome, die_with, work
from multipartite.registry import Entries, added, take_over

__all__ = ["cores", "run_jobs", "workers_for", "workers_starting"]

_STARTS = 3  # how often workers that were killed, by a lack of memory say, are replaced


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
    >>> from pathlib import Path
    >>> from multipartite.experiments.run.config import RunConfig
    >>> job = Job(RunConfig("digits", threads=cores()), Path("runs/max/seed-0"))
    >>> workers_for([job, job]), workers_for([job, job], wanted=5)
    (1, 2)
    """
    if wanted is not None and wanted < 1:
        raise InputError(f"jobs must be at least 1, got {wanted}")
    threads = max((job.config.threads or cores() for job in jobs), default=1)
    return max(1, min(wanted or cores() // threads, len(jobs)))


def run_jobs(jobs: Sequence[Job], workers: int = 1) -> Iterator[Outcome]:
    """Work on all jobs, `workers` at a time, and give each outcome as it comes.

    One worker is this process; more are processes of their own, which end when this one does. When the system
    kills a worker the jobs that are left start again, each from its checkpoint.
    """
    if workers == 1:
        yield from map(work, jobs)
        return
    left = {job.folder: job for job in jobs}
    for _ in range(_STARTS):
        for outcome in _parallel(list(left.values()), workers):
            del left[outcome.job.folder]
            yield outcome
        if not left:
            return
    reason = f"its worker was killed {_STARTS} times; try fewer --jobs, memory may be short"
    yield from (Outcome(job, failure=reason) for job in left.values())


@contextmanager
def workers_starting(workers: int) -> Iterator[None]:
    """Start the workers: they import what training needs while the body goes on, and are ready when it ends."""
    start = threading.Thread(target=_start, args=(workers,), daemon=True)
    start.start()
    yield
    start.join()  # a body that fails does not wait


def _start(workers: int) -> None:
    if workers > 1:
        from joblib import Parallel, delayed

        Parallel(n_jobs=workers, backend="loky", batch_size=1)(delayed(_ready)(os.getpid()) for _ in range(workers))


def _ready(parent: int) -> None:
    die_with(parent)
    import lightning_fabric  # noqa: F401


def _parallel(jobs: Sequence[Job], workers: int) -> Iterator[Outcome]:
    """Work on the jobs in processes until all are done or one of the processes is killed."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    pool = Parallel(n_jobs=workers, backend="loky", return_as="generator_unordered", batch_size=1)
    try:
        given = (os.getpid(), os.getcwd(), added())
        yield from pool(delayed(_work)(job, *given) for job in jobs)
    except TerminatedWorkerError:
        warnings.warn("a worker was killed; its run goes on from its checkpoint", stacklevel=2)


def _work(job: Job, parent: int, folder: str, entries: Entries) -> Outcome:
    die_with(parent)
    take_over(entries)
    os.chdir(folder)  # paths are relative to where the parent is now, not to where it was when it started the worker
    return work(job)
