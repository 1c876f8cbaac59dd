"""Two-group criteria (Eq. 1) against scipy, scikit-learn, numerical integration and scalar loops."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.metrics import roc_auc_score

import reference
from multipartite.criteria import (
    CRITERIA,
    Absolute,
    Group,
    Quadratic,
    column_criterion,
    for_columns,
    register,
    row_form,
)
from multipartite.errors import InputError

GAUSSIAN = [name for name, measure in CRITERIA.items() if measure.from_moments is not None]
PAIRS = [(0.0, 1.0, 0.0, 1.0), (0.0, 1.0, 3.0, 1.0), (-2.0, 0.5, 1.0, 4.0), (5.0, 1e-3, 5.0, 2.0)]  # m1, s1, m2, s2


def samples(seed, *, tied=False, n=25, m=40):
    rng = np.random.default_rng(seed)
    one, two = rng.normal(0.6, 1.0, n), rng.normal(0, 1.5, m)
    return (np.round(one), np.round(two)) if tied else (one, two)


def moments(values):
    return gaussian(len(values), values.mean(), values.var(ddof=1))


def gaussian(size, mean, variance):
    return Group(*(torch.tensor(float(v), dtype=torch.float64) for v in (size, mean, variance)))


def from_samples(name, one, two):
    measure = column_criterion(name)
    if measure.from_moments is not None:
        return measure.from_moments(moments(one), moments(two)).item()
    ranks = torch.as_tensor(stats.rankdata(np.r_[one, two]))[:, None]
    return measure.from_ranks(ranks, torch.arange(len(ranks)) < len(one)).item()


@pytest.mark.parametrize("seed", range(5))
def test_ttest_is_scipys(seed):
    one, two = samples(seed)
    assert from_samples("ttest", one, two) == pytest.approx(abs(stats.ttest_ind(one, two).statistic), rel=1e-12)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_roc_is_the_area_of_scikit_learn(seed, tied):
    one, two = samples(seed, tied=tied)
    area = roc_auc_score(np.arange(65) < 25, np.r_[one, two])
    assert from_samples("roc", one, two) == pytest.approx(abs(area - 0.5), rel=1e-12)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_wilcoxon_is_scipys_mann_whitney(seed, tied):
    one, two = samples(seed, tied=tied)
    test = stats.mannwhitneyu(one, two, use_continuity=False, method="asymptotic")
    z = from_samples("wilcoxon", one, two)
    assert z == pytest.approx(stats.norm.isf(test.pvalue / 2), rel=1e-9)
    assert from_samples("roc", one, two) == pytest.approx(abs(test.statistic / 1000 - 0.5), rel=1e-12)


def divergence(m1, s1, m2, s2):
    """Relative entropy of one Gaussian from another, by integration."""
    one, two = stats.norm(m1, math.sqrt(s1)), stats.norm(m2, math.sqrt(s2))
    half = 12 * math.sqrt(s1)
    return integrate.quad(lambda t: one.pdf(t) * (one.logpdf(t) - two.logpdf(t)), m1 - half, m1 + half, limit=200)[0]


@pytest.mark.parametrize(("m1", "s1", "m2", "s2"), PAIRS)
def test_kl_is_the_symmetric_relative_entropy(m1, s1, m2, s2):
    got = column_criterion("kl").from_moments(gaussian(9, m1, s1), gaussian(9, m2, s2)).item()
    assert got == pytest.approx(divergence(m1, s1, m2, s2) + divergence(m2, s2, m1, s1), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("m1", "s1", "m2", "s2"), PAIRS)
def test_bhattacharyya_is_the_overlap_of_densities(m1, s1, m2, s2):
    one, two = stats.norm(m1, math.sqrt(s1)), stats.norm(m2, math.sqrt(s2))
    half = 40 * math.sqrt(min(s1, s2))
    overlap = integrate.quad(lambda t: math.sqrt(one.pdf(t) * two.pdf(t)), m1 - half, m1 + half, points=[m1, m2])
    got = column_criterion("bhattacharyya").from_moments(gaussian(9, m1, s1), gaussian(9, m2, s2)).item()
    assert got == pytest.approx(-math.log(overlap[0]), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("sizes", [(10, 10), (3, 30)])
@pytest.mark.parametrize("gap", [0.0, 0.3, 1.0, 2.5, 5.0])
def test_information_is_the_mutual_information(sizes, gap):
    n1, n2 = sizes
    p = n1 / (n1 + n2)
    one, two = stats.norm(0, 2), stats.norm(2 * gap, 2)  # the gap is in standard deviations

    def integrand(t):
        mixed = p * one.pdf(t) + (1 - p) * two.pdf(t)
        return p * one.pdf(t) * math.log(one.pdf(t) / mixed) + (1 - p) * two.pdf(t) * math.log(two.pdf(t) / mixed)

    wanted = integrate.quad(integrand, -25, 25 + 2 * gap, limit=400)[0]
    got = column_criterion("information").from_moments(gaussian(n1, 0, 4), gaussian(n2, 2 * gap, 4)).item()
    assert got == pytest.approx(wanted, rel=2e-3, abs=1e-9)
    assert got <= -p * math.log(p) - (1 - p) * math.log(1 - p) + 1e-9


@pytest.mark.parametrize("name", reference.FROM_MOMENTS | reference.FROM_SAMPLES)
@pytest.mark.parametrize("tied", [False, True])
def test_equals_the_scalar_loops(name, tied):
    one, two = samples(11, tied=tied)
    assert from_samples(name, one, two) == pytest.approx(reference.two_groups(one, two, name), rel=1e-12)


@pytest.mark.parametrize("name", for_columns())
def test_is_symmetric_and_blind_to_shift_and_scale(name):
    one, two = samples(3)
    there = from_samples(name, one, two)
    assert there > 0
    assert from_samples(name, two, one) == pytest.approx(there, rel=1e-9)
    assert from_samples(name, 3 * one - 7, 3 * two - 7) == pytest.approx(there, rel=1e-9)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_equal_groups_are_not_apart(name):
    one, _ = samples(3)
    assert from_samples(name, one, one) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", [n for n, c in CRITERIA.items() if isinstance(c.form, Quadratic | Absolute)])
def test_weight_is_the_part_that_folds(name):
    measure = column_criterion(name)
    power = {Quadratic: 2, Absolute: 1}[type(measure.form)]
    s1, s2 = torch.tensor(0.7, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
    constant = measure.from_moments(gaussian(2, 1, s1), gaussian(2, 1, s2))
    for gap in (-3.0, 0.5, 2.0):
        got = measure.from_moments(gaussian(2, gap, s1), gaussian(2, 0, s2)) - constant
        assert got.item() == pytest.approx((measure.form.weight(s1, s2) * abs(gap) ** power).item(), rel=1e-12)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_a_row_a_group_is_finite(name):
    got = column_criterion(name).from_moments(gaussian(1, 0, 1e-6), gaussian(1, 1, 1e-6))
    assert torch.isfinite(got)
    assert got > 0


def test_unknown_names_list_the_known_ones():
    with pytest.raises(InputError, match=r"criterion 'wilcoxn': did you mean wilcoxon\? known: kl, ttest, .*roc"):
        column_criterion("wilcoxn")


def test_energy_knows_no_classes():
    with pytest.raises(InputError, match="criterion 'energy' knows no classes and cannot rank columns; use one of kl"):
        column_criterion("energy")
    assert row_form("energy").rank(channels=5, classes=3) == 0


def test_a_criterion_of_somebody_elses_brings_its_form():
    ours = CRITERIA["kl"]
    register("theirs", ours._replace(from_ranks=None))
    assert row_form("theirs") is ours.form
    CRITERIA.remove("theirs")
    with pytest.raises(InputError, match="there is a criterion called 'ttest' already"):
        register("ttest", ours)
