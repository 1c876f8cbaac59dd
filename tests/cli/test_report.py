import errno
import os

import pytest

from command_line import run_example, run_words
from made_runs import made_grid, made_run


def test_the_report_is_written_and_its_gist_printed(tmp_path):
    made_grid(tmp_path, {"max": [5.0, 6.0], "average": [6.0, 7.5]})
    status, out, err = run_words("report", tmp_path, "--no-pictures")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("Best: max with 5.50% test error")
    assert lines[3] == f"Report: {tmp_path / 'report' / 'report.html'}"
    assert (tmp_path / "report" / "report.html").exists()


def test_the_example_of_the_help_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made_grid(tmp_path / "comparisons" / "first", {"max": [5.0], "average": [6.0]})
    assert run_example("report")[0] == 0
    assert os.listdir("report")


@pytest.mark.parametrize("kind", ["missing", "empty", "foreign", "mixed"])
def test_what_cannot_be_reported_is_one_sentence_and_status_2(tmp_path, kind):
    folder = tmp_path / kind
    if kind != "missing":
        folder.mkdir()
    if kind == "foreign":
        (folder / "config.json").write_text('{"format": "other"}')
    if kind == "mixed":
        made_run(folder / "a", "max", 0, 1.0)
        made_run(folder / "b", "max", 0, 1.0, dataset="mnist")
    status, out, err = run_words("report", folder)
    assert (status, out) == (2, "")
    assert err.startswith("multipartite: ")
    assert err.count("\n") == 1
    if kind == "mixed":
        assert "digits" in err
        assert "mnist" in err


def test_a_damaged_run_is_named_and_the_others_are_reported(tmp_path):
    made_grid(tmp_path, {"max": [5.0, 6.0], "average": [6.0, 7.5]})
    torn = tmp_path / "runs" / "max" / "seed-1"
    (torn / "config.json").write_text("{")
    status, out, err = run_words("report", tmp_path, "--no-pictures")
    assert status == 0
    assert "Best: max with 5.00% test error (one seed only)" in out
    assert err.startswith("multipartite: left out: ")
    assert f"delete {torn}" in err
    assert err.count("\n") == 1
    for name in ("report.html", "report.md"):
        assert f"delete {torn}" in (tmp_path / "report" / name).read_text()


@pytest.mark.parametrize("kind", ["a file", "a full disk", "a read-only disk"])
def test_what_cannot_be_written_is_one_sentence_and_status_2(tmp_path, kind, monkeypatch):
    made_grid(tmp_path / "runs", {"max": [5.0]})
    place = tmp_path / "report"
    if kind == "a file":
        place.write_text("mine")
    else:
        number = errno.ENOSPC if kind == "a full disk" else errno.EROFS

        def refuse(handle):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", refuse)
    status, out, err = run_words("report", tmp_path / "runs", "--no-pictures", "--out", place)
    assert (status, out) == (2, "")
    reason = {"a file": "File exists", "a full disk": "No space left on device"}.get(kind, "Read-only file system")
    assert err == f"multipartite: cannot write into {place} ({reason}): choose another --out\n"
