"""The command line: one command a file, heavy imports inside the commands.

What commands say beside their results is one sentence each, on standard error, from the first process alone.
"""

from __future__ import annotations

import importlib
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

try:
    import typer
except ModuleNotFoundError as missing:  # the core installs without the command line
    sys.exit(f"multipartite: the command line needs {missing.name}: pip install 'multipartite[experiments]'")

from multipartite import __version__
from multipartite.errors import InputError, MultipartiteWarning, sentence

__all__ = ["COMMANDS", "app", "fail", "first_process", "main", "plain_warnings", "register", "say", "stoppable"]

COMMANDS = ["data", "train", "compare", "report", "summary", "tune", "rank", "explain", "bench"]

app = typer.Typer(
    name="multipartite",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"multipartite {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Supervised pooling and ranking: compare pooling methods, rank features, look inside."""


def first_process() -> bool:
    """Whether this is the first of the processes that train together; the others stay silent."""
    fabric = sys.modules.get("lightning_fabric.utilities.rank_zero")
    return int(getattr(getattr(fabric, "rank_zero_only", None), "rank", 0) or 0) == 0


def say(sentence: str) -> None:
    """Print a sentence to standard error."""
    if first_process():
        print(f"multipartite: {sentence}", file=sys.stderr)


def fail(message: str) -> NoReturn:
    """Say one sentence on standard error and exit with status 2."""
    say(message)
    raise SystemExit(2)


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
def stoppable(advice: str | Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end a command with a sentence that says what to do next, status 130 or 143.

    A function is asked when it happens.
    """
    came = [signal.SIGINT]

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(signal.SIGTERM)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt as stopped:
        say(f"{str(stopped) or 'stopped'}; {advice if isinstance(advice, str) else advice()}")
        raise SystemExit(128 + came[-1]) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def register(app: typer.Typer) -> None:
    """Attach every command to `app`: the module of its name offers ``register(app)``."""
    for name in COMMANDS:
        importlib.import_module(f"multipartite.cli.{name}").register(app)


def main() -> None:
    """Run the command line; bad input is one sentence and exit status 2, never a traceback."""
    register(app)
    try:
        app()
    except InputError as error:
        fail(str(error))
    except OSError as error:
        fail(sentence(error))
    except ModuleNotFoundError as missing:
        fail(f"this command needs {missing.name}: pip install 'multipartite[experiments]'")
