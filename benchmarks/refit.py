"""How often to learn and to refit, and how many pixels to look at: error and cost of the choices, on LeNet and MNIST.

    python benchmarks/refit.py [--images 3000] [--epochs 4] [--seeds 2] [--only hard]

Every setting trains the same network on the same images, an epoch of each in turn, in one process and one thread. The
error is on 2,000 images held out of the training set; the cost is the processor's time of an epoch against that of
max pooling, the median over epochs and seeds. MNIST is looked for under MULTIPARTITE_DATA.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import multipartite as mp
from multipartite.experiments.data import Dataset, load
from multipartite.experiments.report.estimates import difference
from multipartite.experiments.run.networks import build

HELD_OUT, BATCH = 2000, 100
# (updates between refits, updates between two that are learned from, pixels of a batch)
CHOICES = [(1, 1, 2048), (20, 5, 2048), (40, 5, 2048), (40, 10, 1024), (40, 10, 2048), (80, 10, 2048), (80, 20, 2048)]
WAYS = ("multipartite-printed:", "multipartite:", "multipartite:assignment=lines,focus=0.5,")
SETTINGS = [
    "max",
    *(
        f"{way}refit_every={refit},learn_every={learn},max_rows={rows}"
        for way in WAYS
        for refit, learn, rows in CHOICES
    ),
]


class Trained:
    """One setting with one seed, trained an epoch at a time."""

    def __init__(self, word: str, seed: int, data: Dataset) -> None:
        self.net = build("lenet", channels=1, size=(28, 28), num_classes=10, pooling_word=word, seed=seed)
        self.sgd = torch.optim.SGD(self.net.parameters(), 0.02, 0.9, weight_decay=5e-4)
        self.order = torch.Generator().manual_seed(seed)
        self.data = data
        self.seconds: list[float] = []

    def epoch(self) -> None:
        """Go through the data once, and note the time on the processor."""
        data, start = self.data, time.process_time()
        self.net.train()
        for rows in torch.randperm(len(data.train), generator=self.order).split(BATCH):
            labels = data.train.labels[rows]
            with mp.supervise(labels):
                objective = F.cross_entropy(self.net(data.normalise(data.train.images[rows])), labels)
            self.sgd.zero_grad()
            objective.backward()
            self.sgd.step()
        self.seconds.append(time.process_time() - start)

    @torch.no_grad()
    def error(self) -> float:
        """Share of the images held out that are taken for another class, in percent."""
        data = self.data
        out = self.net.eval()(data.normalise(data.validation.images))
        return 100 * (out.argmax(1) != data.validation.labels).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("images", 3000), ("epochs", 4), ("seeds", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="", help="settings that hold this word, beside max")
    parser.add_argument("--against", default="max", help="the setting that the others are compared with, by seed")
    asked = parser.parse_args()
    settings = [word for word in SETTINGS if word == "max" or asked.only in word]
    torch.set_num_threads(1)
    total = asked.images + HELD_OUT
    data = load("mnist", download=False).limit(total).with_validation(HELD_OUT / total)
    runs = {word: [Trained(word, seed, data) for seed in range(asked.seeds)] for word in settings}
    for _ in range(asked.epochs):
        for seed in range(asked.seeds):
            torch.manual_seed(seed)
            for word in settings:
                runs[word][seed].epoch()
    found: dict[str, dict[int, float]] = {}
    print(f"LeNet, {len(data.train)} images, {asked.epochs} epochs, {asked.seeds} seeds, 1 thread")
    for word, trained in runs.items():
        errors = [one.error() for one in trained]
        ratios = [
            a / b
            for one, base in zip(trained, runs["max"], strict=True)
            for a, b in zip(one.seconds, base.seconds, strict=True)
        ]
        found[word] = dict(enumerate(errors))
        spread = f"{statistics.mean(errors):.2f} ± {statistics.stdev(errors) if len(errors) > 1 else 0:.2f}%"
        print(f"{word:65s} error {spread}  time {statistics.median(ratios):.2f} of max", flush=True)
    for word, errors in found.items():
        if word != asked.against and (gap := difference(errors, found[asked.against])) is not None:
            print(f"{word:65s} minus {asked.against}: {gap}")


if __name__ == "__main__":
    main()
