"""The comparison from Python: what a notebook gets."""

import csv

import pandas as pd
import pytest

import multipartite as mp
from made_runs import made_grid
from multipartite.errors import InputError
from multipartite.registry import registries

SMALL = {"epochs": 1, "limit": 200, "workers": 1, "pictures": False, "quiet": True}


def test_a_notebook_gets_the_verdict_the_page_and_the_numbers(tmp_path):
    found = mp.compare("digits", tmp_path, poolings="max,average", seeds=2, **SMALL)
    assert found.page == tmp_path / "report" / "report.html"
    assert found.verdict[0].startswith("Best: ")
    assert found.failures == {}
    assert set(found.errors.index) == {"max", "average"}
    assert found.runs.loc[("max", 1), "test_top1"] == mp_summary(tmp_path, "max", 1).test.top1
    assert len(found.runs) == 4
    assert found.errors.loc["max", "test_mean"] == pytest.approx(found.runs.loc["max", "test_top1"].mean())
    assert found.curves.loc[("max", "objective", 1), "train"] > 0
    assert found.cost.loc["max", "parameters"] > 1000
    assert "Best: " in str(found)
    assert "<table" in found._repr_html_()


def mp_summary(out, pooling, seed):
    from multipartite.experiments.grid.comparison import place
    from multipartite.experiments.run.store import read_run

    return read_run(place(out, pooling, seed)).summary


def test_all_is_every_pooling_and_each_of_them_trains(tmp_path):
    found = mp.compare("digits", tmp_path, poolings="all", seeds=1, **SMALL)
    assert found.failures == {}
    assert set(found.errors.index) == {*mp.pooling.available(), "multipartite:criterion=energy"}


def test_frames_hold_the_figures_of_the_sheets_to_the_last_bit(tmp_path):
    made_grid(tmp_path, {"max": [1 / 3, 2 / 7], "average": [0.1, 1e-17]})
    grid = mp.Grid(mp.RunConfig("digits", epochs=3, threads=1), ["max", "average"], seeds=2)
    found = mp.compare(grid, tmp_path, pictures=False, quiet=True)
    with (tmp_path / "report" / "errors.csv").open() as file:
        for row in csv.DictReader(file):
            assert found.errors.loc[row["pooling"], "test_mean"] == float(row["test_mean"])
    assert isinstance(found.errors, pd.DataFrame)


def test_a_grid_and_choices_do_not_go_together(tmp_path):
    grid = mp.Grid(mp.RunConfig("digits"), ["max"], seeds=1)
    with pytest.raises(InputError, match="a grid says everything already, got epochs, seeds beside it"):
        mp.compare(grid, tmp_path, epochs=3, seeds=2)
    with pytest.raises(InputError, match="unknown choice of a comparison: 'epoch': did you mean epochs"):
        mp.compare("digits", tmp_path, epoch=3)


def test_runs_that_failed_are_named_with_their_reasons(tmp_path):
    blocked = tmp_path / "runs" / "average" / "seed-0"
    blocked.mkdir(parents=True)
    (blocked / "thesis.txt").touch()
    found = mp.compare("digits", tmp_path, poolings=["max", "average"], seeds=1, **SMALL)
    assert list(found.failures) == ["average/seed-0"]
    assert "is no run" in found.failures["average/seed-0"]
    assert list(found.errors.index) == ["max"]
    with pytest.raises(InputError, match=r"the only run has not finished: average/seed-0: .* is no run"):
        mp.compare("digits", tmp_path, poolings=["average"], seeds=1, **SMALL)


def test_a_client_of_one_s_own_cluster_is_used(tmp_path, monkeypatch):
    from multipartite.experiments.grid import comparison

    given = []

    def run_on(client, jobs):
        given.append((client, [job.folder for job in jobs]))
        return comparison.run_jobs(jobs, 1)

    monkeypatch.setattr(comparison, "run_jobs_on", run_on)
    monkeypatch.chdir(tmp_path)
    mp.compare("digits", "here", poolings=["max"], seeds=1, client="somewhere", **{**SMALL, "workers": None})
    assert given == [("somewhere", [tmp_path / "here" / "runs" / "max" / "seed-0"])]  # absolute: workers are elsewhere


def test_poolings_and_networks_of_one_s_own_reach_the_other_processes(tmp_path, monkeypatch):
    """As in a notebook: functions that no module holds, known in this process alone."""
    from torch import nn

    for registry in registries():
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    def tiny(channels, num_classes):
        layers = nn.Conv2d(channels, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(num_classes)
        return nn.Sequential(*layers)

    mp.networks.register("tiny", tiny)
    mp.pooling.register("power", lambda kernel, stride, padding, norm=2.0: nn.LPPool2d(norm, kernel, stride))
    found = mp.compare(
        "digits", tmp_path, poolings=["max", "power:norm=3"], seeds=1, network="tiny", **{**SMALL, "workers": 2}
    )
    assert found.failures == {}
    assert set(found.errors.index) == {"max", "power:norm=3"}
