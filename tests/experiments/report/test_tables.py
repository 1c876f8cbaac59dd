from made_runs import made_grid
from multipartite.experiments.report import collect
from multipartite.experiments.report.tables import tabulate


def test_a_row_is_named_by_its_words_place_by_place(tmp_path):
    errors = {"max": [5.0], "multipartite:groups=2": [6.0], "max|multipartite:groups=2": [7.0]}
    rows = {row.pooling: (row.name, row.options) for row in tabulate(collect(made_grid(tmp_path, errors)))}
    assert rows == {
        "max": ("max", ""),
        "multipartite:groups=2": ("multipartite", "groups=2"),
        "max|multipartite:groups=2": ("max|multipartite", "-|groups=2"),
    }
