import os
import random
import re
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import torch

from command_line import run_example, run_words
from data_files import lay_out
from made_runs import made_grid

MULTIPARTITE = [sys.executable, "-c", "from multipartite.cli import main; main()"]
GRID = ["compare", "digits", "--poolings", "max,multipartite:assignment=stochastic,temperature=2", "--seeds", "2"]
TABLES = ("errors.csv", "runs.csv", "curves.csv")


def tables(out):
    return {name: (out / "report" / name).read_text() for name in TABLES}


def test_the_grid_is_trained_reported_and_not_trained_again(tmp_path):
    words = [*GRID, "--epochs", "1", "--limit", "200", "--jobs", "1", "--out", tmp_path / "a"]
    status, out, err = run_words(*words)
    assert status == 0
    assert [line.split(":")[0] for line in err.splitlines()] == [
        "1/4 max/seed-0",
        "2/4 multipartite-assignment=stochastic-temperature=2/seed-0",
        "3/4 max/seed-1",
        "4/4 multipartite-assignment=stochastic-temperature=2/seed-1",
    ]
    assert len(out.splitlines()) == 4
    assert out.startswith("Best: ")
    assert out.splitlines()[-1] == f"Report: {tmp_path / 'a' / 'report' / 'report.html'}"
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("a/runs/*/*/*")}
    assert len(stamps) >= 4 * 3
    assert run_words(*words)[:2] == (0, out)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("a/runs/*/*/*")} == stamps
    assert run_words(*words[:-1], tmp_path / "b")[0] == 0
    assert tables(tmp_path / "a") == tables(tmp_path / "b")
    status, _, err = run_words(*words, "--epochs", "2")
    assert status == 2
    assert "holds runs with epochs=1, not epochs=2" in err


@pytest.mark.parametrize(
    ("dataset", "average", "proposed"),
    [
        ("mnist", "0.57 | 0.83", "0.38 | 0.41"),
        ("cifar10", "1.92 | 19.24", "12.63 | 13.45"),
        ("cifar100", "11.20 | 47.77", "36.32 | 40.81"),
        ("svhn", "1.65 | 3.72", "2.09 | 2.15"),
    ],
)
def test_each_table_of_the_paper_is_one_command(dataset, average, proposed, tmp_path, monkeypatch):
    lay_out(dataset, tmp_path / "data", monkeypatch, {"n": 400, "classes": 100 if dataset == "cifar100" else 10})
    network = "lenet" if dataset == "mnist" else "zeiler:width=4"
    poolings = "average,max,stochastic,multipartite-printed"
    what = ["--network", network, "--poolings", poolings, "--seeds", "1", "--epochs", "1", "--validation", "0.25"]
    where = ["--data-dir", tmp_path / "data", "--no-download", "--out", tmp_path / "out"]
    assert run_words("compare", dataset, *what, "--jobs", "1", *where)[0] == 0
    lines = (tmp_path / "out/report/report.md").read_text().splitlines()
    rows = {name: [line for line in lines if line.startswith(f"| {name} | 1 |")] for name in poolings.split(",")}
    assert [len(row) for row in rows.values()] == [1, 1, 1, 1]
    assert rows["average"][0].endswith(f"| {average} |")
    assert rows["multipartite-printed"][0].endswith(f"| {proposed} |")


