"""One process or many: where a run goes, how the processes end politely, and what they measure together."""

from __future__ import annotations

import atexit
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from multipartite.errors import InputError
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Metrics

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Meter", "PeakMemory", "diverged", "on_first", "start", "stop_requests", "stopping", "summed"]

T = TypeVar("T")
_AGREE = 20  # with several processes, how many steps until they ask each other whether to go on


def start(config: RunConfig) -> Fabric:
    """Settle where a run goes: torchrun's word counts, else the configuration's."""
    from lightning_fabric import Fabric  # slow to import
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    devices, nodes = config.devices, config.num_nodes
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():  # torchrun has the say
        devices, nodes = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["GROUP_WORLD_SIZE"])
    several = devices * nodes > 1
    if several:
        atexit.register(_leave_group)
    try:
        return Fabric(
            accelerator=config.accelerator,
            strategy="ddp" if several else "auto",
            devices=devices,
            num_nodes=nodes,
            precision=config.precision,  # type: ignore[arg-type]
        )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"accelerator, devices or precision do not work here: {reason}") from error


def _leave_group() -> None:
    """Leave the group of processes: a thread of it that still runs when its process ends would end it with an error."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def on_first(fabric: Fabric, act: Callable[[], T]) -> T:
    """Do something in the first process and give its outcome to all, errors too."""
    outcome: Any = None
    if fabric.is_global_zero:
        try:
            outcome = act()
        except (InputError, OSError) as error:
            outcome = error
    outcome = fabric.broadcast(outcome)
    if isinstance(outcome, Exception):
        raise outcome
    given: T = outcome
    return given


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether SIGINT or SIGTERM has come; a second one interrupts at once.

    Outside the main thread, where Python sets no handlers, nothing is ever noted.

    Examples
    --------
    >>> with stop_requests() as asked:
    ...     before = asked()
    ...     signal.raise_signal(signal.SIGTERM)
    ...     before, asked()
    (False, True)
    """
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted.is_set
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.getsignal(kind) for kind in kinds}

    def note(number: int, frame: FrameType | None) -> None:
        noted.set()
        for kind in kinds:
            signal.signal(kind, before[kind])

    for kind in kinds:
        signal.signal(kind, note)
    try:
        yield noted.is_set
    finally:
        for kind in kinds:
            signal.signal(kind, before[kind])


def stopping(fabric: Fabric, asked: Callable[[], bool], step: int) -> bool:
    """Whether to stop; several processes must agree on the step, and ask each other only now and then."""
    if fabric.world_size == 1:
        return asked()
    if step % _AGREE:
        return False
    votes: Any = fabric.all_reduce(torch.tensor(float(asked()), device=fabric.device), reduce_op="sum")
    return bool(votes > 0)


class Meter:
    """Sums of objective and errors, kept on the device so that no batch waits for them.

    Examples
    --------
    >>> meter = Meter(torch.device("cpu"))
    >>> logits, labels = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]]), torch.tensor([0, 1])
    >>> meter.update(logits, labels, torch.tensor(0.25))
    >>> meter.result()
    Metrics(objective=0.25, top1=50.0, top5=0.0)
    """

    def __init__(self, device: torch.device) -> None:
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(4, dtype=wide, device=device)  # objective, misses at 1, misses at 5, images

    @torch.no_grad()
    def update(self, logits: Tensor, labels: Tensor, objective: Tensor) -> None:
        """Add a batch: logits (N, classes), labels (N,), and the mean objective over it."""
        n = len(labels)
        best = logits.topk(min(5, logits.shape[1]), dim=1).indices  # (N, 5)
        hits = best == labels[:, None]
        top1, top5 = hits[:, 0].sum(), hits.sum()  # a label is met at most once
        batch = torch.stack([objective.detach().to(self.sums.dtype) * n, n - top1, n - top5])
        self.sums[:3] += batch
        self.sums[3] += n

    def result(self) -> Metrics:
        """Means over everything added."""
        objective, top1, top5, n = self.sums.tolist()
        return Metrics(objective / n, 100.0 * top1 / n, 100.0 * top5 / n)


def diverged(fabric: Fabric, meter: Meter, step: int) -> bool:
    """Whether training is lost in any process; asked only now and then where the answer must be waited for."""
    if step % _AGREE and (fabric.world_size > 1 or fabric.device.type != "cpu"):
        return False
    return not bool(summed(fabric, meter).sums.isfinite().all())


def summed(fabric: Fabric, meter: Meter) -> Meter:
    """Sum a meter over all processes."""
    total = Meter(fabric.device)
    sums: Any = fabric.all_reduce(meter.sums.clone(), reduce_op="sum")
    total.sums = sums
    return total


class PeakMemory:
    """Peak memory in bytes since it was made: of the device for CUDA, else of the process.

    Examples
    --------
    >>> PeakMemory(torch.device("cpu")).read() > 10_000_000
    True
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with suppress(OSError):  # Linux: set the high-water mark of the process back
                Path("/proc/self/clear_refs").write_text("5")

    def read(self) -> int:
        """Read the peak so far."""
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        with suppress(OSError, StopIteration):
            lines = Path("/proc/self/status").read_text().splitlines()
            return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if platform.system() == "Darwin" else 1024 * peak
