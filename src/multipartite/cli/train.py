"""``multipartite train``: one network, one data set, one pooling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipartite.cli.sentences import first_process, plain_warnings, stoppable
from multipartite.errors import InputError

if TYPE_CHECKING:
    from multipartite.experiments.run.store import Summary

__all__ = ["register", "train"]

Option = typer.Option


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite train digits --pooling average --epochs 2 --out runs/first")(train)


def train(
    dataset: Annotated[str, typer.Argument(help="Name of a data set, or a folder with a sub-folder a class.")] = "",
    pooling: Annotated[str, Option(help="NAME[:option=value,...], in every pooling place.")] = "max",
    network: Annotated[str, Option(help="lenet, zeiler, small or auto; zeiler:width=32 for other widths.")] = "auto",
    epochs: Annotated[int, Option(help="How often every image is seen.")] = 20,
    seed: Annotated[int, Option(help="Of weights, batch order, validation split and what a pooling draws.")] = 0,
    limit: Annotated[int | None, Option(help="Train on this many images only.")] = None,
    batch_size: Annotated[int, Option(help="Images a step, over all devices together.")] = 100,
    validation: Annotated[float, Option(help="Share of the training images kept for validation.")] = 0.1,
    augment: Annotated[bool, Option("--augment", help="Shift training images, and mirror them where it fits.")] = False,
    label_smoothing: Annotated[float, Option(help="Share of each label spread over all classes.")] = 0.0,
    mixup: Annotated[float, Option(help="Mix images in pairs, by a share from Beta(X, X); 0.2 is usual.")] = 0.0,
    lr: Annotated[float | None, Option(help="Learning rate at the start; else the network's.")] = None,
    momentum: Annotated[float | None, Option(help="Else the network's.")] = None,
    weight_decay: Annotated[float | None, Option(help="Else the network's.")] = None,
    schedule: Annotated[str | None, Option(help="linear, cosine or constant; else the network's.")] = None,
    out: Annotated[Path | None, Option(help="The run's folder; else runs/DATASET-POOLING-SEED.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with the run in --out; DATASET may be left out.")] = False,
    data_dir: Annotated[str | None, Option(help="Where data sets are; else MULTIPARTITE_DATA.")] = None,
    download: Annotated[bool, Option(help="Whether missing files are downloaded.")] = True,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help="Leave out images that cannot be read.")] = False,
    threads: Annotated[int | None, Option(help="CPU threads; 1 makes runs equal bit for bit.")] = None,
    accelerator: Annotated[str, Option(help="cpu, cuda, mps or auto.")] = "auto",
    devices: Annotated[int, Option(help="Processes on this machine, one a device.")] = 1,
    num_nodes: Annotated[int, Option(help="Machines; start the command under torchrun on each.")] = 1,
    precision: Annotated[str, Option(help="32-true, bf16-mixed, 16-mixed, bf16-true or 64-true.")] = "32-true",
    channels_last: Annotated[bool, Option(help="Memory layout of the activations.")] = True,
    tensorboard: Annotated[bool, Option("--tensorboard", help="Write TensorBoard events into the folder.")] = False,
) -> None:
    """Train one network on one data set with one pooling, into a folder that tells all about it."""
    choices: dict[str, Any] = dict(locals())
    from multipartite.experiments.run.config import RunConfig
    from multipartite.experiments.run.store import read_run

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
    with plain_warnings(), stoppable(f"go on with: multipartite train --out {folder} --resume"):
        summary = train_run(config, folder, watcher=Several(*watchers), resume=resume)
    if first_process():
        print(f"{_words(summary)}\n{folder}")


def _name(dataset: str, pooling: str, seed: int) -> str:
    words = [Path(dataset).name, pooling.translate(str.maketrans(":,", "--")), str(seed)]
    return "-".join(words)


def _words(summary: Summary) -> str:
    test = summary.test
    return (
        f"test error {test.top1:.2f}% (top-5 {test.top5:.2f}%, objective {test.objective:.4f}), "
        f"train error {summary.train.top1:.2f}%; {summary.epochs} epochs in {summary.seconds:.1f} s, "
        f"{summary.samples_per_second:,.0f} images/s, peak {summary.peak_memory / 2**20:,.0f} MiB, "
        f"{summary.parameters:,} parameters"
    )