@pytest.mark.slow
def test_the_example_of_the_help_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run_example("compare")
    assert status == 0
    assert "Report: comparisons/first/report/report.html" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--poolings", "maxx"], "unknown pooling 'maxx': did you mean max?"),
        (["--poolings", "max,max"], "are the same"),
        (["--poolings", ","], "at least one of"),
        (["--seeds", "0"], "seeds must be at least 1"),
        (["--jobs", "0"], "jobs must be at least 1"),
        (["--epochs", "0"], "epochs must be at least 1"),
        (["--poolings", "multipartite:groups=7"], "groups=7"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2_before_anything_is_trained(tmp_path, words, said):
    status, out, err = run_words("compare", "digits", "--out", tmp_path / "new", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_run_that_fails_is_named_and_the_others_are_reported(tmp_path):
    blocked = tmp_path / "runs" / "average" / "seed-0"
    blocked.mkdir(parents=True)
    (blocked / "thesis.txt").touch()
    words = ["compare", "digits", "--poolings", "max,average", "--seeds", "1", "--epochs", "1", "--limit", "200"]
    status, out, err = run_words(*words, "--jobs", "1", "--out", tmp_path)
    assert status == 2
    assert "Best: max" in out
    assert re.search(r"1 of 2 runs failed: average/seed-0: .* is no run: choose a new folder\n", err)


def test_where_no_run_finishes_the_reason_is_said(tmp_path):
    words = ["compare", "digits", "--poolings", "max,average", "--seeds", "1", "--epochs", "1", "--lr", "1e30"]
    status, out, err = run_words(*words, "--limit", "200", "--batch-size", "20", "--jobs", "1", "--out", tmp_path)
    assert (status, out) == (2, "")
    assert re.search(r"none of the 2 runs finished: max/seed-0 and 1 more: training diverged .* choose lr below 1", err)


TINY = ["--seeds", "1", "--epochs", "1", "--limit", "200", "--jobs", "1"]


def test_an_accelerator_that_is_not_there_is_said_before_anything_is_trained(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    words = ["compare", "digits", "--poolings", "max", *TINY, "--accelerator", "cuda", "--out", tmp_path / "new"]
    status, out, err = run_words(*words)
    assert (status, out) == (2, "")
    assert re.fullmatch(r"multipartite: accelerator, devices or precision do not work here: .*\n", err)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["file", "below a file", "no such device"])
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_trained(tmp_path, kind):
    (tmp_path / "file").touch()
    out = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "new", "no such device": "/proc/new"}[kind]
    status, said, err = run_words("compare", "digits", "--poolings", "max", *TINY, "--out", out)
    assert (status, said) == (2, "")
    assert re.fullmatch(rf"multipartite: cannot write into {out} \(.+\): choose another folder\n", err)


def test_a_full_disk_is_said_with_the_runs_that_it_stopped(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    status, out, err = run_words("compare", "digits", "--poolings", "max,average", *TINY, "--out", tmp_path)
    assert (status, out) == (2, "")
    assert re.search(r"none of the 2 runs finished: max/seed-0: cannot write .*config.json \(No space left", err)
    assert "Errno" not in err
    assert "Traceback" not in err


def test_a_disk_that_is_full_when_the_report_is_written_is_said(tmp_path, monkeypatch):
    made_grid(tmp_path, {"max": [5.0], "average": [6.0]})
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    words = ["--poolings", "max,average", "--seeds", "1", "--epochs", "3", "--jobs", "1"]
    status, _, err = run_words("compare", "digits", *words, "--out", tmp_path)
    assert status == 2
    assert re.search(r"multipartite: cannot write .*report.* \(No space left on device\)", err)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "digts"], "did you mean digits"),
        (["compare", "digits", "--poolings", "max,averge"], "did you mean average"),
        (["compare", "digits", "--network", "lenett"], "did you mean lenet"),
        (["tune", "digits", "--pooling", "multipartit"], "did you mean multipartite"),
        (["train", "digits", "--pooling", "stochstic"], "did you mean stochastic"),
    ],
)
def test_what_is_mistyped_is_answered_without_torch(words, said):
    code = f"import sys; sys.argv = ['multipartite', *{words!r}]\nfrom multipartite.cli import main\n"
    code += "try:\n    main()\nfinally:\n    print(sorted({'torch', 'sklearn', 'optuna'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_jobs_do_not_change_the_numbers(tmp_path):
    for jobs in ("1", "2"):
        words = [*GRID, "--epochs", "2", "--jobs", jobs, "--out", tmp_path / jobs]
        assert run_words(*words)[0] == 0
    assert tables(tmp_path / "1") == tables(tmp_path / "2")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_politely_and_the_same_command_goes_on(tmp_path, kind):
    words = [*MULTIPARTITE, *GRID, "--epochs", "400", "--jobs", "2", "--out", tmp_path]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background are deaf to it
    started = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        wait_for(lambda: list(tmp_path.glob("runs/*/*/metrics.jsonl")), started)
        started.send_signal(kind)
        _, err = started.communicate(timeout=60)
    finally:
        started.kill()
    assert started.returncode == 128 + kind
    assert f"stopped; the same command goes on with {tmp_path}" in err
    assert "Traceback" not in err


def wait_for(found, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not found():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_killed_twenty_times_at_random_moments_it_ends_with_the_table_of_an_undisturbed_one(tmp_path):
    words = [*GRID, "--epochs", "30", "--jobs", "2"]
    assert run_words(*words, "--out", tmp_path / "calm")[0] == 0
    chance = random.Random(7)
    command = [*MULTIPARTITE, *words, "--out", tmp_path / "killed"]
    kills = 0
    while kills < 20:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        before = epochs(tmp_path / "killed")
        moment = chance.uniform(0, 1.2)  # after training has begun again; some moments come before, see below
        early = chance.random() < 0.3
        while process.poll() is None and not early and epochs(tmp_path / "killed") == before:
            if time.monotonic() - began > 90:
                break
            time.sleep(0.01)
        time.sleep(moment)
        process.kill()
        process.wait()
        kills += 1
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert ended.returncode == 0, ended.stderr
    assert tables(tmp_path / "calm") == tables(tmp_path / "killed")


def epochs(out):
    """Epochs done in all runs together."""
    return sum(path.read_bytes().count(b"\n") for path in out.glob("runs/*/*/metrics.jsonl"))
