"""A polite end: Ctrl-C and SIGTERM are noted, and the loop stops where it can write a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stop_requests"]


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
