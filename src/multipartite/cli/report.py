"""``multipartite report``: tables, curves, pictures and a verdict from the folder of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multipartite.cli import say

__all__ = ["register", "report"]


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite report comparisons/first --out report")(report)


def report(
    runs: Annotated[Path, typer.Argument(help="Folder of a comparison, or any folder with runs in it.")],
    out: Annotated[Path | None, typer.Option(help="Where the report goes; else RUNS/report.")] = None,
    pictures: Annotated[bool, typer.Option(help="Whether to draw what the trained networks look at.")] = True,
) -> None:
    """Write the report of runs: one HTML page, Markdown, CSV and PNG; print what it says."""
    from multipartite.cli.compare import tell
    from multipartite.experiments.report import write_report

    report = write_report(runs, out, pictures=pictures)
    for sentence in report.collection.damaged:
        say(f"left out: {sentence}")
    tell(report)
