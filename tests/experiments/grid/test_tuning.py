import inspect
import json
import math
import os
import time

import pytest

from made_runs import made_run
from multipartite.errors import InputError
from multipartite.experiments.grid import tuning
from multipartite.experiments.grid.comparison import place
from multipartite.experiments.grid.jobs import Outcome
from multipartite.experiments.grid.tuning import rungs, settings, tune
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Epoch, Metrics, read_run, write_metrics
from multipartite.pooling import registry as pooling
from multipartite.pooling.multipartite import MultipartitePool2d
from multipartite.words import Word

CONFIG = RunConfig("digits", epochs=9, limit=200, threads=1)


def options_of(text):
    return dict(Word.parse(text).options)


def test_every_setting_is_valid_and_none_says_the_same_twice():
    found = settings("multipartite", [20, 50], 10)
    words = [setting.word for setting in found]
    assert words[0] == "multipartite"
    assert len(words) == len(set(words))
    options = [options_of(word) for word in words]
    assert {given.get("groups", 1) for given in options} == {1, 2, 5, 10}
    assert all("temperature" not in given for given in options if given.get("assignment") in ("hard", "lines"))
    assert all("focus" not in given for given in options if given.get("assignment") != "lines")
    assert all("criterion" not in given for given in options if given.get("temperature") == math.inf)
    assert all("projection" not in given for given in options if given.get("criterion") == "energy")


def test_what_a_space_tries_first_is_the_default_of_the_layer():
    default = dict(settings("multipartite", [8], 10)[0].picked)
    signature = inspect.signature(MultipartitePool2d).parameters
    assert default == {name: signature[name].default for name in default}
    every = {name for setting in settings("multipartite", [8], 10) for name, _ in setting.picked}
    assert every == {"gather", "assignment", "groups", "temperature", "focus", "criterion", "projection"}
    lines = next(s for s in settings("multipartite", [8], 10) if s.word == "multipartite:assignment=lines")
    assert dict(lines.picked)["focus"] == signature["focus"].default


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("blur", ["blur", "blur:width=2", "blur:width=3", "blur:width=5", "blur:width=7"]),
        ("gated", ["gated", "gated:per=channel"]),
        ("lp", ["lp", "lp:p=1.0", "lp:p=3.0", "lp:p=4.0", "lp:p=8.0", "lp:p=inf"]),
        ("s3", ["s3", "s3:grid_size=4", "s3:grid_size=6", "s3:grid_size=8", "s3:grid_size=16"]),
    ],
)
def test_rivals_with_options_have_spaces_that_begin_with_their_defaults(name, words):
    found = settings(name, [20, 50], 10)
    assert [setting.word for setting in found] == words
    signature = inspect.signature(pooling.find(name).layer(name, 2)).parameters
    assert all(signature[option].default == value for option, value in found[0].picked)


def test_rungs_rise_threefold_to_the_full_length():
    assert rungs(1) == [1]
    assert rungs(90) == [10, 30, 90]
    assert rungs(8) == [1, 3, 8]


def small(pick, channels):
    """Sixteen settings; the best are those with one group and energy."""
    return {
        "gather": pick("gather", "max", None),
        "groups": pick("groups", 1, 2, 4, 8),
        "criterion": pick("criterion", "kl", "energy"),
    }


@pytest.fixture
def pretend(monkeypatch):
    """Instead of training, write metrics by a rule; note how far each setting was taken, in order."""
    taken = []
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # nothing has to outlive a power cut here

    def error(config, epoch):
        options = options_of(config.pooling)
        by_label = 3.0 if options.get("criterion", "kl") == "kl" else 0.0
        return options.get("groups", 1) + by_label + 1.0 / epoch + 0.01 * config.seed

    def run(jobs, workers):
        for job in jobs:
            if job is None:
                return
            word, seed = job.config.pooling, job.config.seed
            taken.append((word, job.pause))
            if not job.folder.exists():
                made_run(job.folder.parents[2], word, seed, 0.0, finished=False, epochs=9, limit=200)
            history = [
                Epoch(e, 0.1, Metrics(1, 1, 1), Metrics(1.0, error(job.config, e), 1), 1, 1)
                for e in range(1, job.pause + 1)
            ]
            write_metrics(job.folder, history)
            yield Outcome(job)

    monkeypatch.setitem(tuning.SPACES._entries, "multipartite", small)
    monkeypatch.setattr(tuning, "run_jobs", run)
    return taken


