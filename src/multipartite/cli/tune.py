"""``multipartite tune``: the best multipartite setting for a data set, within a time budget."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from multipartite.cli.sentences import plain_warnings, stoppable

__all__ = ["register", "tune"]

Option = typer.Option


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite tune digits --epochs 3 --limit 300 --budget 1 --out tuning/first")(tune)


def tune(
    dataset: Annotated[str, typer.Argument(help="Name of a data set, or a folder with a sub-folder a class.")],
    budget: Annotated[float, Option(help="Minutes for the search.")] = 10.0,
    epochs: Annotated[int, Option(help="Epochs of a full run.")] = 20,
    network: Annotated[str, Option(help="lenet, zeiler, small or auto.")] = "auto",
    limit: Annotated[int | None, Option(help="Train on this many images only.")] = None,
    batch_size: Annotated[int, Option(help="Images a step.")] = 100,
    validation: Annotated[float, Option(help="Share of the training images that settings are judged on.")] = 0.1,
    seed: Annotated[int, Option(help="Of weights, batches, split, and the order in which settings are tried.")] = 0,
    lr: Annotated[float | None, Option(help="Learning rate at the start; else the network's.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the runs; else tuning/DATASET.")] = None,
    jobs: Annotated[int | None, Option(help="Runs at once; else as many as fill the cores.")] = None,
    data_dir: Annotated[str | None, Option(help="Where data sets are; else MULTIPARTITE_DATA.")] = None,
    download: Annotated[bool, Option(help="Whether missing files are downloaded.")] = True,
) -> None:
    """Search groups, assignment, temperature, criterion and projection by successive halving on the validation split.

    The test set is never read. The last line is the setting, ready to paste.
    """
    from multipartite.errors import InputError
    from multipartite.experiments.run.config import RunConfig

    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    base = RunConfig(
        dataset=dataset,
        network=network,
        epochs=epochs,
        limit=limit,
        batch_size=batch_size,
        validation=validation,
        seed=seed,
        lr=lr,
        threads=1,
        data_dir=data_dir,
        download=download,
    )
    from multipartite.experiments.grid.tuning import tune as search  # torch, now that every name is right
    from multipartite.experiments.grid.workers import cores

    folder = out or Path("tuning") / Path(dataset).name
    with plain_warnings(), stoppable(f"the same command goes on with {folder}"):
        tuned = search(
            base, folder, minutes=budget, workers=jobs or cores(), say=lambda line: print(line, file=sys.stderr)
        )
    best = tuned.trials[0]
    print(f"{best.error:.2f}% validation error after {best.epochs} of {epochs} epochs, best of {len(tuned.trials)}")
    print(f"--pooling {tuned.word}")
