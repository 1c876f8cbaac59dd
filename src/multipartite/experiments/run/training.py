"""Training: an explicit loop over Lightning Fabric that reads top to bottom.

A `Position` is all that a checkpoint holds beside weights and momentum for a run to go on to the same bits.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset, Split
from multipartite.experiments.run import checkpoint, networks
from multipartite.experiments.run.batches import Images, batch_order, seed_step
from multipartite.experiments.run.files import write_json
from multipartite.experiments.run.interrupt import stop_requests
from multipartite.experiments.run.machine import PeakMemory
from multipartite.experiments.run.metrics import Meter, Metrics
from multipartite.experiments.run.processes import diverged, on_first, stopping, summed
from multipartite.experiments.run.progress import Watcher
from multipartite.experiments.run.runs import Epoch, Interrupted, RunConfig, Summary, write_metrics
from multipartite.experiments.run.schedules import SCHEDULES
from multipartite.pooling.labels import supervise

__all__ = ["Position", "evaluate", "train"]

_EVALUATION_BATCH = 500


@dataclass
class Position:
    """Where a run stands: the next step is `step` of `epoch`; `sums` and `seconds` are those of its epoch."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    history: list[Epoch] = field(default_factory=list)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Position:
        """Read what ``dataclasses.asdict`` gave."""
        return cls(**{**values, "history": [Epoch.from_json(epoch) for epoch in values["history"]]})


def train(config: RunConfig, data: Dataset, net: nn.Module, out: Path, fabric: Fabric, watcher: Watcher) -> Summary:
    """Train from the newest checkpoint in `out`, or from the start, to the end; write everything there."""
    channels, *size = data.shape
    network, width = networks.parse(config.network, channels, (size[0], size[1]))
    recipe = config.recipe(channels, (size[0], size[1]))
    layout = torch.channels_last if config.channels_last else torch.contiguous_format
    peak = PeakMemory(fabric.device)

    # Network and optimiser.
    initial = checkpoint.digest(_weights(net))
    net.to(memory_format=layout)  # type: ignore[call-overload]
    sgd = torch.optim.SGD(net.parameters(), recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
    model, optimizer = fabric.setup(net, sgd)

    # Data, whole and on the device.
    def part(split: Split) -> Images:
        dtype = next(net.parameters()).dtype
        return Images(split, data.normalise, device=fabric.device, dtype=dtype, memory_format=layout)

    images = part(data.train)
    validation = part(data.validation) if len(data.validation) else None
    steps = len(images) // config.batch_size

    # Where we stand.
    position = Position()
    found = on_first(fabric, lambda: checkpoint.load(out))
    if found is not None:
        _restore(net, sgd, found[0])
        position = Position.from_json(found[1])

    def save() -> None:
        if fabric.is_global_zero:
            checkpoint.save(out, _state(net, sgd), dataclasses.asdict(position))

    watcher.start(config, config.epochs * steps, position.epoch * steps + position.step)
    with stop_requests() as asked:
        for epoch in range(position.epoch, config.epochs):
            order = batch_order(config.seed, epoch, len(images))
            meter = Meter(fabric.device)
            if fabric.is_global_zero:
                meter.sums += torch.tensor(position.sums, dtype=meter.sums.dtype, device=fabric.device)
            began = time.perf_counter() - position.seconds
            net.train()

            for step in range(position.step, steps):
                now = epoch * steps + step
                lr = recipe.lr * SCHEDULES[recipe.schedule](now / (config.epochs * steps))
                sgd.param_groups[0]["lr"] = lr
                seed_step(config.seed, now, fabric.global_rank, fabric.device)

                rows = order[step * config.batch_size : (step + 1) * config.batch_size]
                x, labels = images.batch(rows[fabric.global_rank :: fabric.world_size])
                with supervise(labels):
                    logits = model(x)
                    objective = F.cross_entropy(logits, labels)
                optimizer.zero_grad(set_to_none=True)
                fabric.backward(objective)
                optimizer.step()

                meter.update(logits, labels, objective)
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
    orders = {str(epoch): batch_order(config.seed, epoch, len(images)) for epoch in range(config.epochs)}
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
        network=f"{network}:width={width}",
        initial=initial,
        order=checkpoint.digest(orders),
        final=checkpoint.digest(_state(net, sgd)),
    )
    if fabric.is_global_zero:
        write_metrics(out, position.history)
        write_json(out / "summary.json", summary.to_json())
    return summary


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


def _weights(net: nn.Module) -> dict[str, Tensor]:
    return dict(net.named_parameters())


def _state(net: nn.Module, sgd: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything that the next step depends on: parameters, buffers, momentum."""
    tensors = {f"model.{name}": tensor for name, tensor in net.state_dict().items()}
    for name, parameter in net.named_parameters():
        for kind, value in sgd.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{kind}.{name}"] = value
    return tensors


def _restore(net: nn.Module, sgd: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Undo `_state`."""
    net.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    parameters = dict(net.named_parameters())
    for key, tensor in tensors.items():
        place, _, rest = key.partition(".")
        if place == "optimizer":
            kind, _, name = rest.partition(".")
            with torch.no_grad():  # the layout of the parameter, so that the same kernels run as before
                sgd.state[parameters[name]][kind] = torch.empty_like(parameters[name]).copy_(tensor)
