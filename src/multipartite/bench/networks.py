"""Whole networks in both memory layouts: samples a second, as a ratio to max pooling in the layout that is its best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multipartite.bench.layers import OURS
from multipartite.bench.timing import interleave, peak_bytes
from multipartite.experiments.run import networks
from multipartite.labels import supervise
from multipartite.pooling.learning import Seen, SupervisedLayer
from multipartite.pooling.multipartite import REFIT_EVERY

__all__ = ["LAYOUTS", "NETWORKS", "POOLINGS", "measure"]

NETWORKS: dict[str, tuple[int, int, int]] = {"lenet": (1, 28, 28), "zeiler": (3, 32, 32)}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
POOLINGS = (
    "max",
    *OURS,
    "average",
    "stochastic",
)


_STEPS = REFIT_EVERY  # of training in a row, so that a layer's learning and one refit are in what is timed


def measure(
    network: str,
    *,
    seconds: float,
    batch: int = 100,
    poolings: tuple[str, ...] = POOLINGS,
    memory: bool = True,
    steps: int = _STEPS,
) -> Iterator[dict[str, Any]]:
    """Time training steps and evaluation of `network`; a row a phase, layout and pooling, the first of which is max.

    Examples
    --------
    >>> rows = list(measure("lenet", seconds=0.01, batch=4, poolings=("max", "average"), memory=False, steps=1))
    >>> [(row["layout"], row["pooling"]) for row in rows if row["phase"] == "training"]
    [('contiguous', 'max'), ('contiguous', 'average'), ('channels_last', 'max'), ('channels_last', 'average')]
    """
    shape = NETWORKS[network]
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(batch, *shape, generator=generator)
    labels = torch.randint(0, 10, (batch,), generator=generator)
    models = {
        (layout, word): networks.build(
            network, channels=shape[0], size=shape[1:], num_classes=10, pooling_word=word
        ).to(memory_format=memory_format)  # type: ignore[call-overload]
        for layout, memory_format in LAYOUTS.items()
        for word in poolings
    }
    inputs = {layout: images.to(memory_format=memory_format) for layout, memory_format in LAYOUTS.items()}
    plain = [(layout, poolings[0]) for layout in LAYOUTS]
    for phase, make, times in (("training", _training, steps), ("evaluation", _evaluation, 1)):
        calls = {(layout, word): make(model, inputs[layout], labels) for (layout, word), model in models.items()}
        blocks = {name: _repeated(call, times) for name, call in calls.items()}
        timings = interleave(blocks, seconds=seconds, least=5 if times > 1 else 21, yardsticks=plain)
        best = min(plain, key=lambda name: timings[name].median)
        peaks = {name: peak_bytes(call) for name, call in calls.items()} if memory else {}
        for (layout, word), t in timings.items():
            yield {
                "network": network,
                "batch": batch,
                "phase": phase,
                "layout": layout,
                "pooling": word,
                "samples_per_second": times * batch / t.median,
                "speed_ratio": 1 / t.ratio,
                "speed_ratio_low": 1 / t.ratio_high,
                "speed_ratio_high": 1 / t.ratio_low,
                "memory_ratio": peaks[layout, word] / peaks[best] if memory else None,
                "learning_share": _learning_share(calls[layout, word], times) if phase == "training" else 0.0,
                "n": t.n,
            }


def _repeated(call: Callable[[], object], times: int) -> Callable[[], object]:
    def repeat() -> None:
        for _ in range(times):
            call()

    return repeat


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

    def timed(layer: SupervisedLayer, x: Tensor | Seen) -> None:
        nonlocal spent
        start = time.perf_counter()
        observe(layer, x)
        spent += time.perf_counter() - start

    begin = time.perf_counter()
    with patch.object(SupervisedLayer, "observe", timed):
        for _ in range(rounds):
            step()
    return spent / (time.perf_counter() - begin)
