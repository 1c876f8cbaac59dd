import csv
import re
import time

import pytest
from scipy import stats

from made_runs import ERRORS, made_grid, made_run
from multipartite.errors import InputError
from multipartite.experiments.grid.jobs import Job, work
from multipartite.experiments.report import collect, write_report
from multipartite.experiments.report.estimates import difference, estimate
from multipartite.experiments.report.paper import TABLES, order, printed
from multipartite.experiments.report.tables import tabulate
from multipartite.experiments.run.config import RunConfig

FILES = ["cost.csv", "curves.csv", "curves.png", "errors.csv", "errors.png", "report.html", "report.md", "runs.csv"]


def read_csv(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def rows_of(folder):
    return {row.pooling: row for row in tabulate(collect(folder))}


def test_means_deviations_and_paired_intervals_are_those_of_scipy(tmp_path):
    rows = rows_of(made_grid(tmp_path, ERRORS))
    ours, base = ERRORS["multipartite:assignment=stochastic"], ERRORS["max"]
    row = rows["multipartite:assignment=stochastic"]
    assert row.test.mean == pytest.approx(4.8)
    assert row.test.sd == pytest.approx(stats.tstd(ours))
    interval = stats.ttest_rel(ours, base).confidence_interval(0.95)
    assert (row.versus.low, row.versus.high) == pytest.approx((interval.low, interval.high))
    assert row.versus.settled is True
    assert rows["max"].versus is None
    assert row.gap.mean == pytest.approx(3.8)
    assert (row.ratio, rows["max"].ratio) == (0.5, 1.0)


def test_seeds_are_paired_by_number_and_not_by_place():
    found = difference({3: 1.0, 5: 2.0, 9: 0.0}, {5: 4.0, 3: 2.0})
    assert (found.mean, found.n) == (-1.5, 2)
    assert difference({1: 1.0}, {2: 1.0}) is None
    assert difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}).settled is False


def test_one_seed_has_no_deviation_and_no_interval_and_the_report_says_so(tmp_path):
    report = write_report(made_grid(tmp_path, {"max": [5.0], "average": [6.0]}))
    row = rows_of(tmp_path)["average"]
    assert (row.test.sd, row.versus.low, row.versus.settled, str(estimate([6.0]))) == (None, None, None, "6.00")
    page, text = report.page.read_text(), (report.page.parent / "report.md").read_text()
    for words in (page, text, " ".join(report.verdict)):
        assert re.search("one seed only", words, re.I)
    assert "±" not in text.split("## Curves")[0].split("Errors are in percent")[0]


def test_the_tables_of_the_paper_stand_beside_ours(tmp_path):
    report = write_report(made_grid(tmp_path, {"max": [5.0], "multipartite": [6.0]}, dataset="mnist"), pictures=False)
    row = next(row for row in report.rows if row.pooling == "multipartite")
    assert row.paper == (0.38, 0.41)
    assert "the paper" in report.page.read_text()
    assert "| 0.38 | 0.41 |" in (report.page.parent / "report.md").read_text()
    assert printed("digits", "max") is None
    for name, table in TABLES.items():
        assert order(name)[0] == ("multipartite",)
        assert min(table, key=lambda pooling: table[pooling][1]) == "multipartite"


def test_rows_are_in_the_order_of_the_papers_tables(tmp_path):
    names = list(rows_of(made_grid(tmp_path, dict(reversed(ERRORS.items())))))
    assert names == ["average", "max", "stochastic", "multipartite:assignment=stochastic"]


def test_all_files_are_written_and_equal_runs_give_equal_files(tmp_path):
    one = write_report(made_grid(tmp_path / "a", ERRORS), pictures=False).page.parent
    two = write_report(made_grid(tmp_path / "b", ERRORS), tmp_path / "elsewhere", pictures=False).page.parent
    assert two == tmp_path / "elsewhere"
    assert sorted(path.name for path in one.iterdir()) == FILES
    for name in FILES:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    table = read_csv(one / "errors.csv")
    assert [float(row["test_mean"]) for row in table] == pytest.approx([7.625, 5.75, 5.375, 4.8])
    assert len(read_csv(one / "runs.csv")) == 16
    assert len(read_csv(one / "curves.csv")) == 4 * 3 * 3
    assert (one / "curves.png").read_bytes().startswith(b"\x89PNG")


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
