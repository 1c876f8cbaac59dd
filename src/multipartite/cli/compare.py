"""``multipartite compare``: a fair grid of poolings and seeds, then its report."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipartite.errors import InputError

if TYPE_CHECKING:
    from multipartite.experiments.grid.jobs import Job
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
    for name in ("poolings", "seeds", "out", "jobs", "cluster"):
        del choices[name]
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(_connected(cluster)) if cluster else None
        from multipartite.experiments.grid.comparison import Grid
        from multipartite.experiments.report import write_report
        from multipartite.experiments.run.config import RunConfig
        from multipartite.words import Places

        words = tuple(map(str, Places.split(poolings)))
        grid = Grid(RunConfig(**choices, pooling=words[0] if words else "max"), words, seeds)
        out = out or Path("comparisons") / Path(dataset).name
        out = out.resolve() if cluster else out  # the workers are elsewhere
        grid.check(out)
        try:
            failed = _train(grid.jobs(out), jobs, client)
        except KeyboardInterrupt:
            print(f"multipartite: stopped; the same command goes on with {out}", file=sys.stderr)
            raise SystemExit(130) from None
    tell(write_report(out))
    if failed:
        raise InputError(f"{len(failed)} of {len(grid.jobs(out))} runs failed, the first is {failed[0]}")


def _connected(address: str) -> contextlib.closing[Any]:
    """Connect before torch is imported: that a cluster is silent shall be said soon."""
    from multipartite.experiments.grid.cluster import connect

    return contextlib.closing(connect(address))


def _train(jobs: list[Job], wanted: int | None, client: Any) -> list[str]:
    """Run all jobs under the live overview; give the failures in words."""
    import warnings

    from multipartite.experiments.grid.cluster import run_jobs_on
    from multipartite.experiments.grid.overview import live
    from multipartite.experiments.grid.workers import run_jobs, workers_for, workers_starting
    from multipartite.experiments.run.setup import assemble, prepare

    if client is not None:
        outcomes = run_jobs_on(client, jobs)
    else:
        workers = workers_for(jobs, wanted)
        with workers_starting(workers):
            data = prepare(jobs[0].config)  # downloads once, and finds what is wrong before anything runs
            for config in {job.config.pooling: job.config for job in jobs}.values():
                assemble(config, data)
        outcomes = run_jobs(jobs, workers)
    with warnings.catch_warnings(record=True) as heard, live(jobs):  # warnings would tear the overview
        failed = [f"{outcome.job.name}: {outcome.failure}" for outcome in outcomes if outcome.failure]
    for words in dict.fromkeys(str(warning.message) for warning in heard):
        print(f"multipartite: {words}", file=sys.stderr)
    return failed


def tell(report: Report) -> None:
    """Print the gist: what it says in three lines, and where the rest is."""
    for sentence in report.verdict:
        print(sentence)
    print(f"Report: {report.page}")
