"""What is measured while a network trains: the three figures of the paper's curves, and peak memory."""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from multipartite.experiments.run.store import Metrics

__all__ = ["Meter", "PeakMemory"]


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


class PeakMemory:
    """Peak memory in bytes since it was made: of the device for CUDA, else of the process.

    Examples
    --------
    >>> PeakMemory(torch.device("cpu")).read() > 10_000_000
    True
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with suppress(OSError):  # Linux: set the high-water mark of the process back
                Path("/proc/self/clear_refs").write_text("5")

    def read(self) -> int:
        """Read the peak so far."""
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        with suppress(OSError, StopIteration):
            lines = Path("/proc/self/status").read_text().splitlines()
            return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if platform.system() == "Darwin" else 1024 * peak
