"""Ranks over comparisons, held against the worked example of Demsar (2006) and scipy."""

import numpy as np
import pytest
from scipy import stats

from multipartite.experiments.report.ranks import critical_difference, friedman, groups, ranks

# Ranks of C4.5 in four settings on fourteen data sets: table 6 of the paper
DEMSAR = [
    [4, 3, 2, 1],
    [1, 2, 3, 4],
    [4, 1, 2, 3],
    [4, 1, 3, 2],
    [4, 2, 3, 1],
    [1, 2.5, 4, 2.5],
    [3, 2, 4, 1],
    [2.5, 2.5, 4, 1],
    [4, 3, 2, 1],
    [2.5, 2.5, 2.5, 2.5],
    [4, 2.5, 1, 2.5],
    [3, 2, 4, 1],
    [4, 1, 2, 3],
    [3, 1, 4, 2],
]


@pytest.mark.parametrize(
    ("methods", "q"),
    list(enumerate((1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164), start=2)),
)
def test_critical_values_are_those_of_the_printed_table(methods, q):
    """Printed to three places, after a table of the studentized range that was itself rounded."""
    root = np.sqrt(methods * (methods + 1) / (6 * 10))
    assert critical_difference(methods, 10) / root == pytest.approx(q, abs=1e-3)


def test_mean_ranks_and_critical_differences_of_the_worked_example():
    assert np.array_equal(ranks(DEMSAR), np.array(DEMSAR))
    assert ranks(DEMSAR).mean(0) == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert critical_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=5e-3)


def test_the_statistic_of_the_worked_example():
    """The paper does not correct for ties: chi = 9.28, F = 3.69; scipy's chi is that over 1 - ties / (N (k^3 - k))."""
    N, k, ties = 14, 4, 3 * (2**3 - 2) + (4**3 - 4)
    chi = 9.28 / (1 - ties / (N * (k**3 - k)))
    expected = stats.f.sf((N - 1) * chi / (N * (k - 1) - chi), k - 1, (k - 1) * (N - 1))
    assert friedman(DEMSAR) == pytest.approx(expected, rel=5e-3)
    assert stats.friedmanchisquare(*np.array(DEMSAR).T).statistic == pytest.approx(chi, abs=6e-3)


def test_without_ties_it_is_the_formula_of_the_paper():
    errors = np.random.default_rng(0).random((9, 5)) + np.arange(5) / 10
    R, N, k = ranks(errors).mean(0), 9, 5
    chi = 12 * N / (k * (k + 1)) * ((R**2).sum() - k * (k + 1) ** 2 / 4)
    F = (N - 1) * chi / (N * (k - 1) - chi)
    assert friedman(errors) == pytest.approx(stats.f.sf(F, k - 1, (k - 1) * (N - 1)))


def test_extremes():
    assert friedman([[1, 2]] * 5) is None
    assert friedman([[1, 2, 3]]) is None
    assert friedman([[4, 4, 4]] * 5) == 1.0
    assert friedman([[1, 2, 3]] * 5) == 0.0


def test_equal_but_for_rounding_is_equal():
    assert ranks([[0.1 + 0.2, 0.3, 0.5]]).tolist() == [[1.5, 1.5, 3.0]]


@pytest.mark.parametrize(
    ("mean_ranks", "critical", "expected"),
    [
        ([1.964, 2.0, 2.893, 3.143], 1.25, [(0, 3)]),
        ([1.0, 2.0, 3.0, 4.0], 0.5, []),
        ([1.0, 1.4, 2.0, 4.0, 4.1], 1.0, [(0, 2), (3, 4)]),
        ([1.0, 2.0, 3.0], 1.0, [(0, 1), (1, 2)]),
    ],
)
def test_groups_are_the_largest_that_are_not_told_apart(mean_ranks, critical, expected):
    assert groups(mean_ranks, critical) == expected
