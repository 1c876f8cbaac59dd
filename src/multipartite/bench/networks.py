"""Whole networks: samples a second in training and evaluation, as a ratio to the same network with max pooling."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multipartite.bench.timing import interleave, peak_bytes
from multipartite.experiments.run import networks
from multipartite.labels import supervise
from multipartite.pooling.learning import SupervisedLayer

__all__ = ["NETWORKS", "POOLINGS", "measure"]

NETWORKS: dict[str, tuple[int, int, int]] = {"lenet": (1, 28, 28), "zeiler": (3, 32, 32)}
POOLINGS = ("max", "multipartite-printed", "multipartite", "average", "stochastic")


def measure(
    network: str, *, seconds: float, batch: int = 100, poolings: tuple[str, ...] = POOLINGS, memory: bool = True
) -> Iterator[dict[str, Any]]:
    """Time training steps and evaluation of `network`; a row a pooling and phase.

    Examples
    --------
    >>> rows = list(measure("lenet", seconds=0.01, batch=4, poolings=("max", "average"), memory=False))
    >>> [(row["pooling"], row["phase"]) for row in rows]
    [('max', 'training'), ('average', 'training'), ('max', 'evaluation'), ('average', 'evaluation')]
    """
    shape = NETWORKS[network]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, *shape, generator=generator)
    labels = torch.randint(0, 10, (batch,), generator=generator)
    models = {
        word: networks.build(network, channels=shape[0], size=shape[1:], num_classes=10, pooling_word=word)
        for word in poolings
    }
    for phase, make in (("training", _training), ("evaluation", _evaluation)):
        calls = {word: make(model, x, labels) for word, model in models.items()}
        timings = interleave(calls, seconds=seconds, least=21)
        peaks = {word: peak_bytes(call) for word, call in calls.items()} if memory else {}
        for word, t in timings.items():
            yield {
                "network": network,
                "batch": batch,
                "phase": phase,
                "pooling": word,
                "samples_per_second": batch / t.median,
                "speed_ratio": 1 / t.ratio,
                "speed_ratio_low": 1 / t.ratio_high,
                "speed_ratio_high": 1 / t.ratio_low,
                "memory_ratio": peaks[word] / peaks[poolings[0]] if memory else None,
                "learning_share": _learning_share(calls[word], t.n) if phase == "training" else 0.0,
                "n": t.n,
            }


def _training(model: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        model.train()
        with supervise(labels):
            loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def _evaluation(model: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], object]:
    def evaluate() -> object:
        model.eval()
        with torch.no_grad():
            return model(x)

    return evaluate


def _learning_share(step: Callable[[], object], rounds: int) -> float:
    """Share of training steps that statistics and refits take."""
    spent = 0.0
    observe = SupervisedLayer.observe

    def timed(layer: SupervisedLayer, x: Tensor) -> None:
        nonlocal spent
        start = time.perf_counter()
        observe(layer, x)
        spent += time.perf_counter() - start

    begin = time.perf_counter()
    with patch.object(SupervisedLayer, "observe", timed):
        for _ in range(rounds):
            step()
    return spent / (time.perf_counter() - begin)
