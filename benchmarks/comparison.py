"""Goals: a comparison with ``--jobs 2`` takes at most 0.6 of the time of ``--jobs 1``; 100 runs are reported in 10 s.

Two measurements:

1. wall time of ``multipartite compare digits``, 4 poolings x 5 seeds, one torch thread a run, with 1 and with 2 jobs,
   each a process of its own with start-up and report, one after the other in every round; the tables must be equal;
2. wall time of the report of 100 runs (20 poolings x 5 seeds, 50 epochs each, numbers made up), without pictures.

Needs two free cores: ``python benchmarks/comparison.py [--epochs 20] [--rounds 1]``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-c", "from multipartite.cli import main; main()", "compare", "digits"]
POOLINGS = "max,average,stochastic,multipartite"


def compare(folder: Path, jobs: int, epochs: int) -> float:
    """Seconds that a comparison takes."""
    words = ["--poolings", POOLINGS, "--seeds", "5", "--epochs", str(epochs), "--jobs", str(jobs), "--out", str(folder)]
    began = time.perf_counter()
    subprocess.run([*COMMAND, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def speed_up(epochs: int, rounds: int) -> None:
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        base = Path(tempfile.mkdtemp())
        for jobs, times in seconds.items():
            times.append(compare(base / str(jobs), jobs, epochs))
        one, two = ((base / str(jobs) / "report" / "runs.csv").read_text() for jobs in seconds)
        assert one == two, "the tables differ"
        shutil.rmtree(base)
    one, two = (statistics.median(times) for times in seconds.values())
    print(f"4 poolings x 5 seeds on digits, {epochs} epochs, one thread a run, {rounds} rounds")
    print(f"  --jobs 1: {one:6.1f} s\n  --jobs 2: {two:6.1f} s\n  ratio:    {two / one:6.2f} (goal: at most 0.60)")


def hundred_runs() -> None:
    """Copy one real run a hundred times with other poolings, seeds and errors; report them."""
    from multipartite.experiments.grid.jobs import Job, work
    from multipartite.experiments.report import write_report
    from multipartite.experiments.run.config import RunConfig

    base = Path(tempfile.mkdtemp())
    job = Job(RunConfig("digits", epochs=50, limit=200, threads=1), base / "one" / "seed-0")
    work(job)
    head, summary = (json.loads((job.folder / name).read_text()) for name in ("config.json", "summary.json"))
    for k in range(100):
        folder = base / "many" / f"run-{k}"
        folder.mkdir(parents=True)
        word = f"multipartite:temperature={k // 5}" if k >= 5 else "max"
        config = {**head["config"], "pooling": word, "seed": k % 5}
        shutil.copy(job.folder / "metrics.jsonl", folder)
        (folder / "config.json").write_text(json.dumps({**head, "config": config}))
        error = {**summary["test"], "top1": summary["test"]["top1"] + k / 10}
        (folder / "summary.json").write_text(json.dumps({**summary, "test": error}))
    began = time.perf_counter()
    page = write_report(base / "many").page
    took, size = time.perf_counter() - began, page.stat().st_size
    print(f"report of 100 runs: {took:.1f} s (goal: under 10 s), page of {size / 1e6:.2f} MB (goal: at most 5 MB)")
    shutil.rmtree(base)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    hundred_runs()
    speed_up(given.epochs, given.rounds)
