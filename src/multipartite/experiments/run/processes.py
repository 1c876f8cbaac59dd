"""One process or many, and how they end politely: what Fabric and the system are asked."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from multipartite.errors import InputError
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.meters import Meter

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["diverged", "on_first", "start", "stop_requests", "stopping", "summed"]

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
