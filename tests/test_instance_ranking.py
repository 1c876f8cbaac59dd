"""Ranking of instances (Eq. 3, Alg. 2) and its fold, against the loops of the paper and scikit-learn."""

import functools

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch.testing import assert_close

import reference
from multipartite.criteria import CRITERIA, row_form
from multipartite.errors import InputError
from multipartite.instance_ranking import Fold, fold, leading, one_versus_rest, projected_variance
from multipartite.projection import METHODS, supervised_projection
from multipartite.statistics import ClassStatistics
from samples import AWKWARD, blobs, statistics_of

LOOPS = list(reference.FROM_MOMENTS)
MOMENTS = [name for name, measure in CRITERIA.items() if measure.from_moments is not None]
SIZES = {"d > c": (6, 4), "d = c": (4, 4), "d < c": (2, 7), "two classes": (5, 2), "one column": (1, 3)}


def projected(statistics, A, X, g=0):
    """Rows of one group, their projection and its variances."""
    d = A.shape[1]
    rows = torch.as_tensor(X)[:, g * d : (g + 1) * d]
    return rows @ A[g], projected_variance(statistics, A)[g]


def scores_of(folded, X):
    """C_M of rows by the fold, [g, n]."""
    return folded.score(torch.as_tensor(X))


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("method", ["fisher", "orthogonal"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("absent", [False, True])
def test_fold_equals_the_sum_over_classes_equals_the_loops(name, method, size, absent):
    d, c = SIZES[size]
    X, y = blobs(3, 80, d, c)
    y = np.where(y == 1, 2, y) if absent and c > 2 else y
    statistics = statistics_of(X, y, c + absent)
    A = supervised_projection(statistics, method)
    P, variance = projected(statistics, A, X)
    present = statistics.present
    wanted = reference.instance_scores(X, A[0].numpy(), statistics.within[0].numpy(), present.tolist(), name)
    apart = one_versus_rest(P, variance, present, name)
    assert apart.shape == (80, c + absent)
    assert not apart[:, ~present].any()
    np.testing.assert_allclose(apart.sum(1), wanted, rtol=1e-9)
    np.testing.assert_allclose(scores_of(fold(statistics, A, name), X)[0], wanted, rtol=1e-9)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(("d", "c"), [(6, 4), (2, 7)])
def test_any_projection_folds_centred_or_not(name, d, c):
    X, y = blobs(2, 80, d, c)
    statistics = statistics_of(X, y)
    A = torch.randn(1, d, c, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    P, variance = projected(statistics, A, X)
    wanted = one_versus_rest(P, variance, name=name).sum(1)
    assert_close(scores_of(fold(statistics, A, name), X)[0], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LOOPS)
def test_groups_are_folded_apart(name):
    X, y = blobs(1, 80, 6, 4)
    statistics = statistics_of(X, y, groups=3)
    A = supervised_projection(statistics)
    got = scores_of(fold(statistics, A, name), X)
    for g in range(3):
        Sw = statistics.within[g].numpy()
        wanted = reference.instance_scores(X[:, 2 * g : 2 * g + 2], A[g].numpy(), Sw, [True] * 4, name)
        np.testing.assert_allclose(got[g], wanted, rtol=1e-9)


@pytest.mark.parametrize("name", ["kl", "bhattacharyya"])
@pytest.mark.parametrize("size", SIZES)
def test_quadratic_folds_have_the_least_rank(name, size):
    d, c = SIZES[size]
    statistics = statistics_of(*blobs(0, 90, d, c))
    factor = fold(statistics, supervised_projection(statistics), name).factor
    assert factor.shape == (1, d, min(c - 1, d))
    assert torch.linalg.matrix_rank(factor[0]) == min(c - 1, d)


@pytest.mark.parametrize("c", [80, 200])
def test_wide_quadratic_folds_are_triangular_and_score_the_same(c):
    X, labels = blobs(0, 12 * c, 90, c)
    statistics = statistics_of(X, labels)
    A = supervised_projection(statistics)
    folded = fold(statistics, A)
    assert torch.equal(folded.factor[0], folded.factor[0].tril())
    wanted = reference.instance_scores(X[:9], A[0].numpy(), statistics.within[0].numpy(), [True] * c, "kl")
    np.testing.assert_allclose(folded.score(torch.as_tensor(X[:9]))[0], wanted, rtol=1e-9)


@pytest.mark.parametrize("middle", [0.0, 1e-5, 1e-3, 0.5])
def test_fold_is_exact_where_class_means_lie_on_a_line(middle):
    noise = np.random.default_rng(0).normal(size=(90, 3))
    y = np.arange(90) % 3
    for j in range(3):
        noise[y == j] -= noise[y == j].mean(0)
    X = noise + np.array([-1, middle, 1])[y, None] * np.array([1.0, 2.0, 3.0])
    statistics = statistics_of(X, y)
    A = supervised_projection(statistics)  # the column of the class in the middle is next to nothing
    P, variance = projected(statistics, A, X)
    wanted = one_versus_rest(P, variance).sum(1)
    assert_close(scores_of(fold(statistics, A), X)[0], wanted, rtol=1e-10, atol=1e-10)


def test_columns_that_do_not_vary_within_classes_do_not_overflow():
    noise = np.array([[3.0, -0.1], [5.0, 0.1]] * 3)
    X, y = np.c_[np.repeat([-1, 0.1, 1], 2), noise], np.arange(6) // 2  # the first column is its class
    statistics = statistics_of(X, y)
    A = supervised_projection(statistics)
    between = torch.einsum("gdc,gde,gec->gc", A, statistics.between, A)
    assert_close(projected_variance(statistics, A), 1e-12 * between, rtol=1e-6, atol=0)
    assert scores_of(fold(statistics, A), X).max() < 1e14


def test_by_hand():
    got = one_versus_rest(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([1.0, 1.0, 4.0]))
    # class 0: 3 against 0, variances 1 and 2.5; class 1: 0 against 1.5, 1 and 2.5; class 2: 0 against 1.5, 4 and 1
    spread = (0.4 + 2.5 - 2) / 2
    wanted = [spread + 9 * 1.4 / 2, spread + 2.25 * 1.4 / 2, (0.25 + 4 - 2) / 2 + 2.25 * 1.25 / 2]
    assert_close(got, torch.tensor([wanted]))


def test_a_variance_a_row():
    P = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    variance = 1 + torch.rand(5, 3, generator=torch.Generator().manual_seed(1))
    got = one_versus_rest(P, variance)
    assert_close(got, torch.cat([one_versus_rest(p[None], s) for p, s in zip(P, variance, strict=True)]))


@pytest.mark.parametrize("data", [load_iris, load_wine, lambda return_X_y: blobs(5, c=4, sizes=[60, 9, 20, 30])])
def test_information_is_the_divergence_of_the_posterior_of_lda(data):
    X, y = data(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0) + 5
    statistics = statistics_of(X, y)
    got = scores_of(fold(statistics, supervised_projection(statistics, shrinkage=0.0), "information"), X)[0]
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)  # its covariance is the average within classes
    posterior, prior = lda.predict_proba(X), np.bincount(y) / len(y)
    np.testing.assert_allclose(got, [entropy(p, prior) for p in posterior], rtol=1e-8, atol=1e-10)


def test_information_leaves_absent_classes_out():
    X, y = blobs(0, 60, 4, 3)
    wanted = statistics_of(X, y)
    statistics = statistics_of(X, 2 * y, 6)
    got = fold(statistics, supervised_projection(statistics), "information")
    assert_close(scores_of(got, X), scores_of(fold(wanted, supervised_projection(wanted), "information"), X))


@pytest.mark.parametrize("name", MOMENTS)
def test_reduction_takes_any_dimension(name):
    X, y = blobs(0, 24, 4, 3)
    statistics = statistics_of(X, y)
    folded = fold(statistics, supervised_projection(statistics), name)
    h = torch.as_tensor(X) @ folded.factor[0] + (0 if folded.offset is None else folded.offset[0])
    wanted = folded.form.reduce(h, folded.log_prior, -1).reshape(2, 3, 4)
    maps = h.reshape(2, 3, 4, -1).movedim(-1, 1)
    assert_close(folded.form.reduce(maps, folded.log_prior, 1), wanted)


@functools.cache
def awkward(data, method):
    X, y, c = AWKWARD[data]
    statistics = statistics_of(X, y, c)
    return X, statistics, supervised_projection(statistics, method)


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", AWKWARD)
def test_awkward_data_gives_finite_scores(name, method, data):
    X, statistics, A = awkward(data, method)
    folded = fold(statistics, A, name)
    got = scores_of(folded, X)
    assert got.shape == (1, len(X))
    assert torch.isfinite(got).all()
    assert (got >= 0).all()
    P, variance = projected(statistics, A, X)
    apart = one_versus_rest(P, variance, statistics.present, name)
    assert torch.isfinite(apart).all()
    if name != "information":
        assert_close(got[0], apart.sum(1), rtol=1e-7, atol=1e-7)
    if not A.any():
        assert not folded.factor.any()  # what the pooling looks at before it falls back to the energy


@pytest.mark.parametrize("name", MOMENTS)
def test_nothing_seen_scores_zero(name):
    statistics = ClassStatistics(3, 4, groups=2)
    folded = fold(statistics, supervised_projection(statistics), name)
    assert not folded.factor.any()
    assert not scores_of(folded, np.ones((5, 4))).any()


@pytest.mark.parametrize("name", MOMENTS)
def test_one_class_is_not_apart_from_nothing(name):
    got = one_versus_rest(torch.ones(2, 3), torch.ones(3), torch.tensor([False, True, False]), name)
    assert not got.any()


def test_rows_far_out_in_the_direction_of_a_class_score_higher():
    X, y = blobs(0, 300, 5, 3)
    statistics = statistics_of(X, y)
    A = supervised_projection(statistics)
    direction = A[0, :, 1] / A[0, :, 1].norm()
    rows = torch.arange(5.0, dtype=torch.float64)[:, None] * direction
    scores = scores_of(fold(statistics, A), rows)[0]
    assert (scores.diff() > 0).all()


@pytest.mark.parametrize("name", ["roc", "wilcoxon"])
def test_rank_criteria_are_refused_for_instances_with_the_reason(name):
    message = f"'{name}' cannot rank instances: with one foreground value it gives every untied row the same sum"
    statistics = statistics_of(*blobs())
    A = supervised_projection(statistics)
    for call in (
        lambda: row_form(name),
        lambda: fold(statistics, A, name),
        lambda: one_versus_rest(torch.ones(1, 3), torch.ones(3), name=name),
    ):
        with pytest.raises(InputError, match=f"{message}; use one of bhattacharyya, energy, information, kl, ttest"):
            call()
    # and the reason is true: one value against the others, over all classes, on rows without ties
    ranks = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(s)) for s in range(20)]).T + 1.0
    members = torch.eye(5, dtype=torch.bool)
    totals = torch.stack([CRITERIA[name].from_ranks(ranks.double(), m) for m in members]).sum(0)
    assert_close(totals, totals[:1].expand(20))


