"""The layer on its own, against max pooling and the other poolings that torch has."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multipartite import pooling
from multipartite.bench.timing import interleave, peak_bytes
from multipartite.errors import MultipartiteWarning
from multipartite.labels import supervise

__all__ = ["CASES", "OURS", "PHASES", "Case", "measure"]

OURS = (
    "multipartite-printed",
    "multipartite",
    "multipartite:criterion=energy",
    "multipartite:assignment=lines,focus=0.5",
    "multipartite:gather=max",
)
PHASES = ("evaluation", "forward+backward", "training step")


@dataclass(frozen=True)
class Case:
    """Shape of the activations, window and number of classes."""

    shape: tuple[int, ...]
    kernel: int
    stride: int
    classes: int

    @property
    def name(self) -> str:
        """Short name for tables."""
        return f"{'x'.join(map(str, self.shape))} {self.kernel}/{self.stride} c={self.classes}"

    @property
    def dims(self) -> int:
        """Number of spatial dimensions."""
        return len(self.shape) - 2


CASES = {
    "paper": Case((100, 20, 24, 24), 2, 2, 10),
    "wide": Case((128, 64, 32, 32), 3, 2, 10),
    "wide-100": Case((128, 64, 32, 32), 3, 2, 100),
    "deep": Case((128, 64, 16, 16), 2, 2, 10),
    "imagenet": Case((32, 512, 14, 14), 2, 2, 1000),
    "imagenet-10": Case((32, 512, 14, 14), 2, 2, 10),
    "volume": Case((4, 32, 32, 32, 32), 2, 2, 10),
}


def measure(
    case: Case,
    *,
    channels_last: bool,
    seconds: float,
    others: bool = True,
    memory: bool = True,
    phases: tuple[str, ...] = PHASES,
) -> Iterator[dict[str, Any]]:
    """Time every pooling in every phase; a row a pooling and phase, ratios to max pooling.

    Examples
    --------
    >>> rows = list(measure(Case((2, 4, 6, 6), 2, 2, 3), channels_last=False, seconds=0.01, others=False))
    >>> [(row["pooling"], row["phase"]) for row in rows][:2]
    [('max', 'evaluation'), ('multipartite-printed', 'evaluation')]
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(case.shape, generator=generator).relu()
    rows = case.shape[:1] if case.classes <= case.shape[0] else (case.shape[0], *case.shape[2:])
    labels = torch.randint(0, case.classes, rows, generator=generator)  # a pixel, where images show too few classes
    if channels_last:
        x = x.to(memory_format=torch.channels_last if case.dims == 2 else torch.channels_last_3d)
    layers = _layers(case, others)
    for pool in layers.values():  # lazy layers meet their channels, supervised ones learn once
        with supervise(labels):
            pool(x)
    for phase in phases:
        calls = {name: _call(pool, x, labels, phase) for name, pool in layers.items()}
        timings = interleave(calls, seconds=seconds)
        peaks = {name: peak_bytes(call) for name, call in calls.items()} if memory else {}
        for name, t in timings.items():
            yield {
                "case": case.name,
                "layout": "channels_last" if channels_last else "contiguous",
                "phase": phase,
                "pooling": name,
                "ms": 1e3 * t.median,
                "ratio": t.ratio,
                "ratio_low": t.ratio_low,
                "ratio_high": t.ratio_high,
                "memory_ratio": peaks[name] / peaks["max"] if memory else None,
                "n": t.n,
            }


def _layers(case: Case, others: bool) -> dict[str, nn.Module]:
    names = ["max", *OURS, *(["average", "stochastic"] if others else [])]
    layers: dict[str, nn.Module] = {
        name: pooling.create(name, case.kernel, case.stride, num_classes=case.classes, dims=case.dims) for name in names
    }
    if others and case.dims == 2:
        layers["LPPool2d"] = nn.LPPool2d(2, case.kernel, case.stride)
    if others and case.dims > 1:
        fractional = nn.FractionalMaxPool2d if case.dims == 2 else nn.FractionalMaxPool3d
        out = tuple((n - case.kernel) // case.stride + 1 for n in case.shape[2:])
        layers[fractional.__name__] = fractional(case.kernel, output_size=out)  # type: ignore[arg-type]
    return layers


def _call(pool: nn.Module, x: Tensor, labels: Tensor, phase: str) -> Callable[[], object]:
    """One step of a phase; both others train, and `training step` alone updates statistics and refits."""
    if phase == "evaluation":

        def evaluate() -> object:
            pool.eval()
            with torch.no_grad():
                return pool(x)

        return evaluate
    leaf = x.clone().requires_grad_(True)
    with torch.no_grad():
        slope = torch.ones_like(pool.eval()(x))
    learning = phase == "training step"

    def step() -> None:
        pool.train()
        leaf.grad = None
        with supervise(labels) if learning else nullcontext():
            pool(leaf).backward(slope)

    if not learning:
        with warnings.catch_warnings():  # it is on purpose that it has no labels
            warnings.simplefilter("ignore", MultipartiteWarning)
            step()
    return step
