"""Where a run was made: versions, revision, peak memory."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

__all__ = ["PeakMemory", "revision", "versions"]

_PACKAGES = ("multipartite", "torch", "numpy", "scikit-learn", "lightning-fabric", "safetensors")


def versions() -> dict[str, str]:
    """Versions of what takes part in a run.

    Examples
    --------
    >>> sorted(versions())[:2]
    ['lightning-fabric', 'multipartite']
    """
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def revision() -> str | None:
    """Git revision of the package, with ``+`` where its files were changed; None outside a repository."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(here), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "machine.py")  # the repository is ours, not one that happens to hold us
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1]))
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


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
