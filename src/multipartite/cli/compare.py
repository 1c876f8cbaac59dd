"""``multipartite compare``: a fair grid of poolings and seeds, then its report."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipartite.cli.sentences import plain_warnings, say, stoppable

if TYPE_CHECKING:
    from multipartite.experiments.report import Report

__all__ = ["compare", "register", "tell"]

Option = typer.Option


def register(app: typer.Typer) -> None:
    """Attach the command."""
    example = "multipartite compare digits --poolings max,average --seeds 2 --epochs 2 --out comparisons/first"
    app.command(epilog=f"Example: {example}")(compare)


def compare(
    dataset: Annotated[
        str, typer.Argument(help="Name of a data set, or a folder with a sub-folder a class.")
    ] = "digits",
    poolings: Annotated[
        str, Option(help="Words NAME[:option=value,...] with commas between them.")
    ] = "max,average,stochastic,multipartite,multipartite:assignment=stochastic",
    seeds: Annotated[int, Option(help="How many seeds: 0, 1, ...; each with every pooling.")] = 5,
    epochs: Annotated[int, Option(help="How often every image is seen.")] = 20,
    network: Annotated[str, Option(help="lenet, zeiler, small or auto; zeiler:width=32 for others.")] = "auto",
    limit: Annotated[int | None, Option(help="Train on this many images only.")] = None,
    batch_size: Annotated[int, Option(help="Images a step.")] = 100,
    validation: Annotated[float, Option(help="Share of the training images kept for validation.")] = 0.1,
    augment: Annotated[bool, Option("--augment", help="Shift training images, and mirror them where it fits.")] = False,
    label_smoothing: Annotated[float, Option(help="Share of each label spread over all classes.")] = 0.0,
    mixup: Annotated[float, Option(help="Mix images in pairs, by a share from Beta(X, X); 0.2 is usual.")] = 0.0,
    lr: Annotated[float | None, Option(help="Learning rate at the start; else the network's.")] = None,
    momentum: Annotated[float | None, Option(help="Else the network's.")] = None,
    weight_decay: Annotated[float | None, Option(help="Else the network's.")] = None,
    schedule: Annotated[str | None, Option(help="linear, cosine or constant; else the network's.")] = None,
    out: Annotated[
        Path | None, Option(help="Folder of the comparison; else comparisons/DATASET. Go on by naming it again.")
    ] = None,
    jobs: Annotated[int | None, Option(help="Runs at once; else as many as fill the cores.")] = None,
    threads: Annotated[int, Option(help="CPU threads a run; the numbers depend on it, not on --jobs.")] = 1,
    cluster: Annotated[str | None, Option(help="Address of a Dask scheduler to run on, tcp://HOST:PORT.")] = None,
    data_dir: Annotated[str | None, Option(help="Where data sets are; else MULTIPARTITE_DATA.")] = None,
    download: Annotated[bool, Option(help="Whether missing files are downloaded.")] = True,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help="Leave out images that cannot be read.")] = False,
    accelerator: Annotated[str, Option(help="cpu, cuda, mps or auto.")] = "auto",
) -> None:
    """Compare pooling methods: every pooling with every seed from the same start, and a report at the end.

    What is finished is kept, so the same command takes up what was stopped or killed, to the same numbers.
    """
    choices: dict[str, Any] = dict(locals())
    for name in ("dataset", "out", "jobs", "cluster"):
        del choices[name]
    out = out or Path("comparisons") / Path(dataset).name
    with contextlib.ExitStack() as stack:
        stack.enter_context(plain_warnings())
        stack.enter_context(stoppable(f"the same command goes on with {out}"))
        client = stack.enter_context(_connected(cluster)) if cluster else None
        from multipartite.experiments.compare import compare as train_and_report
        from multipartite.experiments.compare import explain_failures

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
