"""Progress: drawn on a terminal, silent elsewhere; several watchers hear the same."""

import io

import pytest
from rich.console import Console

from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.training import train_run
from multipartite.experiments.run.watching import Several, Terminal, Watcher

CONFIG = RunConfig("digits", epochs=2, limit=300, batch_size=30, threads=1)


class Heard(Watcher):
    def __init__(self):
        self.words = []

    def data(self, dataset):
        self.words.append(("data", dataset.name, len(dataset.train)))

    def start(self, config, steps, done):
        self.words.append(("start", steps, done))

    def step(self, epoch, meter):
        self.words.append(("step", epoch))

    def epoch(self, record):
        self.words.append(("epoch", record.epoch))

    def finish(self, summary):
        self.words.append(("finish", summary.epochs))

    def close(self):
        self.words.append(("close",))


def test_a_watcher_hears_everything_in_order(tmp_path):
    one, two = Heard(), Heard()
    train_run(CONFIG, tmp_path / "run", watcher=Several(one, two))
    epochs = [[("step", epoch)] * 9 + [("epoch", epoch)] for epoch in (1, 2)]
    before = [("data", "digits", 270), ("start", 18, 0)]
    assert one.words == two.words == [*before, *epochs[0], *epochs[1], ("finish", 2), ("close",)]


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_on_a_terminal_and_silence_elsewhere(tmp_path, monkeypatch, terminal):
    stream = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=stream, force_terminal=terminal, width=120))
    watcher = Terminal()
    watcher.shown = -1.0
    train_run(CONFIG, tmp_path / "run", watcher=watcher)
    text = stream.getvalue()
    if not terminal:
        assert text == ""
        return
    assert text.count("validation") == 2
    assert "images/s" in text
