import pytest

from multipartite.bench.layers import CASES, PHASES, Case, measure


@pytest.mark.parametrize("shape", [(2, 4, 8), (2, 4, 8, 8), (2, 4, 6, 6, 6)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_row_a_pooling_and_phase(shape, channels_last):
    if channels_last and len(shape) == 3:
        pytest.skip("torch has no channels_last in one dimension")
    rows = list(measure(Case(shape, 2, 2, 3), channels_last=channels_last, seconds=0))
    poolings = {row["pooling"] for row in rows}
    assert {"max", "multipartite-printed", "multipartite", "average", "stochastic"} <= poolings
    assert len(rows) == len(PHASES) * len(poolings)
    assert all(row["ms"] > 0 and row["memory_ratio"] > 0 for row in rows)
    assert all(row["ratio"] == 1 for row in rows if row["pooling"] == "max")


def test_the_case_of_the_paper():
    assert CASES["paper"].shape == (100, 20, 24, 24)