def test_a_small_space_is_tried_whole_the_better_go_on_and_the_best_wins(tmp_path, pretend):
    said = []
    tuned = tune(CONFIG, tmp_path, minutes=1, say=said.append)
    words = [word for word, pause in pretend if pause == 1]
    assert sorted(words) == sorted(setting.word for setting in settings("multipartite", [32, 64], 10))
    assert words[0] == "multipartite"  # the default first
    third, whole = ([word for word, pause in pretend if pause == level] for level in (3, 9))
    assert len(whole) < len(third) < len(words)
    assert set(whole) <= set(third) <= set(words)
    assert options_of(tuned.word).get("groups", 1) == 1
    assert options_of(tuned.word)["criterion"] == "energy"
    assert tuned.trials[0].epochs == 9
    trials = json.loads((tmp_path / "tuning-multipartite.json").read_text())
    assert trials[0]["word"] == tuned.word
    assert len(trials) == len(words)
    assert any("best of 16: multipartite:criterion=energy" in line for line in said)


def test_what_did_well_elsewhere_is_in_the_space():
    for name, words in tuning.PROMISING.items():
        assert set(words) <= {setting.word for setting in settings(name, [8], 10)}


def test_what_did_well_elsewhere_is_tried_after_the_default(tmp_path, pretend, monkeypatch):
    promising = ("multipartite:criterion=energy", "multipartite:groups=4", "multipartite:no_longer=known")
    monkeypatch.setitem(tuning.PROMISING, "multipartite", promising)
    tune(CONFIG, tmp_path, minutes=1, trials=3, halving=False)
    assert [word for word, _ in pretend] == ["multipartite", *promising[:2]]


def test_a_setting_may_be_judged_by_several_seeds_and_go_its_whole_length(tmp_path, pretend):
    tuned = tune(CONFIG, tmp_path, minutes=1, seeds=3, trials=4, halving=False)
    assert len(pretend) == 3 * 4
    assert {pause for _, pause in pretend} == {9}
    assert len(tuned.trials) == 4
    best = tuned.trials[0]
    assert (best.epochs, best.seeds) == (9, 3)
    errors = [read_run(place(tmp_path, best.word, seed)).metrics[-1].validation.top1 for seed in range(3)]
    assert best.error == pytest.approx(sum(errors) / 3)
    assert len(set(errors)) == 3
    assert tune(CONFIG, tmp_path, minutes=1, seeds=3, trials=4, halving=False).trials == tuned.trials
    assert len(pretend) == 3 * 4  # nothing was left to try
    tune(CONFIG, tmp_path, minutes=1, seeds=3, trials=5, halving=False)
    assert len(pretend) == 3 * 5


def test_one_seed_that_fails_takes_its_setting_out(tmp_path, pretend, monkeypatch):
    run = tuning.run_jobs

    def failing(jobs, workers):
        for outcome in run(jobs, workers):
            config = outcome.job.config
            bad = config.pooling == "multipartite" and config.seed == 1
            yield Outcome(outcome.job, failure="no memory") if bad else outcome

    monkeypatch.setattr(tuning, "run_jobs", failing)
    tuned = tune(CONFIG, tmp_path, minutes=1, seeds=3, trials=3, halving=False)
    assert len(tuned.trials) == 2
    assert "multipartite" not in [trial.word for trial in tuned.trials]
    assert [word for word, _ in pretend].count("multipartite") == 2  # the third seed was not begun


