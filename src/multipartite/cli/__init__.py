"""The command line: one command a file, heavy imports inside the commands."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

try:
    import typer
except ModuleNotFoundError as missing:  # the core installs without the command line
    sys.exit(f"multipartite: the command line needs {missing.name}: pip install 'multipartite[experiments]'")

from multipartite import __version__
from multipartite.cli.sentences import say
from multipartite.errors import InputError, sentence

__all__ = ["app", "fail", "main"]

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


def fail(message: str) -> NoReturn:
    """Say one sentence on standard error and exit with status 2."""
    say(message)
    raise SystemExit(2)


def main() -> None:
    """Run the command line; bad input is one sentence and exit status 2, never a traceback."""
    from multipartite.cli import commands

    commands.register(app)
    try:
        app()
    except InputError as error:
        fail(str(error))
    except OSError as error:
        fail(sentence(error))
    except ModuleNotFoundError as missing:
        fail(f"this command needs {missing.name}: pip install 'multipartite[experiments]'")
