"""The three figures of the paper's curves: objective, top-1 and top-5 error."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Meter", "Metrics"]


@dataclass(frozen=True)
class Metrics:
    """Mean objective (cross entropy, nats) and errors in percent.

    Examples
    --------
    >>> Metrics.from_json({"objective": 0.5, "top1": 12.0, "top5": 1.0}).top1
    12.0
    """

    objective: float
    top1: float
    top5: float

    def to_json(self) -> dict[str, float]:
        """Plain values, ready for :mod:`json`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Metrics:
        """Read what `to_json` gave."""
        return cls(**values)


class Meter:
    """Sums of objective and errors, kept on the device so that no batch waits for them.

    Examples
    --------
    >>> meter = Meter(torch.device("cpu"))
    >>> logits, labels = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]]), torch.tensor([0, 1])
    >>> meter.update(logits, labels, torch.tensor(0.25))
    >>> meter.result()
    Metrics(objective=0.25, top1=50.0, top5=0.0)
    """

    def __init__(self, device: torch.device) -> None:
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(4, dtype=wide, device=device)  # objective, misses at 1, misses at 5, images

    @torch.no_grad()
    def update(self, logits: Tensor, labels: Tensor, objective: Tensor) -> None:
        """Add a batch: logits (N, classes), labels (N,), and the mean objective over it."""
        n = len(labels)
        best = logits.topk(min(5, logits.shape[1]), dim=1).indices  # (N, 5)
        hits = best == labels[:, None]
        top1, top5 = hits[:, 0].sum(), hits.sum()  # a label is met at most once
        batch = torch.stack([objective.detach().to(self.sums.dtype) * n, n - top1, n - top5])
        self.sums[:3] += batch
        self.sums[3] += n

    def result(self) -> Metrics:
        """Means over everything added."""
        objective, top1, top5, n = self.sums.tolist()
        return Metrics(objective / n, 100.0 * top1 / n, 100.0 * top5 / n)
