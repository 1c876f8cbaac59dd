import json
import math
import time

import pytest

from multipartite.errors import InputError
from multipartite.experiments.grid import tuning
from multipartite.experiments.grid.comparison import place
from multipartite.experiments.grid.jobs import Job, Outcome
from multipartite.experiments.grid.tuning import rungs, settings, tune
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Epoch, Metrics, read_run
from multipartite.words import Word

CONFIG = RunConfig("digits", epochs=9, limit=200, threads=1)


def options_of(text):
    return dict(Word.parse(text).options)


def test_every_setting_is_valid_and_none_says_the_same_twice():
    words = settings([20, 50], 10)
    assert len(words) == len(set(words))
    options = [options_of(word) for word in words]
    assert {given.get("groups", 1) for given in options} == {1, 2, 5, 10}
    assert all("temperature" not in given for given in options if given.get("assignment", "hard") == "hard")
    assert all("criterion" not in given for given in options if given.get("temperature") == math.inf)
    for name in ("assignment", "criterion", "projection"):
        assert {given.get(name) for given in options} >= set(tuning.SPACE[name][1:])


def test_rungs_rise_to_the_full_length():
    assert rungs(1) == [1]
    assert rungs(90) == [10, 30, 90]


@pytest.fixture
def pretend(monkeypatch):
    """Instead of training, write metrics by a rule; note how far each setting was taken."""
    taken = {}

    def error(word, epoch):
        options = options_of(word)
        return options.get("groups", 1) + (3.0 if options.get("criterion", "kl") == "kl" else 0.0) + 1.0 / epoch

    def run(jobs, workers):
        from made_runs import made_run
        from multipartite.experiments.run.store import write_metrics

        for job in jobs:
            taken[job.config.pooling] = job.pause
            if not job.folder.exists():
                made_run(job.folder.parents[2], job.config.pooling, 0, 0.0, finished=False, epochs=9, limit=200)
            history = [
                Epoch(e, 0.1, Metrics(1, 1, 1), Metrics(1.0, error(job.config.pooling, e), 1), 1, 1)
                for e in range(1, job.pause + 1)
            ]
            write_metrics(job.folder, history)
            yield Outcome(job)

    fewer = [word for word in settings([4], 10) if "penalised" not in word and "temperature" not in word]
    monkeypatch.setattr(tuning, "settings", lambda channels, num_classes: fewer)
    monkeypatch.setattr(tuning, "run_jobs", run)
    return taken


def test_the_best_third_goes_on_and_the_best_setting_wins(tmp_path, pretend):
    tuned = tune(CONFIG, tmp_path, minutes=1)
    options = options_of(tuned.word)
    assert options.get("groups", 1) == 1
    assert options["criterion"] != "kl"
    counts = [sum(pause >= level for pause in pretend.values()) for level in rungs(9)]
    assert counts[1] == counts[0] // 3
    assert counts[2] == counts[1] // 3
    for word in (word for word, pause in pretend.items() if pause == 9):  # the best by the rule, and no others
        assert options_of(word).get("groups", 1) == 1
        assert options_of(word)["criterion"] != "kl"
    assert tuned.trials[0].epochs == 9
    trials = json.loads((tmp_path / "tuning.json").read_text())
    assert trials[0]["word"] == tuned.word
    assert len(trials) == counts[0]


@pytest.mark.slow
def test_a_real_search_keeps_to_its_budget_and_never_reads_the_test_set(tmp_path):
    began = time.monotonic()
    said = []
    tuned = tune(CONFIG, tmp_path, minutes=0.75, say=said.append)
    assert time.monotonic() - began < 60
    assert tuned.trials[0].epochs > 1
    run = read_run(place(tmp_path, tuned.word, 0))
    assert run.metrics[tuned.trials[0].epochs - 1].validation.top1 == tuned.trials[0].error
    assert not list(tmp_path.glob("runs/*/*/summary.json"))
    assert any("best of" in line for line in said)


def test_bad_budgets_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="budget must be more than 0 minutes, got 0"):
        tune(CONFIG, tmp_path, minutes=0)
    with pytest.raises(InputError, match="judges on the validation split"):
        tune(RunConfig("digits", validation=0.0), tmp_path, minutes=1)
    monkeypatch.setattr(tuning, "run_jobs", lambda jobs, workers: [Outcome(Job(jobs[0].config, jobs[0].folder))])
    with pytest.raises(InputError, match="no setting reached epoch 1 within 1 minutes: raise --budget"):
        tune(CONFIG, tmp_path, minutes=1)
