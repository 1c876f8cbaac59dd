"""``multipartite explain``: a picture for every pooling, and a sentence for what cannot be."""

import re
import warnings

import pytest
from PIL import Image

from command_line import run_example, run_words
from multipartite import pooling
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.training import train_run

OPTIONS = ["assignment=soft", "assignment=lines", "groups=4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "first"
    train_run(RunConfig("digits", epochs=1, limit=300, threads=1), path)
    return path


@pytest.mark.parametrize(
    "word",
    [*pooling.available(), *(f"multipartite:{option}" for option in OPTIONS)],
)
def test_every_pooling_gives_a_picture(tmp_path, word):
    train_run(RunConfig("digits", epochs=1, limit=300, pooling=word, threads=1), tmp_path / "run")
    status, out, err = run_words("explain", tmp_path / "run", "--index", 7, "--out", tmp_path / "seen.png")
    assert (status, out, err) == (0, f"{tmp_path / 'seen.png'}\n", "")
    with Image.open(tmp_path / "seen.png") as picture:
        assert picture.size == (1920, 1080)
        assert len(picture.convert("RGB").getcolors(2**24)) > 100


def test_a_network_of_somebody_s_own_is_opened_too(tmp_path):
    config = RunConfig("digits", "networks_of_others:skipping", epochs=1, limit=300, threads=1, pooling="multipartite")
    train_run(config, tmp_path / "run")
    status, out, err = run_words("explain", tmp_path / "run")
    assert (status, out, err) == (0, f"{tmp_path / 'run' / 'explain-0.png'}\n", "")


def test_the_example_of_the_help_runs(run, monkeypatch):
    monkeypatch.chdir(run.parent)
    run.parent.joinpath("runs").symlink_to(".")
    assert run_example("explain")[0] == 0
    assert (run / "explain-7.png").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--index", 360], r"index must lie in \[0, 360\), the test images of digits, got 360"),
        (["--index", -1], "got -1"),
        (["--out", "missing/seen.png"], "cannot write missing/seen.png"),
        (["--out", "seen.docx"], "cannot write seen.docx .*choose another --out"),
    ],
)
def test_what_cannot_be_drawn_is_said(run, words, sentence, monkeypatch):
    monkeypatch.chdir(run)
    status, out, err = run_words("explain", run, *words)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert re.search(sentence, err), err


def test_a_folder_without_a_run_or_without_a_checkpoint(tmp_path, run):
    assert "holds no run" in run_words("explain", tmp_path)[2]
    (tmp_path / "config.json").write_bytes((run / "config.json").read_bytes())
    assert "has no checkpoint yet: train it first" in run_words("explain", tmp_path)[2]


def test_classes_with_names_in_chinese_are_explained(tmp_path):
    for value, name in enumerate(["\u732b", "\u72d7"]):
        (tmp_path / "\u5ba0\u7269" / name).mkdir(parents=True)
        for i in range(12):
            Image.new("L", (12, 12), 100 * value + i).save(tmp_path / "\u5ba0\u7269" / name / f"{i}.png")
    config = RunConfig(str(tmp_path / "\u5ba0\u7269"), epochs=1, batch_size=4, validation=0, threads=1)
    train_run(config, tmp_path / "run")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no font on this machine can draw")  # where none is installed
        status, _, err = run_words("explain", tmp_path / "run")
    assert (status, err) == (0, "")
    assert (tmp_path / "run" / "explain-0.png").exists()
