"""The options that several commands share, each written once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Accelerator",
    "Augment",
    "BatchSize",
    "DataDir",
    "DataSet",
    "Download",
    "Epochs",
    "Jobs",
    "Json",
    "LabelSmoothing",
    "LearningRate",
    "Limit",
    "Mixup",
    "Momentum",
    "Network",
    "Schedule",
    "SkipUnreadable",
    "Validation",
    "WeightDecay",
]

Option = typer.Option

# what is trained
DataSet = Annotated[
    str, typer.Argument(help="Name of a data set, a folder with a sub-folder a class, or package.module:name.")
]
Network = Annotated[
    str,
    Option(help="lenet, zeiler, modern, small or auto, with :width=32 for other widths; or package.module:function."),
]
Epochs = Annotated[int, Option(help="How often every image is seen.")]
Limit = Annotated[int | None, Option(help="Train on this many images only.")]
BatchSize = Annotated[int, Option(help="Images a step, over all devices together.")]
Validation = Annotated[float, Option(help="Share of the training images kept for validation.")]
Augment = Annotated[bool, Option("--augment", help="Shift training images, and mirror them where it fits.")]
LabelSmoothing = Annotated[float, Option(help="Share of each label spread over all classes.")]
Mixup = Annotated[float, Option(help="Mix images in pairs, by a share from Beta(X, X); 0.2 is usual.")]

# how it is trained
LearningRate = Annotated[float | None, Option(help="Learning rate at the start; else the network's.")]
Momentum = Annotated[float | None, Option(help="Else the network's.")]
WeightDecay = Annotated[float | None, Option(help="Else the network's.")]
Schedule = Annotated[str | None, Option(help="linear, cosine or constant; else the network's.")]

# where
DataDir = Annotated[
    str | None,
    Option("--data-dir", metavar="PATH", help="Where data sets lie, or go; else MULTIPARTITE_DATA, else a cache."),
]
Download = Annotated[bool, Option(help="Whether missing files are downloaded.")]
SkipUnreadable = Annotated[bool, Option("--skip-unreadable", help="Leave out images that cannot be read.")]
Accelerator = Annotated[str, Option(help="cpu, cuda, mps or auto.")]
Jobs = Annotated[int | None, Option(help="Runs at once; else as many as fill the cores.")]

# how it is told
Json = Annotated[bool, Option("--json", help="Print JSON.")]
