"""A report is a folder of files that are written together: HTML, Markdown, CSV and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from multipartite.errors import InputError
from multipartite.experiments.report.collection import Collection, collect
from multipartite.experiments.report.figures import curve_figure, error_figure
from multipartite.experiments.report.gallery import Gallery, gallery
from multipartite.experiments.report.page import Content, render
from multipartite.experiments.report.tables import Row, curves, sheets, tabulate
from multipartite.experiments.report.verdict import headline, verdict
from multipartite.experiments.run.store import write_atomically

__all__ = ["Report", "write_files", "write_report"]


@dataclass(frozen=True)
class Report:
    """What was written, and the gist of it."""

    page: Path
    verdict: tuple[str, ...]
    rows: Sequence[Row]
    collection: Collection


def write_report(folder: Path | str, out: Path | str | None = None, *, pictures: bool = True) -> Report:
    """Read the runs under `folder` and write their report.

    Parameters
    ----------
    folder : Path
        Where the runs are, at any depth.
    out : Path, optional
        Where the report goes; else ``report`` in `folder`.
    pictures : bool
        Whether to look into the networks whose checkpoints are there; it needs the data set.

    Examples
    --------
    >>> import tempfile
    >>> from multipartite.experiments.grid.jobs import Job, work
    >>> from multipartite.experiments.run.config import RunConfig
    >>> folder = Path(tempfile.mkdtemp())
    >>> outcome = work(Job(RunConfig("digits", epochs=1, limit=200, threads=1), folder / "max" / "seed-0"))
    >>> report = write_report(folder, pictures=False)
    >>> sorted(path.name for path in report.page.parent.iterdir())
    ['cost.csv', 'curves.csv', 'curves.png', 'errors.csv', 'errors.png', 'report.html', 'report.md', 'runs.csv']
    """
    collection = collect(folder)
    dataset = collection.config.dataset
    rows = tabulate(collection.summaries, dataset)
    poolings = [row.pooling for row in rows]
    drawn = curves(collection, poolings)
    words = verdict(rows, dataset)
    seen = gallery(collection, poolings) if pictures else Gallery(reason="pictures were not asked for")
    content = Content(collection, rows, drawn, headline(rows), words, seen)
    out = Path(out) if out is not None else Path(folder) / "report"
    files: dict[str, bytes] = {
        **{name: text.encode() for name, text in sheets(collection, rows, drawn).items()},
        "errors.png": error_figure(rows),
        "curves.png": curve_figure(drawn),
        "report.md": render("report.md", content).encode(),
        "report.html": render("report.html", content).encode(),
    }
    write_files(out, files)
    return Report(out / "report.html", tuple(words), rows, collection)


def write_files(out: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, which is made where it is missing; what cannot be written is an `InputError`."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_atomically(out / name, data)
    except OSError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        raise InputError(f"cannot write into {out} ({cause.strerror}): choose another --out") from error
