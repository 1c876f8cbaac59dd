import csv
import json
import re
import time

import pytest

from made_runs import ERRORS, made_grid, made_run
from multipartite.experiments.grid.jobs import Job, work
from multipartite.experiments.report import write_report
from multipartite.experiments.report.estimates import estimate
from multipartite.experiments.run.config import RunConfig

FILES = ["cost.csv", "curves.csv", "curves.png", "errors.csv", "errors.png", "report.html", "report.md", "runs.csv"]


def read_csv(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_one_seed_has_no_deviation_and_no_interval_and_the_report_says_so(tmp_path):
    report = write_report(made_grid(tmp_path, {"max": [5.0], "average": [6.0]}))
    row = next(row for row in report.rows if row.pooling == "average")
    assert (row.test.sd, row.versus.low, row.versus.settled, str(estimate([6.0]))) == (None, None, None, "6.00")
    page, text = report.page.read_text(), (report.page.parent / "report.md").read_text()
    for words in (page, text, " ".join(report.verdict)):
        assert re.search("one seed only", words, re.I)
    assert "±" not in text.split("## Curves")[0].split("Errors are in percent")[0]


def test_all_files_are_written_and_equal_runs_give_equal_files(tmp_path):
    one = write_report(made_grid(tmp_path / "a", ERRORS), pictures=False).page.parent
    two = write_report(made_grid(tmp_path / "b", ERRORS), tmp_path / "elsewhere", pictures=False).page.parent
    assert two == tmp_path / "elsewhere"
    assert sorted(path.name for path in one.iterdir()) == FILES
    for name in FILES:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    table = read_csv(one / "errors.csv")
    assert [float(row["test_mean"]) for row in table] == pytest.approx([4.8, 5.375, 5.75, 7.625])
    assert len(read_csv(one / "runs.csv")) == 16
    assert len(read_csv(one / "curves.csv")) == 4 * 3 * 3
    assert (one / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("classes", [5, 6])
def test_tables_have_a_top_5_error_only_where_there_are_more_than_five_classes(tmp_path, classes):
    for seed, error in enumerate([5.0, 6.0]):
        folder = made_run(tmp_path, "max", seed, error)
        summary = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(json.dumps({**summary, "classes": classes}))
    report = write_report(tmp_path, pictures=False).page.parent
    for name in ("errors.csv", "runs.csv"):
        columns = read_csv(report / name)[0]
        assert any("top5" in column for column in columns) == (classes > 5), name


def test_names_that_come_from_data_are_escaped(tmp_path):
    evil = "<script>alert(1)</script>|`"
    report = write_report(made_grid(tmp_path, {"max": [5.0]}, dataset=evil), pictures=False)
    assert "<script>alert" not in report.page.read_text()
    assert "&lt;script&gt;alert" in report.page.read_text()
    text = (report.page.parent / "report.md").read_text()
    assert "<script>" not in text
    assert "\\|\\`" in text


def test_unfinished_runs_are_named_and_left_out(tmp_path):
    made_grid(tmp_path, ERRORS)
    made_run(tmp_path, "max", 9, 99.0, finished=False)
    report = write_report(tmp_path, pictures=False)
    assert next(row for row in report.rows if row.pooling == "max").test.n == 4
    assert "runs/max/seed-9" in report.page.read_text()


def test_pictures_are_drawn_from_the_checkpoints_and_their_absence_is_said(tmp_path):
    for word in ("max", "multipartite"):
        work(Job(RunConfig("digits", epochs=1, limit=200, threads=1, pooling=word), tmp_path / word / "seed-0"))
    page = write_report(tmp_path).page.read_text()
    assert page.count("<img") == 6 * (1 + 1 + 2)  # images, picks of both, scores of one
    assert "score of every pixel" in page
    for path in tmp_path.glob("*/*/checkpoint*"):
        path.unlink()
    page = write_report(tmp_path).page.read_text()
    assert "<img" not in page
    assert "kept without their weights" in page


def test_the_gallery_shows_which_lines_stay_and_looks_into_networks_of_others(tmp_path):
    word = "multipartite|max|multipartite:assignment=lines,focus=0.5"
    config = RunConfig("digits", "networks_of_others:skipping", word, epochs=1, limit=200, threads=1)
    work(Job(config, tmp_path / "seed-0"))
    page = write_report(tmp_path).page.read_text()
    assert page.count("<img") == 6 * (1 + 3)  # images; scores, picks and lines
    assert "rows and columns that stay in " in page


def test_a_report_of_a_hundred_runs_is_quick_and_small(tmp_path):
    for k in range(20):
        for seed in range(5):
            made_run(tmp_path, f"multipartite:temperature={k + 1}" if k else "max", seed, 5.0 + k + seed, epochs=50)
    began = time.process_time()  # not the clock on the wall: other tests run beside this one
    report = write_report(tmp_path)
    assert time.process_time() - began < 10
    assert report.page.stat().st_size < 5_000_000
    assert len(report.rows) == 20


def test_the_page_asks_nobody_for_anything(tmp_path):
    page = write_report(made_grid(tmp_path, ERRORS), pictures=False).page.read_text()
    outside = re.findall(r"""(?:src|href|url\()\s*=?\s*["']?(?!data:|#)(https?:|//|[\w./-]+\.(?:js|css|png))""", page)
    assert outside == []


def test_top_5_is_left_out_where_it_is_zero_throughout(tmp_path):
    for seed in range(3):
        folder = made_run(tmp_path, "max", seed, 5.0)
        for name in ("metrics.jsonl", "summary.json"):
            text = (folder / name).read_text()
            (folder / name).write_text(re.sub(r'"top5": [\d.]+', '"top5": 0.0', text))
    report = write_report(tmp_path, pictures=False)
    for name in ("report.html", "report.md"):
        assert not re.search("top-5 (test|error)", (report.page.parent / name).read_text(), re.I), name
    assert "top-5 test" in write_report(made_grid(tmp_path / "b", ERRORS), pictures=False).page.read_text()


@pytest.mark.parametrize(("epochs", "words"), [(1, "1 epoch ·"), (3, "3 epochs ·")])
def test_the_page_counts_epochs_in_words(tmp_path, epochs, words):
    made_grid(tmp_path, {"max": [5.0]}, epochs=epochs)
    write_report(tmp_path, tmp_path / "report", pictures=False)
    assert words in (tmp_path / "report" / "report.html").read_text()
