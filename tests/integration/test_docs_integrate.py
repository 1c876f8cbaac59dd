"""Every snippet of docs/integrate.md runs."""

import logging
import re
import socket
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "integrate.md").read_text()
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
SNIPPETS = [
    (f"{section.splitlines()[0]} {number}", snippet)
    for section in SECTIONS
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL))
]


def test_each_way_in_has_a_section():
    assert [section.splitlines()[0] for section in SECTIONS] == [
        "Plain torch",
        "Lightning",
        "Hugging Face Trainer",
        "Several processes",
        "ONNX",
    ]
    assert all("```python" in section for section in SECTIONS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")  # in Lightning and the exporter
@pytest.mark.parametrize("snippet", [s for _, s in SNIPPETS], ids=[name for name, _ in SNIPPETS])
def test_the_snippet_runs(snippet, monkeypatch, tmp_path):
    if "transformers" in snippet:
        pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        if "torch.distributed" in snippet:  # what torchrun would say
            monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.chdir(tmp_path)
    logging.disable(logging.WARNING)
    try:
        exec(compile(snippet, "docs/integrate.md", "exec"), {"__name__": "snippet"})
    finally:
        logging.disable(logging.NOTSET)
