"""From a configuration to its data and its network, and from a run's folder to the trained one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from torch import nn

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset, load
from multipartite.experiments.run import checkpoint, networks
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Run, read_run

__all__ = ["assemble", "load_trained", "prepare"]


def prepare(config: RunConfig) -> Dataset:
    """Load the data of a run: limited, and with its validation part split off.

    Examples
    --------
    >>> prepare(RunConfig("digits", limit=300, validation=0.2))
    Dataset digits: 10 classes, images 1x8x8, 240 train, 60 validation, 360 test
    """
    data = load(config.dataset, config.data_dir, download=config.download, skip_unreadable=config.skip_unreadable)
    if config.limit is not None:
        data = data.limit(config.limit)  # the same images for every seed
    if config.validation:
        data = data.with_validation(config.validation, config.seed)
    if config.batch_size > len(data.train):
        raise InputError(
            f"batch_size={config.batch_size} is more than the {len(data.train)} training images of "
            f"{data.name}: choose a smaller batch, such as {_ten_steps(config, len(data.train))}"
        )
    return data


def _ten_steps(config: RunConfig, images: int) -> int:
    """Suggest a batch with which an epoch has about ten steps, and which all devices can share."""
    devices = config.devices * config.num_nodes
    return max(images // 10 // devices, 1) * devices


def assemble(config: RunConfig, data: Dataset) -> nn.Module:
    """Build the network of a run for its data, with initial weights that depend on the seed alone.

    Examples
    --------
    >>> config = RunConfig("digits", pooling="average")
    >>> assemble(config, prepare(config)).pool1
    AvgPool2d(kernel_size=2, stride=2, padding=0)
    """
    channels, height, width = data.shape
    return networks.build(
        config.network,
        channels=channels,
        size=(height, width),
        num_classes=data.num_classes,
        pooling_word=config.pooling,
        seed=config.seed,
    )


def load_trained(path: Path | str, data_dir: str | None = None) -> tuple[Run, Dataset, nn.Module]:
    """Give a run, its data and its network with the weights of its newest checkpoint, in evaluation mode.

    The data are looked for in `data_dir` where it is given, else where the run found them.
    """
    run = read_run(path)
    found = checkpoint.load(run.path)
    if found is None:
        raise InputError(f"{run.path} has no checkpoint yet: train it first, with --resume")
    data = prepare(dataclasses.replace(run.config, data_dir=data_dir or run.config.data_dir))
    net = assemble(run.config, data)
    checkpoint.restore(found[0], net)
    return run, data, net.eval()
