import pytest

from made_runs import made_grid, made_run
from multipartite.errors import InputError
from multipartite.experiments.report import collect


def test_folders_that_cannot_be_reported_on_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match="is not there"):
        collect(tmp_path / "nothing")
    with pytest.raises(InputError, match="holds no runs"):
        collect(tmp_path)
    (tmp_path / "config.json").write_text('{"name": "somebody else\'s"}')
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text("not JSON")
    with pytest.raises(InputError, match="holds no runs"):
        collect(tmp_path)
    made_run(tmp_path / "half", "max", 0, 1.0, finished=False)
    with pytest.raises(InputError, match=r"none of the 1 runs in .* is finished"):
        collect(tmp_path / "half")
    made_grid(tmp_path / "twice" / "a", {"max": [5.0]})
    made_grid(tmp_path / "twice" / "b", {"max": [5.0]})
    with pytest.raises(InputError, match="hold the same run"):
        collect(tmp_path / "twice")


def test_mixed_runs_are_refused_and_the_sentence_says_which(tmp_path):
    made_grid(tmp_path / "a", {"max": [5.0]})
    made_grid(tmp_path / "b", {"max": [5.0]}, dataset="mnist")
    with pytest.raises(InputError, match=r"different data sets are mixed.*digits \(in .*mnist \(in "):
        collect(tmp_path)
    made_grid(tmp_path / "b" / "c", {"average": [5.0]}, dataset="mnist", epochs=2)
    with pytest.raises(InputError, match=r"different settings of epochs are mixed.*2 \(in .*3 \(in "):
        collect(tmp_path / "b")


def test_a_damaged_run_is_left_out_and_named_with_the_folder_to_delete(tmp_path):
    made_grid(tmp_path, {"max": [5.0, 6.0], "average": [5.0, 6.0, 7.0]})
    torn, empty, short = (tmp_path / "runs" / "average" / f"seed-{seed}" for seed in range(3))
    (torn / "config.json").write_text('{"format": 1, "key')
    (empty / "metrics.jsonl").write_text("")
    (short / "summary.json").write_text("{}")
    found = collect(tmp_path)
    assert found.runs.keys() == {"max"}
    assert len(found.damaged) == 3
    for path, sentence in zip((torn, empty, short), found.damaged, strict=True):
        assert f"delete {path} and train the run again" in sentence
    with pytest.raises(InputError, match=r"config\.json is damaged .*: delete .*seed-0 and train the run again"):
        collect(torn)
