"""How everything here is measured: interleaved, in one process, as ratios of medians."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

__all__ = ["Timing", "interleave", "peak_bytes"]

K = TypeVar("K", bound=Hashable)
_LARGE = 31 << 20  # bytes, just below the 32 MiB from which on it would map and unmap a block each time


@dataclass(frozen=True)
class Timing:
    """Median and quartiles of the seconds that one call takes, and of its ratio to the yardstick."""

    median: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    n: int


def interleave(
    calls: Mapping[K, Callable[[], object]],
    *,
    seconds: float = 1.0,
    least: int = 7,
    yardsticks: Collection[K] = (),
) -> dict[K, Timing]:
    """Time calls in turn, round after round; the first is the yardstick of the ratios, or the best of `yardsticks`.

    A slow moment of the machine then meets all of them alike. A ratio is taken within its round.

    Parameters
    ----------
    calls : mapping of name to callable
        What to time.
    seconds : float
        About how long to go on, all calls together.
    least : int
        How many rounds at least.
    yardsticks : collection of names, optional
        The one with the lowest median is what the others are held against.

    Examples
    --------
    >>> timings = interleave({"sum": lambda: sum(range(99)), "more": lambda: sum(range(9999))}, seconds=0.01)
    >>> timings["sum"].ratio, timings["more"].ratio > 2
    (1.0, True)
    """
    # glibc, once it has seen a block of this size go, keeps what is freed; else it is chance whose pages come anew
    torch.empty(_LARGE, dtype=torch.uint8).zero_()
    for call in calls.values():
        call()  # warm up: thread pool, lazy initialisation
    times: dict[K, list[float]] = {name: [] for name in calls}
    begin, rounds = time.perf_counter(), 0
    while rounds < least or time.perf_counter() - begin < seconds:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    taken = {name: torch.tensor(t, dtype=torch.float64) for name, t in times.items()}
    yardstick = min((taken[name] for name in yardsticks), key=torch.median, default=next(iter(taken.values())))
    return {name: _summary(t, t / yardstick) for name, t in taken.items()}


def _summary(seconds: torch.Tensor, ratios: torch.Tensor) -> Timing:
    low, median, high = seconds.quantile(torch.tensor([0.25, 0.5, 0.75]).to(seconds)).tolist()
    quartiles = ratios.quantile(torch.tensor([0.25, 0.5, 0.75]).to(ratios)).tolist()
    return Timing(median, low, high, quartiles[1], quartiles[0], quartiles[2], len(seconds))


def peak_bytes(call: Callable[[], object]) -> int:
    """Most memory that torch holds at once on the CPU, beyond the least that it holds, during one call.

    Examples
    --------
    >>> peak_bytes(lambda: torch.zeros(1000, dtype=torch.float64))
    8000
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    with _quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()  # whatever the measured call frees of an earlier one, the profiler has seen come
        with record_function("measured"):
            call()
    events = profiler.profiler.kineto_results.events()
    begin = next(e.start_ns() for e in events if e.name() == "measured")
    held, levels = 0, [0]
    for start, size in sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"):
        held += size
        levels = [*levels, held] if start >= begin else [held]
    return max(levels) - min(levels)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the profiler logs straight to the standard error of the process."""
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
