"""What the harness costs over a bare loop, and what LeNet reaches on MNIST.

    python benchmarks/training.py overhead    # ratio of times an epoch, interleaved in one process; goal below 1.05
    python benchmarks/training.py accuracy    # 8 epochs: max below 1.1% test error, multipartite below 2%

MNIST is looked for under MULTIPARTITE_DATA. Both print one line a figure and end with status 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Epoch
from multipartite.experiments.run.training import assemble, prepare, train_run
from multipartite.experiments.run.watching import Watcher

GOALS = {"max": 1.1, "multipartite": 2.0}


class BareLoop:
    """The loop that a person would write: same network, same data, no metrics, no checkpoint, no Fabric."""

    def __init__(self, config: RunConfig) -> None:
        self.data = prepare(config)
        self.net = assemble(config, self.data).to(memory_format=torch.channels_last)
        recipe = config.recipe(1, (28, 28))
        self.sgd = torch.optim.SGD(self.net.parameters(), recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
        self.batch = config.batch_size

    def epoch(self) -> None:
        """Go through the data once."""
        data = self.data
        self.net.train()
        for rows in torch.randperm(len(data.train)).split(self.batch):
            images, labels = data.normalise(data.train.images[rows]), data.train.labels[rows]
            objective = F.cross_entropy(self.net(images), labels)
            self.sgd.zero_grad()
            objective.backward()
            self.sgd.step()


class Interleaved(Watcher):
    """Times an epoch of the harness, from its first batch to its checkpoint on disk, then one of the bare loop.

    Each time is a pair: seconds by the clock, and seconds of this process on the processor, which a busy machine
    disturbs less but which leave the waiting for the disk out.
    """

    def __init__(self, bare: BareLoop) -> None:
        self.bare = bare
        self.harness_times: list[tuple[float, float]] = []
        self.bare_times: list[tuple[float, float]] = []
        self.began = (0.0, 0.0)

    def start(self, config: RunConfig, steps: int, done: int) -> None:
        """Start the clocks."""
        self.began = clocks()

    def epoch(self, record: Epoch) -> None:
        """Read the clocks, let the bare loop run an epoch, read them again."""
        now = clocks()
        self.bare.epoch()
        after = clocks()
        self.harness_times.append((now[0] - self.began[0], now[1] - self.began[1]))
        self.bare_times.append((after[0] - now[0], after[1] - now[1]))
        self.began = clocks()


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def overhead(arguments: argparse.Namespace) -> bool:
    threads, rounds = arguments.threads, arguments.rounds
    config = RunConfig(
        "mnist", network="lenet", epochs=rounds + 1, limit=arguments.limit, validation=0.0, threads=threads
    )
    watcher = Interleaved(BareLoop(config))
    with tempfile.TemporaryDirectory() as folder:
        train_run(config, Path(folder) / "run", watcher=watcher)
    ratios = []
    for i, clock in enumerate(("clock", "processor")):
        harness, bare = ([pair[i] for pair in times[1:]] for times in (watcher.harness_times, watcher.bare_times))
        ratios.append(statistics.median(harness) / statistics.median(bare))
        low, _, high = statistics.quantiles([h / b for h, b in zip(harness, bare, strict=True)], n=4)
        print(
            f"harness / bare loop by the {clock}: {ratios[-1]:.3f} (quartiles of the pairs {low:.3f} to {high:.3f}), "
            f"medians {statistics.median(harness):.3f} s and {statistics.median(bare):.3f} s"
        )
    print(f"LeNet, {arguments.limit} MNIST images an epoch, {rounds} pairs after one to warm up, {threads} thread(s)")
    return ratios[0] < 1.05


def accuracy(arguments: argparse.Namespace) -> bool:
    met = True
    for pooling, goal in GOALS.items():
        config = RunConfig("mnist", network="lenet", pooling=pooling, epochs=8, threads=arguments.threads)
        summary = train_run(config, arguments.out / pooling)  # goes on, or reads what is finished
        error = summary.test.top1
        met &= error < goal
        print(
            f"{pooling}: test error {error:.2f}% (goal below {goal}%), train {summary.train.top1:.2f}%, "
            f"{summary.samples_per_second:,.0f} images/s, {arguments.threads} thread(s)"
        )
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "accuracy"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12, help="pairs of epochs")
    parser.add_argument("--limit", type=int, default=6000, help="images an epoch; fewer overstate the overhead")
    parser.add_argument("--out", type=Path, default=Path("runs/accuracy"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    met = overhead(arguments) if arguments.what == "overhead" else accuracy(arguments)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
