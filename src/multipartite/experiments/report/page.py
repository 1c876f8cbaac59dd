"""The report of a comparison: a page that needs nothing else, the same as Markdown, and the files beside them.

Names that come from data are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from multipartite.errors import InputError
from multipartite.experiments.report.collection import BASELINE, Collection, collect
from multipartite.experiments.report.estimates import FEWEST, Difference
from multipartite.experiments.report.figures import Gallery, curve_figure, error_figure, gallery
from multipartite.experiments.report.tables import METRICS, Curve, Row, curves, sheets, tabulate
from multipartite.experiments.report.verdict import headline, verdict
from multipartite.experiments.run.store import write_atomically

__all__ = ["Content", "Report", "probability", "render", "write_files", "write_report"]


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
    rows = tabulate(collection.summaries, dataset, collection.origins)
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


@dataclass(frozen=True)
class Content:
    """Everything that a report says."""

    collection: Collection
    rows: Sequence[Row]
    curves: Sequence[Curve]
    headline: str
    verdict: Sequence[str]
    gallery: Gallery

    @property
    def settings(self) -> dict[str, str]:
        """How the runs were made, for the small print."""
        config = self.collection.config
        run = next(iter(next(iter(self.collection.runs.values())).values()))
        summary = run.summary
        assert summary is not None  # a collection holds finished runs only
        shown = {
            "data set": config.dataset,
            "network": summary.network,
            "training images": f"{summary.train_images:,}",
            "validation": f"{config.validation:.0%} of the training set",
            "epochs": str(config.epochs),
            "batch size": str(config.batch_size),
            "seeds": ", ".join(map(str, self.collection.seeds)),
            "device": f"{summary.device}, {summary.threads} thread{'s' * (summary.threads > 1)} a run",
            "revision": run.revision or "unknown",
        }
        given = {n: getattr(config, n) for n in ("lr", "momentum", "weight_decay", "schedule")}
        shown |= {name.replace("_", " "): str(value) for name, value in given.items() if value is not None}
        return shown | run.versions

    @property
    def notes(self) -> list[str]:
        """How to read the tables."""
        notes = [
            "Errors are in percent, mean ± standard deviation over seeds; the gap is test minus training error.",
            "Training error is measured at the end, with the network as it is tested. Runs of one seed start from "
            "the same weights and see the same batches.",
        ]
        if any(row.corrected for row in self.rows):
            notes.append(
                f"Minus {BASELINE}: mean difference in test error over paired seeds with its 95% t interval, and the "
                "interval after Holm's correction for the number of poolings; bold where that one excludes zero."
            )
        return notes

    @property
    def warnings(self) -> list[str]:
        """What is missing, and what must not be concluded."""
        counts = {row.test.n for row in self.rows}
        found = []
        if max(counts) == 1:
            found.append("One seed only: there are no standard deviations and no intervals.")
        elif any(row.versus and row.versus.doubt for row in self.rows):
            found.append(
                f"Nothing is claimed from fewer than {FEWEST} seeds, nor where every seed has the same difference."
            )
        if len(counts) > 1:
            found.append("The poolings do not all have the same number of seeds.")
        if not any(row.pooling == BASELINE for row in self.rows):
            found.append(f"There is no {BASELINE} pooling here, so there are no differences to it.")
        if left := self.collection.unfinished:
            found.append(f"Unfinished and left out: {', '.join(left)}.")
        return found + [f"Left out: {sentence}." for sentence in self.collection.damaged]

    @property
    def top5(self) -> bool:
        """Whether the top-5 error tells anything."""
        return any(curve.metric == "top5" for curve in self.curves)

    def chart_data(self) -> dict[str, Any]:
        """Give what the page's script draws."""
        by_metric = {
            metric: {
                "label": label,
                "series": [
                    {"train": _short(c.train), "validation": _short(c.validation), "test": c.test}
                    for c in self.curves
                    if c.metric == metric
                ],
            }
            for metric, label in METRICS.items()
            if metric in {curve.metric for curve in self.curves}
        }
        rows = [
            {
                "pooling": row.pooling,
                "name": row.name,
                "options": row.options,
                "train": {"mean": row.train.mean, "values": row.train.values},
                "test": {"mean": row.test.mean, "values": row.test.values},
                "paper": row.paper,
                "versus": _drawn(row.versus),
                "corrected": _drawn(row.corrected),
            }
            for row in self.rows
        ]
        return {"rows": rows, "curves": by_metric, "baseline": BASELINE}


def _drawn(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n, "p": found.p}


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def _environment(*, autoescape: bool) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("multipartite.experiments.report"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["megabytes"] = lambda count: f"{count / 2**20:,.0f}"
    environment.filters["probability"] = probability
    environment.filters["cell"] = _cell
    environment.filters["breaks"] = _breaks
    return environment


def probability(p: float) -> str:
    """Write a probability as what `p` is.

    Examples
    --------
    >>> probability(0.0312), probability(1e-9)
    ('= 0.031', '< 0.001')
    """
    return f"= {p:.2g}" if p >= 0.001 else "< 0.001"


def _cell(text: object) -> str:
    """Make a name safe inside a Markdown table."""
    return escape(str(text), quote=False).replace("|", "\\|").replace("`", "\\`").replace("\n", " ")


def _breaks(text: object) -> Any:
    """Escape a text and let its long words break after a colon or comma."""
    from markupsafe import Markup

    return Markup(re.sub(r"([:,])(?=\S)", r"\1<wbr>", str(Markup.escape(text))))


def render(template: str, content: Any) -> str:
    """Fill a template: one page with its style, its script, its data and its pictures inside, or Markdown."""
    return _environment(autoescape=template.endswith(".html")).get_template(template).render(content=content)


def write_files(out: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, which is made where it is missing; what cannot be written is an `InputError`."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_atomically(out / name, data)
    except OSError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        raise InputError(f"cannot write into {out} ({cause.strerror}): choose another --out") from error
