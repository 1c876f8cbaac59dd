"""Who is told how a run goes: a line that moves on a terminal, TensorBoard, or nobody."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multipartite.experiments.data import Dataset
    from multipartite.experiments.run.config import RunConfig
    from multipartite.experiments.run.processes import Meter
    from multipartite.experiments.run.store import Epoch, Summary

__all__ = ["Several", "TensorBoard", "Terminal", "Watcher"]


class Watcher:
    """Told what happens in a run; by itself it looks away. Override what matters."""

    def data(self, dataset: Dataset) -> None:
        """Hear what is learned from, before training begins."""

    def start(self, config: RunConfig, steps: int, done: int) -> None:
        """Hear that training begins: `steps` batches in all, `done` of them by an earlier start."""

    def step(self, epoch: int, meter: Meter) -> None:
        """Hear that a batch is done; reading the meter waits for the device, so do it seldom."""

    def epoch(self, record: Epoch) -> None:
        """Hear that an epoch is done and its checkpoint written."""

    def finish(self, summary: Summary) -> None:
        """Hear that the run is finished."""

    def close(self) -> None:
        """Hear that nothing more will come, be it finished, stopped or failed."""


class Several(Watcher):
    """Passes everything on to several watchers."""

    def __init__(self, *watchers: Watcher) -> None:
        self.watchers = watchers

    def data(self, dataset: Dataset) -> None:
        """Pass it on."""
        for watcher in self.watchers:
            watcher.data(dataset)

    def start(self, config: RunConfig, steps: int, done: int) -> None:
        """Pass it on."""
        for watcher in self.watchers:
            watcher.start(config, steps, done)

    def step(self, epoch: int, meter: Meter) -> None:
        """Pass it on."""
        for watcher in self.watchers:
            watcher.step(epoch, meter)

    def epoch(self, record: Epoch) -> None:
        """Pass it on."""
        for watcher in self.watchers:
            watcher.epoch(record)

    def finish(self, summary: Summary) -> None:
        """Pass it on."""
        for watcher in self.watchers:
            watcher.finish(summary)

    def close(self) -> None:
        """Pass it on."""
        for watcher in self.watchers:
            watcher.close()


class Terminal(Watcher):
    """A bar with epoch, loss, error, images per second and time left; one line stays for every epoch.

    Where the output is no terminal the bar is not drawn, and `epoch` prints nothing.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.quiet = not console.is_terminal
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=self.quiet,
            transient=True,
        )
        self.task = self.bar.add_task("", total=1, speed="")
        self.shown = self.began = 0.0
        self.pending = self.seen = self.batch = self.epochs = 0

    def start(self, config: RunConfig, steps: int, done: int) -> None:
        """Draw the bar."""
        self.epochs, self.batch = config.epochs, config.batch_size
        self.began = self.shown = time.monotonic()
        self.bar.start()
        self.bar.update(self.task, total=steps, completed=done, description=f"{config.dataset}, {config.pooling}")

    def step(self, epoch: int, meter: Meter) -> None:
        """Move the bar ten times a second at most."""
        self.pending += 1
        now = time.monotonic()
        if self.quiet or now - self.shown < 0.1:
            return
        self.seen += self.pending
        speed = self.seen * self.batch / (now - self.began)
        so_far = meter.result()
        text = f"epoch {epoch}/{self.epochs}  loss {so_far.objective:.4f}  error {so_far.top1:.2f}%"
        self.bar.update(self.task, advance=self.pending, description=text, speed=f"{speed:,.0f} images/s")
        self.shown, self.pending = now, 0

    def epoch(self, record: Epoch) -> None:
        """Leave a line behind."""
        after = f"  validation {record.validation.top1:.2f}%" if record.validation else ""
        self.bar.console.quiet = self.quiet
        self.bar.print(
            f"epoch {record.epoch:3d}  loss {record.train.objective:.4f}  train {record.train.top1:.2f}%"
            f"{after}  {record.samples_per_second:,.0f} images/s"
        )

    def close(self) -> None:
        """Take the bar away."""
        self.bar.stop()


class TensorBoard(Watcher):
    """Writes the epochs as TensorBoard events into `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer: Any = None
        self.classes: int | None = None

    def data(self, dataset: Dataset) -> None:
        """Remember how many classes there are: few have no top-5 error."""
        self.classes = dataset.num_classes

    def start(self, config: RunConfig, steps: int, done: int) -> None:
        """Open the event file; what an earlier start wrote beyond its checkpoint is hidden."""
        from torch.utils.tensorboard import SummaryWriter

        epochs = done * config.epochs // steps
        self.writer = SummaryWriter(str(self.folder), purge_step=epochs + 1 if done else None)

    def epoch(self, record: Epoch) -> None:
        """Write the curves of the paper."""
        for split in ("train", "validation"):
            metrics = getattr(record, split)
            for name, value in metrics.telling(self.classes).items() if metrics else ():
                self.writer.add_scalar(f"{name}/{split}", value, record.epoch)
        self.writer.add_scalar("samples_per_second", record.samples_per_second, record.epoch)
        self.writer.add_scalar("lr", record.lr, record.epoch)

    def finish(self, summary: Summary) -> None:
        """Write the test errors."""
        for name, value in summary.test.telling(summary.classes).items():
            self.writer.add_scalar(f"{name}/test", value, summary.epochs)

    def close(self) -> None:
        """Flush the events."""
        if self.writer is not None:
            self.writer.close()