def test_a_search_goes_on_where_it_was_stopped_even_by_a_kill(tmp_path, pretend, monkeypatch):
    run = tuning.run_jobs

    def killed(jobs, workers):
        for count, outcome in enumerate(run(jobs, workers)):
            if count == 5:
                raise KeyboardInterrupt  # the sixth outcome is never heard of
            yield outcome

    monkeypatch.setattr(tuning, "run_jobs", killed)
    with pytest.raises(KeyboardInterrupt):
        tune(CONFIG, tmp_path, minutes=1)
    monkeypatch.setattr(tuning, "run_jobs", run)
    before = list(pretend)
    pretend.clear()
    said = []
    tuned = tune(CONFIG, tmp_path, minutes=1, say=said.append)
    assert pretend[0][0] == before[5][0]  # what was open comes first
    again = {word for word, _ in before[:5]} & {word for word, pause in pretend if pause == 1} - {before[5][0]}
    assert not again  # nothing that was judged is begun again
    assert len({word for word, _ in before + pretend}) == 16
    assert "settings were tried before" in said[0]
    assert len(tuned.trials) == 16


def test_another_length_or_other_settings_are_not_mixed_up(tmp_path, pretend):
    tune(CONFIG, tmp_path, minutes=1)
    with pytest.raises(InputError, match="holds runs with epochs=9, not epochs=3: choose another --out"):
        tune(RunConfig("digits", epochs=3, limit=200, threads=1), tmp_path, minutes=1)


def test_settings_that_fail_are_passed_over_and_said(tmp_path, pretend, monkeypatch):
    run = tuning.run_jobs

    def failing(jobs, workers):
        for outcome in run(jobs, workers):
            bad = outcome.job.config.pooling == "multipartite"
            yield Outcome(outcome.job, failure="no memory") if bad else outcome

    monkeypatch.setattr(tuning, "run_jobs", failing)
    said = []
    tuned = tune(CONFIG, tmp_path, minutes=1, say=said.append)
    assert "multipartite" not in [trial.word for trial in tuned.trials]
    assert "multipartite: no memory" in said


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_real_search_keeps_to_its_budget_resumes_and_never_reads_the_test_set(tmp_path, workers):
    began = time.monotonic()
    said = []
    tuned = tune(CONFIG, tmp_path, minutes=0.5, workers=workers, say=said.append)
    assert time.monotonic() - began < 75
    assert tuned.trials[0].epochs > 1
    run = read_run(place(tmp_path, tuned.word, 0))
    assert run.metrics[tuned.trials[0].epochs - 1].validation.top1 == tuned.trials[0].error
    assert any("best of" in line for line in said)
    more = tune(CONFIG, tmp_path, minutes=0.2, workers=workers)
    assert {trial.word for trial in more.trials} >= {trial.word for trial in tuned.trials}
    assert not list(tmp_path.glob("runs/*/*/summary.json"))


def test_bad_budgets_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="budget must be more than 0 minutes, got 0"):
        tune(CONFIG, tmp_path, minutes=0)
    with pytest.raises(InputError, match="seeds must be at least 1, got 0"):
        tune(CONFIG, tmp_path, minutes=1, seeds=0)
    with pytest.raises(InputError, match="trials must be at least 1, got 0"):
        tune(CONFIG, tmp_path, minutes=1, trials=0)
    with pytest.raises(InputError, match="judges on the validation split"):
        tune(RunConfig("digits", validation=0.0), tmp_path, minutes=1)
    with pytest.raises(InputError, match="pooling that can be tuned 'max': known: blur, gated, lp, multipartite, s3"):
        tune(CONFIG, tmp_path, minutes=1, name="max")
    monkeypatch.setattr(tuning, "run_jobs", lambda jobs, workers: [Outcome(next(iter(jobs)))])
    with pytest.raises(InputError, match="no setting reached epoch 1 within 1 minutes: raise --budget"):
        tune(CONFIG, tmp_path, minutes=1)
