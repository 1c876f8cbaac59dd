"""``multipartite tune``: the best setting of a pooling for a data set, within a time budget."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from multipartite.cli import options, plain_warnings, stoppable
from multipartite.errors import counted

__all__ = ["register", "tune"]

Option = typer.Option


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite tune digits --epochs 3 --limit 300 --budget 1 --out tuning/first")(tune)


def tune(
    dataset: options.DataSet,
    pooling: Annotated[str, Option(help="Whose setting: a pooling with something to choose.")] = "multipartite",
    budget: Annotated[float, Option(help="Minutes for the search.")] = 10.0,
    epochs: options.Epochs = 20,
    network: options.Network = "auto",
    lr: options.LearningRate = None,
    momentum: options.Momentum = None,
    weight_decay: options.WeightDecay = None,
    schedule: options.Schedule = None,
    limit: options.Limit = None,
    batch_size: options.BatchSize = 100,
    validation: options.Validation = 0.1,
    augment: options.Augment = False,
    label_smoothing: options.LabelSmoothing = 0.0,
    mixup: options.Mixup = 0.0,
    seed: Annotated[int, Option(help="Of weights, batches, split, and what is tried first.")] = 0,
    seeds: Annotated[int, Option(help="Judge a setting by the mean of so many, from --seed on.")] = 1,
    trials: Annotated[int | None, Option(help="Settings to try at the most.")] = None,
    halving: Annotated[bool, Option(help="Give the worse settings up early, or train all to the end.")] = True,
    out: Annotated[
        Path | None, Option(help="Folder of the runs; else tuning/DATASET. Goes on where it is there.")
    ] = None,
    threads: Annotated[int, Option(help="CPU threads a run.")] = 1,
    jobs: options.Jobs = None,
    data_dir: options.DataDir = None,
    download: options.Download = True,
    skip_unreadable: options.SkipUnreadable = False,
    accelerator: options.Accelerator = "auto",
) -> None:
    """Search the options of a pooling for the lowest validation error, by optuna, within a time budget.

    The test set is never read. The same command goes on with the search. The last line is the setting, ready to paste.
    """
    choices: dict[str, Any] = dict(locals())
    for name in ("pooling", "budget", "seeds", "trials", "halving", "out", "jobs"):
        del choices[name]
    from multipartite.errors import InputError
    from multipartite.experiments.grid.jobs import cores
    from multipartite.experiments.grid.tuning import SPACES
    from multipartite.experiments.grid.tuning import tune as search
    from multipartite.experiments.run.config import RunConfig

    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    SPACES[pooling]  # or refuse it
    folder = out or Path("tuning") / Path(dataset).name.replace(":", "-")
    if folder.is_file():
        raise InputError(f"{folder} is a file: choose another --out")
    with plain_warnings(), stoppable(f"the same command goes on with {folder}"):
        tuned = search(
            RunConfig(**choices),
            folder,
            minutes=budget,
            name=pooling,
            seeds=seeds,
            trials=trials,
            halving=halving,
            workers=jobs or cores(),
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
    best = tuned.trials[0]
    length = f"{best.epochs} of {counted(epochs, 'epoch')}"
    print(f"{best.error:.2f}% validation error after {length}, best of {len(tuned.trials)}")
    print(f"--pooling {tuned.word}")
