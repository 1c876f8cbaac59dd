"""``multipartite train``: the example, the sentences, the signals, and the time that --help takes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from command_line import run_example, run_words
from multipartite.experiments.run import store
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import read_run

COMMAND = str(Path(sys.executable).with_name("multipartite"))
SHORT = ["--epochs", 1, "--limit", 300, "--threads", 1]


def test_the_example_of_the_help_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run_example("train")
    assert status == 0
    assert re.fullmatch(r"test error \d+\.\d\d% .* parameters\nruns/first\n", out)
    run = read_run("runs/first")
    assert run.config == RunConfig("digits", pooling="average", epochs=2)  # the defaults agree, too
    assert run.finished


def test_nothing_but_the_result_is_written_where_there_is_no_terminal(tmp_path):
    status, out, err = run_words("train", "digits", *SHORT, "--out", tmp_path / "run")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 2


def test_the_folder_is_named_after_the_run_where_none_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_words("train", "digits", *SHORT, "--seed", 3, "--pooling", "max:dilation=1")[0] == 0
    assert read_run("runs/digits-max-dilation=1-3").finished


def test_tensorboard_events_hold_the_metrics(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert run_words("train", "digits", *SHORT, "--tensorboard", "--out", tmp_path / "run")[0] == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    run = read_run(tmp_path / "run")
    assert events.Scalars("objective/train")[0].value == pytest.approx(run.metrics[0].train.objective)
    assert events.Scalars("top1/validation")[0].value == pytest.approx(run.metrics[0].validation.top1)
    assert events.Scalars("top1/test")[0].value == pytest.approx(run.summary.test.top1)
    assert {"top5/train", "top5/validation", "top5/test"} < set(events.Tags()["scalars"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name a data set, such as digits"),
        (["digts"], "unknown data set 'digts': did you mean digits"),
        (["digits", "--network", "lenett"], "unknown network 'lenett': did you mean lenet"),
        (["digits", "--network", "lenet"], "needs images of at least 16 x 16 pixels, got 8 x 8"),
        (["digits", "--pooling", "mx"], "unknown pooling 'mx': did you mean max"),
        (["digits", "--pooling", "max:dilatio=2"], "did you mean dilation"),
        (["digits", "--pooling", "max:dilation=two"], "pooling 'max:dilation=two' does not work"),
        (["digits", "--pooling", "multipartite:groups=7"], "groups=7"),
        (["digits", "--pooling", "multipartite:criterion=roc"], "roc"),
        (["digits", "--epochs", 0], "epochs must be at least 1, got 0"),
        (["digits", "--seed", -1], "seed must be a whole number from 0"),
        (
            ["digits", "--batch-size", 2000],
            "batch_size=2000 is more than the 1293 .*, such as 129",
        ),
        (["digits", "--limit", 3], "limit must lie from 10"),
        (["digits", "--precision", "8"], "unknown precision '8'"),
        (["digits", "--accelerator", "abacus"], "accelerator, devices or precision do not work here"),
        (["mnist", "--no-download", "--data-dir", "empty"], "mnist/train-images-idx3-ubyte.gz"),
        (["empty"], "empty"),
        (["--resume", "--out", "empty"], "empty holds no run"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    status, out, err = run_words("train", *words)
    assert (status, out) == (2, "")
    assert re.search(sentence, err), err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    status, _, err = run_words("train", "digits", *SHORT, "--out", tmp_path / "run")
    assert status == 2
    assert re.fullmatch(r"multipartite: cannot write .*config.json \(No space left on device\);.*\n", err)


def test_a_damaged_checkpoint_is_said_in_a_sentence(tmp_path):
    words = ["train", "digits", "--epochs", 2, "--limit", 300, "--threads", 1, "--out", tmp_path / "run"]
    assert run_words(*words)[0] == 0
    (tmp_path / "run" / "summary.json").unlink()
    (tmp_path / "run" / store.CHECKPOINT).write_bytes(b"no")
    status, _, err = run_words(*words, "--resume")
    assert status == 0
    assert re.fullmatch(r"multipartite: .*checkpoint.safetensors is damaged .* going on from the one before.*\n", err)


def test_the_version_is_told():
    from multipartite import __version__

    assert run_words("--version") == (0, f"multipartite {__version__}\n", "")
    told = subprocess.run(
        [sys.executable, "-m", "multipartite", "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout == f"multipartite {__version__}\n"


def test_one_epoch_is_not_called_epochs_and_ten_classes_have_a_top_5(tmp_path):
    _, out, _ = run_words("train", "digits", *SHORT, "--out", tmp_path / "run")
    assert "; 1 epoch in " in out
    assert "top-5" in out


def test_five_classes_or_fewer_have_no_top_5(tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.chdir(tmp_path)
    Path("few.py").write_text(
        "from dataclasses import replace\nfrom multipartite.experiments.data import load\n"
        "def few(folder, seed):\n"
        "    data = load('digits')\n"
        "    train, test = (part.take((part.labels < 5).nonzero()[:, 0]) for part in (data.train, data.test))\n"
        "    return replace(data, train=train, test=test, class_names=data.class_names[:5])\n"
    )
    status, out, err = run_words("train", "few:few", "--epochs", 1, "--threads", 1, "--tensorboard")
    assert status == 0, err
    assert "top-5" not in out
    assert out.splitlines()[-1] == "runs/few-few-max-0"
    events = EventAccumulator("runs/few-few-max-0/tensorboard")
    events.Reload()
    names = set(events.Tags()["scalars"])
    assert {"top1/train", "top1/validation", "top1/test"} < names
    assert not [name for name in names if "top5" in name]


def test_a_file_in_place_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    status, _, err = run_words("train", "digits", *SHORT, "--out", tmp_path / "file")
    assert status == 2
    assert re.fullmatch(r"multipartite: .*file is there and is no run: choose a new folder\n", err)


def test_sigterm_says_how_to_start_again_where_nothing_is_written_yet(tmp_path, monkeypatch):
    def stopped(config):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("multipartite.experiments.run.training.prepare", stopped)
    before = signal.getsignal(signal.SIGTERM)
    status, _, err = run_words("train", "digits", *SHORT, "--out", tmp_path / "run")
    assert status == 143
    assert err == "multipartite: stopped; nothing was written yet: start again with the same command\n"
    assert not (tmp_path / "run" / "config.json").exists()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_ctrl_c_ends_with_a_checkpoint_and_resume_goes_on_to_the_same_bits(tmp_path):
    words = ["train", "digits", "--epochs", "60", "--threads", "1", "--out"]
    training = subprocess.Popen([COMMAND, *words, str(tmp_path / "run")], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    training.send_signal(signal.SIGINT)
    _, err = training.communicate(timeout=60)
    assert training.returncode == 130
    assert re.fullmatch(r"multipartite: stopped .* go on with: multipartite train --out .* --resume\n", err)
    assert 0 < len(read_run(tmp_path / "run").metrics) < 60
    assert run_words("train", "--out", tmp_path / "run", "--resume")[0] == 0
    assert run_words(*words, tmp_path / "whole")[0] == 0
    assert read_run(tmp_path / "run").summary.final == read_run(tmp_path / "whole").summary.final


@pytest.mark.slow
def test_a_slice_of_mnist_is_learned(tmp_path):
    folder = os.environ.get("MULTIPARTITE_DATA")
    if not folder or not Path(folder, "mnist").is_dir():
        pytest.skip("MNIST is not under MULTIPARTITE_DATA")
    for word, most in (("max", 6), ("multipartite", 8)):
        words = ["train", "mnist", "--limit", 4000, "--epochs", 4, "--threads", 1, "--pooling", word]
        status, _, err = run_words(*words, "--out", tmp_path / word)
        assert status == 0, err
        assert json.loads((tmp_path / word / "summary.json").read_text())["test"]["top1"] < most


def test_help_imports_nothing_heavy():
    code = "import sys; sys.argv = ['multipartite', '--help']\nfrom multipartite.cli import main\n"
    code += (
        "try:\n    main()\nfinally:\n    print(sorted({'torch', 'matplotlib', 'pandas', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.rstrip().endswith("[]"), done.stdout


def test_unreadable_images_are_named_or_left_out(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(12):
            Image.new("L", (12, 12), 20 * i).save(tmp_path / "own" / name / f"{i}.png")
    (tmp_path / "own" / "a" / "4.png").write_text("no image")
    words = ["train", tmp_path / "own", "--epochs", 1, "--batch-size", 4, "--validation", 0, "--out", tmp_path / "run"]
    status, _, err = run_words(*words)
    assert status == 2
    assert re.fullmatch(r"multipartite: 1 of 24 images cannot be read: .*a/4.png .* --skip-unreadable\n", err)
    status, _, err = run_words(*words, "--skip-unreadable")
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith("multipartite: left out, 1 of 24 images cannot be read")
    assert read_run(tmp_path / "run").config.skip_unreadable


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train mnits", "unknown data set 'mnits': did you mean mnist?"),
        ("compare mnits", "unknown data set 'mnits': did you mean mnist?"),
        ("tune mnits", "unknown data set 'mnits': did you mean mnist?"),
        ("data get mnits", "unknown data set 'mnits': did you mean mnist?"),
        ("train digits --network lenett", "unknown network 'lenett': did you mean lenet?"),
        ("train digits --pooling mx", "unknown pooling 'mx': did you mean max?"),
    ],
)
def test_a_mistyped_name_is_answered_before_torch_is_imported(line, sentence):
    code = "import sys; from multipartite.cli import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "False\n")
    assert done.stderr.startswith(f"multipartite: {sentence}")