def test_unknown_criteria_are_refused():
    with pytest.raises(InputError, match="unknown criterion 'fisher'"):
        row_form("fisher")


def rows_of_few_directions(n, seed, d=40, telling=3):
    """Rows of five classes, and a factor of d columns of which `telling` make nearly all of the score."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(5, (n,), generator=generator)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64) + labels[:, None] / 5
    turn = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(7), dtype=torch.float64)).Q
    sizes = torch.where(torch.arange(d) < telling, 1.0, 1e-3).double()
    return X, labels, Fold.quadratic((turn * sizes @ turn.flip(0))[None])


def picks(folded, X):
    """Which of every four rows scores highest."""
    return folded.score(X)[0].reshape(-1, 4).argmax(1)


def test_few_directions_that_decide_are_found_from_the_statistics():
    X, labels, folded = rows_of_few_directions(4000, seed=0)
    cut = leading(ClassStatistics(5, 40).update(X, labels), folded)
    used = (cut.factor[0] != 0).any(0)
    assert used.tolist() == [True] * 16 + [False] * 24
    fresh = rows_of_few_directions(40000, seed=1)[0]
    assert (picks(cut, fresh) == picks(folded, fresh)).double().mean() >= 0.99


def test_directions_that_all_count_are_all_kept():
    X, labels, _ = rows_of_few_directions(4000, seed=0)
    folded = Fold.quadratic(torch.eye(40, dtype=torch.float64)[None])
    assert leading(ClassStatistics(5, 40).update(X, labels), folded) is folded


def test_a_rank_that_is_given_is_the_best_of_its_size():
    X, labels, folded = rows_of_few_directions(4000, seed=0)
    statistics = ClassStatistics(5, 40).update(X, labels)
    cut = leading(statistics, folded, 2)
    assert (cut.factor[0] != 0).any(0).sum() == 2
    second = X.T @ X / len(X)  # the moment about zero, which the score sees
    h = torch.linalg.eigvalsh(folded.factor[0].T @ second @ folded.factor[0])
    assert_close(cut.score(X)[0].mean(), h[-2:].sum())
    assert_close(leading(statistics, folded, 39).score(X).mean(), h[-39:].sum())
    assert leading(statistics, folded, 40) is folded
    assert leading(statistics, folded, None) is folded


@pytest.mark.parametrize("name", ["ttest", "information"])
def test_forms_that_are_not_quadratic_keep_their_columns(name):
    X, labels = blobs(4, 3)
    statistics = statistics_of(X, labels)
    folded = fold(statistics, supervised_projection(statistics), name)
    assert leading(statistics, folded, 1) is folded
