"""The folder of a run: what is in it, what is skipped, and what is refused."""

import dataclasses
import json
import time
from pathlib import Path

import pytest

import multipartite
from made_runs import made_run
from multipartite.errors import InputError
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Progress, is_run, lock_file, progress, read_run
from multipartite.experiments.run.training import train_run

SMALL = RunConfig("digits", epochs=2, limit=330, batch_size=33, threads=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "finished"
    train_run(SMALL, path)
    return path


def test_the_folder_tells_all(finished):
    names = sorted(path.name for path in finished.iterdir())
    assert names == [
        "checkpoint-previous.safetensors",
        "checkpoint.safetensors",
        "config.json",
        "metrics.jsonl",
        "summary.json",
    ]
    run = read_run(finished)
    assert run.config == SMALL
    assert run.finished
    assert run.versions["torch"]
    assert run.versions["multipartite"] == multipartite.__version__
    assert run.revision is None or len(run.revision.rstrip("+")) == 40
    assert json.loads((finished / "config.json").read_text())["key"] == SMALL.key == run.summary.key


def test_a_finished_run_is_returned_as_it_is(finished):
    before = {path.name: path.stat().st_mtime_ns for path in finished.iterdir()}
    assert train_run(SMALL, finished) == read_run(finished).summary
    assert {path.name: path.stat().st_mtime_ns for path in finished.iterdir()} == before


def test_the_same_run_on_another_machine_is_the_same_run(finished):
    assert train_run(dataclasses.replace(SMALL, threads=2), finished) == read_run(finished).summary


def test_another_run_is_refused_and_the_difference_named(finished):
    with pytest.raises(InputError, match=r"holds another run .pooling='max' not 'average', seed=0 not 4."):
        train_run(dataclasses.replace(SMALL, pooling="average", seed=4), finished)


def test_without_resume_a_folder_with_a_run_is_refused(finished):
    with pytest.raises(InputError, match=r"already holds this run, finished: add --resume"):
        train_run(SMALL, finished, resume=False)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"is there and is no run: choose a new folder"):
        train_run(SMALL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_killed_at_its_very_first_write_can_be_started_again(tmp_path):
    (tmp_path / ".config.json.part").write_text('{"format"')
    train_run(dataclasses.replace(SMALL, epochs=1), tmp_path)
    assert read_run(tmp_path).finished
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*file/run"):
        train_run(SMALL, tmp_path / "file" / "run")


def test_no_run_is_said(tmp_path):
    with pytest.raises(InputError, match=r"holds no run: there is no config.json"):
        read_run(tmp_path)


@pytest.mark.parametrize("head", [{"format": 0}, {}, []])
def test_an_older_format_is_said(tmp_path, head):
    (tmp_path / "config.json").write_text(json.dumps(head))
    with pytest.raises(
        InputError, match=r"holds a run of format (0|None), this version reads format 1: train it again"
    ):
        read_run(tmp_path)


def copied(run, folder):
    folder.mkdir()
    for path in run.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("config.json", "{", r"config.json is damaged \(Expecting"),
        ("config.json", "", r"config.json is damaged \(Expecting"),
        ("metrics.jsonl", '{"epoch": 1}\n', r"is damaged \(TypeError"),
        ("metrics.jsonl", "\x00\x00", r"is damaged \(JSONDecodeError"),
        ("metrics.jsonl", "", r"is damaged \(metrics.jsonl holds 0 of 2 epochs\)"),
        ("summary.json", "[]", r"is damaged \(TypeError"),
    ],
)
def test_a_damaged_run_is_still_a_run_and_the_folder_to_delete_is_named(tmp_path, finished, name, content, reason):
    folder = copied(finished, tmp_path / "run")
    (folder / name).write_text(content)
    assert is_run(folder)
    with pytest.raises(InputError, match=rf"{reason}.*: delete {folder} and train the run again$"):
        read_run(folder)


def test_other_people_s_configurations_are_no_runs(tmp_path, finished):
    assert is_run(finished)
    assert not is_run(tmp_path)
    for content in ("{}", "[]", "{", '{"format": 1}'):
        (tmp_path / "config.json").write_text(content)
        assert not is_run(tmp_path)


def test_progress_is_read_off_the_folder(tmp_path, finished):
    run = read_run(finished)
    assert progress(finished) == Progress(2, test=run.summary.test.top1)
    folder = copied(finished, tmp_path / "run")
    (folder / "summary.json").unlink()
    assert progress(folder) == Progress(2, error=run.metrics[-1].validation.top1)
    lock_file(folder).touch()
    assert progress(folder).taken == pytest.approx(time.time(), abs=60)
    (folder / "metrics.jsonl").unlink()
    assert progress(folder).epochs == 0


RESULTS = Path(__file__).parents[3] / "results"


def test_every_committed_run_is_read():
    folders = sorted(path.parent for path in RESULTS.rglob("config.json"))
    assert len(folders) >= 100
    for folder in folders:
        assert is_run(folder)
        run = read_run(folder)
        assert run.finished
        head = json.loads((folder / "config.json").read_text())  # as written: old poolings are renamed when read
        assert RunConfig.from_json(head["config"]).key == head["key"] == run.summary.key


@pytest.mark.parametrize(
    ("version", "was", "now"),
    [
        ("0.1.0", "max", "max"),
        ("0.1.0", "multipartite", "multipartite-printed"),
        ("0.1.0", "multipartite:assignment=hard,groups=2", "multipartite-printed:groups=2"),
        ("0.1.0", "multipartite:assignment=stochastic", "multipartite:assignment=stochastic,gather=None"),
        ("0.1.0", "max|multipartite", "max|multipartite-printed"),
        ("0.2.0", "multipartite", "multipartite:gather=max"),
        ("0.2.0", "multipartite:criterion=energy", "multipartite:criterion=energy,gather=max"),
        ("0.2.0", "multipartite:gather=None", "multipartite:gather=None"),
        ("0.2.0", "multipartite:gather=blur,groups=2", "multipartite:groups=2"),
        ("0.2.0", "max|multipartite", "max|multipartite:gather=max"),
        ("0.2.0", "multipartite-printed", "multipartite-printed"),
        ("0.3.0", "multipartite", "multipartite"),
    ],
)
def test_poolings_of_old_runs_are_read_in_words_of_today(tmp_path, version, was, now):
    old = read_run(made_run(tmp_path, was, 0, 5.0, version=version))
    assert old.config.pooling == now
    assert old.config == RunConfig.from_json(old.config.to_json())  # the words are valid ones


def test_a_new_run_does_not_go_on_in_the_folder_of_one_before_0_2_0(tmp_path):
    folder = made_run(tmp_path, "multipartite", 0, 5.0, version="0.1.0")
    with pytest.raises(InputError, match=r"another run \(pooling='multipartite-printed' not 'multipartite'\)"):
        train_run(RunConfig("digits", epochs=3, threads=1, pooling="multipartite"), folder)
