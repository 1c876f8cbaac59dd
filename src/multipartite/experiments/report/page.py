"""Pages that need nothing else, and the same as Markdown; names from data are escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from multipartite.experiments.report.collection import BASELINE, Collection
from multipartite.experiments.report.estimates import FEWEST, Difference
from multipartite.experiments.report.gallery import Gallery
from multipartite.experiments.report.tables import METRICS, Curve, Row

__all__ = ["Content", "probability", "render"]


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
