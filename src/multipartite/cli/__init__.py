"""The command line: one command a file, heavy imports inside the commands."""

from __future__ import annotations

import sys
from typing import NoReturn

try:
    import typer
except ModuleNotFoundError as missing:  # the core installs without the command line
    sys.exit(f"multipartite: the command line needs {missing.name}: pip install 'multipartite[experiments]'")

from multipartite.errors import InputError

__all__ = ["app", "fail", "main"]

app = typer.Typer(
    name="multipartite",
    help="Supervised pooling and ranking: compare pooling methods, rank features, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def fail(message: str) -> NoReturn:
    """Print one sentence to standard error and exit with status 2."""
    print(f"multipartite: {message}", file=sys.stderr)
    raise SystemExit(2)


def main() -> None:
    """Run the command line; bad input is one sentence and exit status 2, never a traceback."""
    from multipartite.cli import commands

    commands.register(app)
    try:
        app()
    except InputError as error:
        fail(str(error))
    except ModuleNotFoundError as missing:
        fail(f"this command needs {missing.name}: pip install 'multipartite[experiments]'")
