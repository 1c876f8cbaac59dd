"""``multipartite train``: one network, one data set, one pooling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipartite.cli import first_process, options, plain_warnings, stoppable
from multipartite.errors import InputError, counted
from multipartite.words import Places

if TYPE_CHECKING:
    from multipartite.experiments.run.store import Summary

__all__ = ["register", "train"]

Option = typer.Option


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite train digits --pooling average --epochs 2 --out runs/first")(train)


def train(
    dataset: options.DataSet = "",
    pooling: Annotated[str, Option(help="NAME[:option=value,...], in every pooling place.")] = "max",
    network: options.Network = "auto",
    epochs: options.Epochs = 20,
    lr: options.LearningRate = None,
    momentum: options.Momentum = None,
    weight_decay: options.WeightDecay = None,
    schedule: options.Schedule = None,
    seed: Annotated[int, Option(help="Of weights, batch order, validation split and what a pooling draws.")] = 0,
    limit: options.Limit = None,
    batch_size: options.BatchSize = 100,
    validation: options.Validation = 0.1,
    augment: options.Augment = False,
    label_smoothing: options.LabelSmoothing = 0.0,
    mixup: options.Mixup = 0.0,
    out: Annotated[Path | None, Option(help="The run's folder; else runs/DATASET-POOLING-SEED.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with the run in --out; DATASET may be left out.")] = False,
    data_dir: options.DataDir = None,
    download: options.Download = True,
    skip_unreadable: options.SkipUnreadable = False,
    threads: Annotated[int | None, Option(help="CPU threads; 1 makes runs equal bit for bit.")] = None,
    accelerator: options.Accelerator = "auto",
    devices: Annotated[int, Option(help="Processes on this machine, one a device.")] = 1,
    num_nodes: Annotated[int, Option(help="Machines; start the command under torchrun on each.")] = 1,
    precision: Annotated[str, Option(help="32-true, bf16-mixed, 16-mixed, bf16-true or 64-true.")] = "32-true",
    channels_last: Annotated[bool, Option(help="Memory layout of the activations.")] = True,
    tensorboard: Annotated[bool, Option("--tensorboard", help="Write TensorBoard events into the folder.")] = False,
) -> None:
    """Train one network on one data set with one pooling, into a folder that tells all about it."""
    choices: dict[str, Any] = dict(locals())
    from multipartite.experiments.run.config import RunConfig
    from multipartite.experiments.run.store import is_run, read_run

    for name in ("out", "resume", "tensorboard"):
        del choices[name]
    if dataset:
        config = RunConfig(**choices)
        folder = out or Path("runs") / _name(config.dataset, config.pooling, config.seed)
    elif resume and out is not None:
        config, folder = read_run(out).config, out
    else:
        raise InputError("name a data set, such as digits; or give --out of a run with --resume")
    from multipartite.experiments.run.training import train_run  # torch, now that every name is right
    from multipartite.experiments.run.watching import Several, TensorBoard, Terminal, Watcher

    watchers: list[Watcher] = [Terminal()]
    if tensorboard:
        watchers.append(TensorBoard(folder / "tensorboard"))

    def advice() -> str:
        if not is_run(folder):
            return "nothing was written yet: start again with the same command"
        return f"go on with: multipartite train --out {folder} --resume"

    with plain_warnings(), stoppable(advice):
        summary = train_run(config, folder, watcher=Several(*watchers), resume=resume)
    if first_process():
        print(f"{_words(summary)}\n{folder}")


def _name(dataset: str, pooling: str, seed: int) -> str:
    return "-".join([Path(dataset).name.replace(":", "-"), Places.parse(pooling).slug, str(seed)])


def _words(summary: Summary) -> str:
    test = summary.test
    top5 = f"top-5 {test.top5:.2f}%, " if "top5" in test.telling(summary.classes) else ""
    return (
        f"test error {test.top1:.2f}% ({top5}objective {test.objective:.4f}), "
        f"train error {summary.train.top1:.2f}%; {counted(summary.epochs, 'epoch')} in {summary.seconds:.1f} s, "
        f"{summary.samples_per_second:,.0f} images/s, peak {summary.peak_memory / 2**20:,.0f} MiB, "
        f"{summary.parameters:,} parameters"
    )
