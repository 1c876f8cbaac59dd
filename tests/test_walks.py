"""How many files one has to read to follow a batch, or a comparison: those whose functions it runs."""

import importlib
import pkgutil
import re
import sys
import threading
from pathlib import Path

import pytest
import torch

import multipartite as mp
from command_line import run_words
from multipartite import cli
from multipartite.pooling import native

ROOT = Path(mp.__file__).parent


def walked(act):
    """Files of the package in which `act` runs a function, beside the lazy imports of the package itself."""
    seen = set()

    def note(frame, event, arg):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            seen.add(Path(name).relative_to(ROOT).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return seen - {"__init__.py", "registry.py"}  # a registry is a dictionary with better errors


def steps_of(title):
    """The files that a section of docs/architecture.md names, a numbered step each."""
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\d+\. `(.+?)`:", section, re.MULTILINE))


@pytest.mark.parametrize("options", [{}, {"assignment": "lines"}, {"gather": None, "assignment": "hard"}])
def test_a_batch_that_refits_crosses_ten_files(options):
    pool = mp.MultipartitePool2d(2, num_classes=10, num_channels=4, **options)
    x, labels = torch.rand(20, 4, 8, 8, requires_grad=True), torch.arange(20) % 10

    def batch():
        with mp.supervise(labels):
            pool(x).sum().backward()

    crossed = walked(batch)
    assert pool.updates == 1
    assert "projection.py" in crossed  # it did refit
    assert len(crossed) <= 10 + (not native.available()), sorted(crossed)  # which only says that it is not there
    assert {name.removesuffix(".py") for name in crossed} <= steps_of("The walk of a batch")


def test_a_comparison_crosses_twenty_eight_files(tmp_path, monkeypatch):
    rooms = [pkgutil.walk_packages([str(ROOT / room)], f"multipartite.{room}.") for room in ("cli", "experiments")]
    for name in ["lightning_fabric", "matplotlib.figure", *(module.name for room in rooms for module in room)]:
        importlib.import_module(name)  # bodies of classes run at an import, and are no part of the walk
    monkeypatch.setattr(cli, "COMMANDS", ["compare"])  # the others only say that they are there
    small = "--poolings max,multipartite --seeds 1 --epochs 1 --limit 200 --jobs 1"
    ended = []
    crossed = walked(lambda: ended.append(run_words("compare", "digits", *small.split(), "--out", tmp_path / "out")))
    [(status, said, complaint)] = ended
    assert status == 0, complaint
    assert f"Report: {tmp_path / 'out' / 'report' / 'report.html'}" in said
    assert (tmp_path / "out" / "report" / "report.html").stat().st_size > 10_000
    files = [name for name in crossed if name.endswith(".py") and name.startswith(("experiments/", "cli/"))]
    assert {"cli/compare.py", "experiments/run/training.py", "experiments/report/verdict.py"} <= set(files)
    assert len(files) <= 28, sorted(files)
    steps = {name.removeprefix("experiments/").removesuffix(".py").removesuffix("/__init__") for name in files}
    assert steps == steps_of("The walk of a comparison")
