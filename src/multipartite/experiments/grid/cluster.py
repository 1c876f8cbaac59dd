"""Many jobs on many machines: the same work as in `jobs`, handed to a Dask scheduler.

The folder of the comparison must be on a file system that all workers share: a run whose worker dies goes on from
its checkpoint with another worker.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from multipartite.errors import InputError
from multipartite.experiments.grid.jobs import Job, Outcome, work
from multipartite.registry import Entries, added, take_over

__all__ = ["connect", "run_jobs_on"]

_PATIENCE = 3.0  # seconds until a scheduler counts as silent


def connect(address: str) -> Any:
    """Open a client of the Dask scheduler at `address`; silence is an `InputError` within ten seconds."""
    distributed: Any = importlib.import_module("distributed")  # not typed
    for name in ("distributed", "distributed.client", "distributed.comm", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # the error says it all, in one sentence
    try:
        asyncio.run(_knock(address))
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError, asyncio.TimeoutError) as error:
        reason = str(error).splitlines()[0] if isinstance(error, ValueError) else f"no answer in {_PATIENCE:g} s"
        raise InputError(
            f"cluster {address!r} cannot be used ({reason}): start one with `dask scheduler` and "
            "`dask worker ADDRESS`, and give its tcp://HOST:PORT"
        ) from None
    try:
        client.wait_for_workers(1, timeout=2)
    except TimeoutError:
        client.close()
        raise InputError(f"cluster {address!r} has no workers: start some with `dask worker {address}`") from None
    return client


async def _knock(address: str) -> None:
    """Shake hands and part; a client of its own would wait for ever where somebody listens and says nothing."""
    comm: Any = importlib.import_module("distributed.comm")
    line = await asyncio.wait_for(comm.connect(address, timeout=_PATIENCE), _PATIENCE)
    await line.close()


def run_jobs_on(client: Any, jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Give the jobs to the cluster and each outcome as it comes; Dask starts those of a lost worker again."""
    if not jobs:
        return
    as_completed: Any = importlib.import_module("distributed").as_completed
    _shared(client, jobs[0].folder)
    entries = added()
    waiting = {client.submit(_work, job, entries, pure=False): job for job in jobs}
    for future in as_completed(waiting, loop=client.loop):
        job = waiting[future]
        if future.status == "finished":
            yield future.result()
        else:
            yield Outcome(job, failure=f"the cluster gave it up ({future.exception()})")


def _work(job: Job, entries: Entries) -> Outcome:
    take_over(entries)
    return work(job)


def _shared(client: Any, folder: Path) -> None:
    """Check that every worker sees the folder of the comparison."""
    base = folder.parents[2].resolve()
    base.mkdir(parents=True, exist_ok=True)
    token = base / f".{secrets.token_hex(8)}.part"
    token.touch()
    try:
        for worker, seen in client.run(_exists, str(token)).items():
            if not seen:
                raise InputError(
                    f"worker {worker} does not see {base}: choose an --out on a file system that all share"
                )
    finally:
        with suppress(FileNotFoundError):
            token.unlink()


def _exists(path: str) -> bool:
    return Path(path).exists()
