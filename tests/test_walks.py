"""How many files one has to read to follow a batch, or a comparison: those whose functions it runs."""

import sys
import threading
from pathlib import Path

import pytest
import torch

import multipartite as mp

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
    assert len(crossed) <= 10, sorted(crossed)
