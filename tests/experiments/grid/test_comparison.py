from pathlib import Path

import pytest

from made_runs import made_run
from multipartite.errors import InputError
from multipartite.experiments.compare import make_grid
from multipartite.experiments.grid.comparison import Grid, check_settings, place, spell_out
from multipartite.experiments.grid.jobs import work
from multipartite.experiments.run.config import RunConfig
from multipartite.pooling import available

SMALL = RunConfig("digits", epochs=1, limit=200, threads=1)


def test_an_unknown_pooling_is_refused():
    with pytest.raises(InputError, match="unknown pooling 'groups=2'"):
        Grid(SMALL, ("max", "groups=2"), 1)


def test_every_pooling_of_a_seed_starts_from_the_same_weights_and_sees_the_same_batches(tmp_path):
    grid = Grid(SMALL, ("max", "average", "multipartite:assignment=stochastic"), seeds=2)
    found = {(job.config.pooling, job.config.seed): work(job).summary for job in grid.jobs(tmp_path)}
    for seed in (0, 1):
        assert len({found[word, seed].initial for word in grid.poolings}) == 1
        assert len({found[word, seed].order for word in grid.poolings}) == 1
        assert len({found[word, seed].final for word in grid.poolings}) == 3
    assert found["max", 0].initial != found["max", 1].initial
    assert found["max", 0].order != found["max", 1].order


def test_the_same_setting_written_in_two_ways_is_one_pooling():
    with pytest.raises(InputError, match="are the same"):
        Grid(SMALL, ("multipartite:groups=2,temperature=2", "multipartite:temperature=2,groups=2"), 1)


def test_all_stands_for_every_pooling_once_beside_other_words():
    every = (*available(), "multipartite:criterion=energy")
    assert {"blur", "fractional", "gated", "lip", "lp", "max", "mixed", "s3", "softpool", "strided"} <= set(every)
    assert spell_out(["all"]) == every
    assert spell_out(["max", "lp:p=3", "all"]) == ("max", "lp:p=3", *(word for word in every if word != "max"))
    assert make_grid("digits", poolings="all,lp:p=3").poolings == (*every, "lp:p=3")
    assert make_grid("digits", poolings=["max"]).poolings == ("max",)


@pytest.mark.parametrize(("poolings", "seeds", "words"), [((), 1, "at least one of"), (("max",), 0, "seeds must be")])
def test_empty_grids_are_refused(poolings, seeds, words):
    with pytest.raises(InputError, match=words):
        Grid(SMALL, poolings, seeds)


def test_folders_stay_inside_whatever_an_option_says():
    folder = place(Path("out"), "max:ceil_mode=../../x", 0)
    assert ".." not in folder.parts
    assert folder.parts[:2] == ("out", "runs")


def test_a_folder_with_other_settings_is_refused_before_anything_is_trained(tmp_path):
    made_run(tmp_path, "average", 0, 5.0)
    check_settings(RunConfig("digits", epochs=3), tmp_path)
    with pytest.raises(InputError, match="holds runs with epochs=3, not epochs=4: choose another --out"):
        check_settings(RunConfig("digits", epochs=4), tmp_path)
