import pytest

from command_line import run_example, run_words
from made_runs import made_grid

ERRORS = {"max": [5.0, 6.0, 7.0], "multipartite": [6.0, 7.5, 8.0]}


def test_the_summary_is_written_and_its_gist_printed(tmp_path):
    for name in ("one", "two"):
        made_grid(tmp_path / name, ERRORS)
    status, out, err = run_words("summary", tmp_path / "one", tmp_path / "two", "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("A rival is ahead of ours by mean rank over 2 comparisons: max (1.00)")
    assert lines[-1] == f"Summary: {tmp_path / 'out' / 'summary.html'}"
    assert (tmp_path / "out" / "summary.html").exists()


def test_the_example_of_the_help_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        made_grid(tmp_path / "comparisons" / name, ERRORS)
    assert run_example("summary")[0] == 0
    assert (tmp_path / "summary" / "summary.html").exists()


@pytest.mark.parametrize("words", ["missing", "one", "one two --by train", "one two --out file"])
def test_what_cannot_be_summarised_is_one_sentence_and_status_2(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        made_grid(tmp_path / name, ERRORS)
    (tmp_path / "file").write_text("mine")
    status, out, err = run_words("summary", *words.split())
    assert (status, out) == (2, "")
    assert err.startswith("multipartite: ")
    assert err.count("\n") == 1
