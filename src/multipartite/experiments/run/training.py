"""Training: from a configuration to its data, its network and a finished run, by a loop that reads top to bottom.

>>> import pathlib, tempfile
>>> from multipartite.experiments.run.store import read_run
>>> out = pathlib.Path(tempfile.mkdtemp()) / "first"
>>> config = RunConfig("digits", pooling="max", epochs=2, seed=0, limit=300, threads=1)
>>> summary = train_run(config, out)  # trains, or goes on, or returns at once what is finished
>>> run = read_run(out)
>>> run.config.key == config.key, len(run.metrics), run.summary == summary
(True, 2, True)
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data.catalogue import load
from multipartite.experiments.data.dataset import Dataset, Split
from multipartite.experiments.run import checkpoint, networks
from multipartite.experiments.run.batches import Images, TrainingBatches, seed_step
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.processes import (
    Meter,
    PeakMemory,
    diverged,
    on_first,
    start,
    stop_requests,
    stopping,
    summed,
)
from multipartite.experiments.run.store import (
    Epoch,
    Metrics,
    Run,
    Summary,
    find_run,
    leftovers,
    locked,
    read_run,
    write_head,
    write_metrics,
    write_summary,
)
from multipartite.experiments.run.watching import Watcher
from multipartite.labels import supervise
from multipartite.pooling.learning import SupervisedLayer

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Interrupted", "assemble", "evaluate", "load_trained", "prepare", "train_run"]

_EVALUATION_BATCH = 500


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


class Interrupted(KeyboardInterrupt):
    """A run was stopped by the user or the system after it wrote a checkpoint."""


@dataclass
class Position:
    """Where a run stands: the next step is `step` of `epoch`; `sums` and `seconds` are those of its epoch.

    It is all that a checkpoint holds beside weights and momentum for a run to go on to the same bits.
    """

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    history: list[Epoch] = field(default_factory=list)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Position:
        """Read what ``dataclasses.asdict`` gave."""
        return cls(**{**values, "history": [Epoch.from_json(epoch) for epoch in values["history"]]})


def train_run(
    config: RunConfig,
    out: Path | str,
    *,
    watcher: Watcher | None = None,
    resume: bool = True,
    wait: bool = False,
) -> Summary:
    """Train the run that `config` describes in the folder `out`, or go on with it; see the module's example.

    A finished run is returned as it is; an unfinished one goes on where its checkpoint stands; a folder of another
    run is refused. Ctrl-C and SIGTERM write a checkpoint and raise :class:`Interrupted`.

    Parameters
    ----------
    config : RunConfig
        What to train.
    out : Path
        The run's folder, made where it is missing.
    watcher : Watcher, optional
        Told about every step and epoch.
    resume : bool
        Whether `out` may already hold this run.
    wait : bool
        Whether to wait for another process that trains in `out`; else it is an error.
    """
    out = Path(out)
    fabric = start(config)
    fabric.launch()
    threads = torch.get_num_threads()
    watcher = watcher if watcher is not None and fabric.is_global_zero else Watcher()
    try:
        torch.set_num_threads(config.threads or threads)
        run = on_first(fabric, lambda: find_run(config, out, resume))
        if run is not None and run.summary is not None:
            return run.summary
        with fabric.rank_zero_first():  # which may download
            data = prepare(config)
        net = assemble(config, data)
        with ExitStack() as stack:  # now that nothing in the configuration can be wrong
            on_first(fabric, lambda: stack.enter_context(locked(out, wait=wait)))
            run = on_first(fabric, lambda: _open(config, out, resume))
            if run is not None and run.summary is not None:  # by whoever was waited for
                return run.summary
            with torch.random.fork_rng(devices=[]):  # the loop seeds torch, which is the caller's own
                summary = _train(config, data, net, out, fabric, watcher)
        watcher.finish(summary)
        return summary
    finally:
        watcher.close()
        torch.set_num_threads(threads)


def _open(config: RunConfig, out: Path, resume: bool) -> Run | None:
    """Find the run or begin it, and sweep away what a killed process left half written."""
    for part in leftovers(out):
        part.unlink()
    run = find_run(config, out, resume)
    if run is None:
        write_head(config, out)
    return run


def _train(config: RunConfig, data: Dataset, net: nn.Module, out: Path, fabric: Fabric, watcher: Watcher) -> Summary:
    """Train from the newest checkpoint in `out`, or from the start, to the end; write everything there."""
    channels, *size = data.shape
    recipe = config.recipe(channels, (size[0], size[1]))
    layout = torch.channels_last if config.channels_last else torch.contiguous_format
    peak = PeakMemory(fabric.device)

    # Network and optimiser.
    initial = checkpoint.digest(networks.common_parameters(net))
    net.to(memory_format=layout)  # type: ignore[call-overload]
    sgd = torch.optim.SGD(net.parameters(), recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
    model, optimizer = fabric.setup(net, sgd)

    # Data, whole and on the device.
    def part(split: Split) -> Images:
        dtype = next(net.parameters()).dtype
        return Images(split, data.normalise, device=fabric.device, dtype=dtype, memory_format=layout)

    images = part(data.train)
    validation = part(data.validation) if len(data.validation) else None
    batches = TrainingBatches(
        images,
        seed=config.seed,
        batch_size=config.batch_size,
        num_classes=data.num_classes,
        augment=config.augment,
        flips=data.flips,
        label_smoothing=config.label_smoothing,
        mixup=config.mixup,
        rank=fabric.global_rank,
        processes=fabric.world_size,
    )
    steps = batches.steps

    # Where we stand.
    position = Position()
    found = on_first(fabric, lambda: checkpoint.load(out))
    if found is not None:
        checkpoint.restore(found[0], net, sgd)
        position = Position.from_json(found[1])

    def save() -> None:
        for layer in net.modules():
            if isinstance(layer, SupervisedLayer):
                layer.join()  # one process writes for all
        if fabric.is_global_zero:
            checkpoint.save(out, checkpoint.state(net, sgd), dataclasses.asdict(position))

    watcher.data(data)
    watcher.start(config, config.epochs * steps, position.epoch * steps + position.step)
    with stop_requests() as asked:
        for epoch in range(position.epoch, config.epochs):
            meter = Meter(fabric.device)
            if fabric.is_global_zero:
                meter.sums += torch.tensor(position.sums, dtype=meter.sums.dtype, device=fabric.device)
            began = time.perf_counter() - position.seconds
            net.train()

            for step in range(position.step, steps):
                now = epoch * steps + step
                lr = recipe.lr * networks.SCHEDULES[recipe.schedule](now / (config.epochs * steps))
                sgd.param_groups[0]["lr"] = lr
                seed_step(config.seed, now, fabric.global_rank, fabric.device)

                batch = batches.at(epoch, step)
                with supervise(batch.targets):
                    logits = model(batch.images)
                    objective = _loss(logits, batch.targets)
                optimizer.zero_grad(set_to_none=True)
                fabric.backward(objective)
                optimizer.step()

                meter.update(logits, batch.labels, objective)
                if diverged(fabric, meter, step):
                    break  # the end of the epoch says so
                watcher.step(epoch + 1, meter)
                if stopping(fabric, asked, step) and step + 1 < steps:
                    sums, seconds = summed(fabric, meter).sums.tolist(), time.perf_counter() - began
                    position = dataclasses.replace(position, step=step + 1, sums=sums, seconds=seconds)
                    save()
                    raise Interrupted(f"stopped in epoch {epoch + 1}, after batch {step + 1} of {steps}")

            metrics = summed(fabric, meter).result()
            seconds = time.perf_counter() - began
            after = evaluate(fabric, net, validation) if validation else None
            objectives = [part.objective for part in (metrics, after) if part is not None]
            if not all(map(math.isfinite, objectives)):
                raise InputError(
                    f"training diverged in epoch {epoch + 1} (objective {objectives[-1]}): choose lr below {recipe.lr}"
                )
            speed = steps * config.batch_size / seconds
            record = Epoch(epoch + 1, lr, metrics, after, speed, seconds)
            position = Position(epoch=epoch + 1, history=[*position.history, record])
            save()
            if fabric.is_global_zero:
                write_metrics(out, position.history)
            watcher.epoch(record)
            if epoch + 1 < config.epochs and stopping(fabric, asked, 0):
                raise Interrupted(f"stopped after epoch {epoch + 1} of {config.epochs}")

    # The end: the test set is read here, once.
    orders = {str(epoch): batches.order(epoch) for epoch in range(config.epochs)}
    summary = Summary(
        key=config.key,
        train=evaluate(fabric, net, images),
        validation=evaluate(fabric, net, validation) if validation else None,
        test=evaluate(fabric, net, part(data.test)),
        epochs=config.epochs,
        parameters=sum(p.numel() for p in net.parameters()),
        train_images=len(images),
        samples_per_second=statistics.median(e.samples_per_second for e in position.history),
        seconds=sum(e.seconds for e in position.history),
        peak_memory=peak.read(),
        device=str(fabric.device),
        threads=torch.get_num_threads(),
        network=str(networks.resolve(config.network, channels, (size[0], size[1]))),
        initial=initial,
        order=checkpoint.digest(orders),
        final=checkpoint.digest(checkpoint.state(net, sgd)),
        classes=data.num_classes,
    )
    if fabric.is_global_zero:
        write_metrics(out, position.history)
        write_summary(out, summary)
    return summary


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, targets.to(logits.dtype) if targets.is_floating_point() else targets)


@torch.no_grad()
def evaluate(fabric: Fabric, net: nn.Module, images: Images) -> Metrics:
    """Objective and errors over `images` in evaluation mode, shared among the processes."""
    net.eval()
    meter = Meter(fabric.device)
    mine = torch.arange(fabric.global_rank, len(images), fabric.world_size)
    for rows in torch.split(mine, _EVALUATION_BATCH):
        x, labels = images.batch(rows)
        with fabric.autocast():
            logits = net(x).float()
        meter.update(logits, labels, F.cross_entropy(logits, labels))
    return summed(fabric, meter).result()


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
