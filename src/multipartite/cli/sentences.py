"""What commands say beside their results: one sentence each, on standard error, from the first process alone."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from multipartite.errors import MultipartiteWarning

__all__ = ["first_process", "plain_warnings", "say", "stoppable"]


def first_process() -> bool:
    """Whether this is the first of the processes that train together; the others stay silent."""
    fabric = sys.modules.get("lightning_fabric.utilities.rank_zero")
    return int(getattr(getattr(fabric, "rank_zero_only", None), "rank", 0) or 0) == 0


def say(sentence: str) -> None:
    """Print a sentence to standard error."""
    if first_process():
        print(f"multipartite: {sentence}", file=sys.stderr)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Say our own warnings in one sentence, without the place in the source."""
    show = warnings.showwarning

    def plain(message: Warning | str, category: type[Warning], filename: str, *rest: Any, **more: Any) -> None:
        if issubclass(category, MultipartiteWarning) or "multipartite" in Path(filename).parts:
            say(str(message))
        else:
            show(message, category, filename, *rest, **more)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", module="multipartite")
        warnings.filterwarnings("always", category=MultipartiteWarning)
        warnings.showwarning = plain
        yield


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end a command with a sentence that says what to do next, status 130 or 143."""
    came = [signal.SIGINT]

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(signal.SIGTERM)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt as stopped:
        say(f"{str(stopped) or 'stopped'}; {advice}")
        raise SystemExit(128 + came[-1]) from None
    finally:
        signal.signal(signal.SIGTERM, before)
