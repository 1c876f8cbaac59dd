"""``multipartite summary``: mean ranks, wins and losses over several comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multipartite.cli import say

__all__ = ["register", "summary"]


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite summary comparisons/first comparisons/second --out summary")(summary)


def summary(
    folders: Annotated[list[Path], typer.Argument(help="Folders of comparisons, or folders that hold several.")],
    out: Annotated[Path, typer.Option(help="Where the summary goes.")] = Path("summary"),
    by: Annotated[str, typer.Option(help="Which error ranks the poolings: test or validation.")] = "test",
    families: Annotated[
        bool, typer.Option("--families", help="One row a name: in every comparison its best setting by validation.")
    ] = False,
    tuned: Annotated[bool, typer.Option("--tuned", help="One row a name: the setting that tune chose there.")] = False,
    poolings: Annotated[
        str | None, typer.Option(help="Rank these alone, words with commas between them; else all that are shared.")
    ] = None,
) -> None:
    """Summarise comparisons: ranks of the poolings they share, what is told apart, error against cost."""
    from multipartite.experiments.report import write_summary

    page, found = write_summary(folders, out, by, families=families, tuned=tuned, poolings=poolings)
    for warning in found.warnings:
        say(warning)
    for sentence in (f"{found.headline}.", *found.findings):
        print(sentence)
    print(f"Summary: {page}")
