import pytest
from scipy import stats

from made_runs import ERRORS, made_grid, made_run
from multipartite.experiments.report import collect, write_report
from multipartite.experiments.report.tables import TABLES, order, printed, tabulate


def rows_of(folder):
    collection = collect(folder)
    return {row.pooling: row for row in tabulate(collection.summaries, collection.config.dataset)}


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


def test_speed_is_held_against_runs_of_the_same_code_alone(tmp_path):
    for seed in (0, 1):
        made_run(tmp_path, "max", seed, 5.0)
        made_run(tmp_path, "average", seed, 6.0, version="1" if seed else "2")
        made_run(tmp_path, "stochastic", seed, 6.0, version="2")
    report = write_report(tmp_path, pictures=False)
    assert {row.pooling: row.ratio for row in report.rows} == {"max": 1.0, "average": 0.5, "stochastic": None}
    assert "| stochastic | 500 |  | 256 |" in (tmp_path / "report/report.md").read_text()


def test_the_tables_of_the_paper_stand_beside_ours(tmp_path):
    made_run(tmp_path, "multipartite", 0, 6.0, dataset="mnist", version="0.1.0")
    for word in ("max", "multipartite:assignment=stochastic", "max:dilation=2"):
        made_run(tmp_path, word, 0, 5.0, dataset="mnist")
    report = write_report(tmp_path, pictures=False)
    assert {row.pooling: row.paper for row in report.rows} == {
        "max": (0.04, 0.55),
        "multipartite-printed": (0.38, 0.41),
        "multipartite:assignment=stochastic": None,
        "max:dilation=2": None,
    }
    assert "the paper" in report.page.read_text()
    assert "| 0.38 | 0.41 |" in (report.page.parent / "report.md").read_text()
    assert printed("digits", "max") is None
    for name, table in TABLES.items():
        assert order(name)[0] == ("multipartite-printed",)
        assert min(table, key=lambda pooling: table[pooling][1]) == "multipartite-printed"


def test_rows_are_in_the_order_of_their_test_error(tmp_path):
    names = list(rows_of(made_grid(tmp_path, ERRORS)))
    assert names == ["multipartite:assignment=stochastic", "stochastic", "max", "average"]


def test_a_row_is_named_by_its_words_place_by_place(tmp_path):
    errors = {"max": [5.0], "multipartite:groups=2": [6.0], "max|multipartite:groups=2": [7.0]}
    rows = {row.pooling: (row.name, row.options) for row in rows_of(made_grid(tmp_path, errors)).values()}
    assert rows == {
        "max": ("max", ""),
        "multipartite:groups=2": ("multipartite", "groups=2"),
        "max|multipartite:groups=2": ("max|multipartite", "-|groups=2"),
    }
