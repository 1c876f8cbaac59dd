"""``multipartite compare``: a fair grid of poolings and seeds, then its report."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipartite.cli import options, plain_warnings, say, stoppable

if TYPE_CHECKING:
    from multipartite.experiments.report import Report

__all__ = ["compare", "register", "tell"]

Option = typer.Option


def register(app: typer.Typer) -> None:
    """Attach the command."""
    example = "multipartite compare digits --poolings max,average --seeds 2 --epochs 2 --out comparisons/first"
    app.command(epilog=f"Example: {example}")(compare)


def compare(
    dataset: options.DataSet = "digits",
    poolings: Annotated[
        str, Option(help="Words NAME[:option=value,...] with commas between them; all for every pooling.")
    ] = "max,average,stochastic,multipartite-printed,multipartite,multipartite:criterion=energy",
    seeds: Annotated[int, Option(help="How many seeds: 0, 1, ...; each with every pooling.")] = 5,
    epochs: options.Epochs = 20,
    network: options.Network = "auto",
    limit: options.Limit = None,
    batch_size: options.BatchSize = 100,
    validation: options.Validation = 0.1,
    augment: options.Augment = False,
    label_smoothing: options.LabelSmoothing = 0.0,
    mixup: options.Mixup = 0.0,
    lr: options.LearningRate = None,
    momentum: options.Momentum = None,
    weight_decay: options.WeightDecay = None,
    schedule: options.Schedule = None,
    out: Annotated[
        Path | None, Option(help="Folder of the comparison; else comparisons/DATASET. Go on by naming it again.")
    ] = None,
    jobs: options.Jobs = None,
    threads: Annotated[int, Option(help="CPU threads a run; the numbers depend on it, not on --jobs.")] = 1,
    cluster: Annotated[str | None, Option(help="Address of a Dask scheduler to run on, tcp://HOST:PORT.")] = None,
    data_dir: options.DataDir = None,
    download: options.Download = True,
    skip_unreadable: options.SkipUnreadable = False,
    accelerator: options.Accelerator = "auto",
) -> None:
    """Compare pooling methods: every pooling with every seed from the same start, and a report at the end.

    What is finished is kept, so the same command takes up what was stopped or killed, to the same numbers.
    """
    choices: dict[str, Any] = dict(locals())
    for name in ("dataset", "out", "jobs", "cluster"):
        del choices[name]
    from multipartite.experiments.compare import compare as train_and_report
    from multipartite.experiments.compare import default_folder, explain_failures

    out = out or default_folder(dataset)
    with contextlib.ExitStack() as stack:
        stack.enter_context(plain_warnings())
        stack.enter_context(stoppable(f"the same command goes on with {out}"))
        client = stack.enter_context(_connected(cluster)) if cluster else None
        found = train_and_report(dataset, out, workers=jobs, client=client, **choices)
        if found.failures:
            say(f"{len(found.failures)} of {len(found.outcomes)} runs failed: {explain_failures(found.failures)}")
    tell(found.report)
    if found.failures:
        raise SystemExit(2)


def _connected(address: str) -> contextlib.closing[Any]:
    """Connect before torch is imported: that a cluster is silent shall be said soon."""
    from multipartite.experiments.grid.cluster import connect

    return contextlib.closing(connect(address))


def tell(report: Report) -> None:
    """Print the gist: what it says in three lines, and where the rest is."""
    for sentence in report.verdict:
        print(sentence)
    print(f"Report: {report.page}")
