"""Supervised projection (Alg. 1) against scikit-learn, automatic differentiation and random starts."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.covariance import oas
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch.testing import assert_close

import reference
from multipartite import projection
from multipartite.errors import InputError
from multipartite.projection import (
    METHODS,
    align_to_classes,
    fisher,
    objective,
    objective_gradient,
    orthogonal,
    penalised,
    quotient_of_traces,
    shrink,
    shrunk_within,
    supervised_projection,
)
from multipartite.statistics import ClassStatistics
from samples import AWKWARD, blobs, statistics_of


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:, X.std(0) > 1], y


DATA = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": digits,
    "balanced": lambda: blobs(0, 200, 6, 4),
    "unbalanced": lambda: blobs(1, d=6, c=4, sizes=[150, 40, 7, 90]),
    "two classes": lambda: blobs(2, d=5, c=2, sizes=[10, 90]),
}


def scatters(seed=0, d=6, c=4, **options):
    statistics = statistics_of(*blobs(seed, d=d, c=c, **options))
    return statistics.within[0], statistics.between[0]


@pytest.mark.parametrize("name", DATA)
def test_fisher_spans_the_subspace_of_linear_discriminant_analysis(name):
    X, y = DATA[name]()
    statistics = statistics_of(X, y)
    k = min(statistics.num_classes - 1, X.shape[1])
    A = fisher(statistics.within, statistics.between, k)[0].numpy()
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :k]
    spread = np.linalg.cholesky(statistics.within[0].numpy()).T  # angles in the metric in which A is orthonormal
    assert subspace_angles(spread @ A, spread @ lda).max() < 1e-6
    aligned = supervised_projection(statistics, shrinkage=0.0)[0].numpy()
    assert aligned.shape == (X.shape[1], statistics.num_classes)
    basis = np.linalg.svd(spread @ aligned)[0][:, :k]
    assert subspace_angles(basis, spread @ lda).max() < 1e-6


def test_fisher_solves_the_generalised_eigenproblem_best_first():
    Sw, Sb = scatters()
    A = fisher(Sw, Sb, 3)
    assert_close(A.mT @ Sw @ A, torch.eye(3).double())
    values = (A.mT @ Sb @ A).diagonal()
    assert_close(Sb @ A, Sw @ A * values)
    assert values.tolist() == sorted(values.tolist(), reverse=True)
    assert torch.trace(torch.linalg.solve(Sw, Sb)).item() == pytest.approx(values.sum().item())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("d", "c"), [(6, 4), (3, 6), (8, 2)])
def test_orthogonal_beats_random_starts_fisher_and_penalised(seed, d, c):
    Sw, Sb = scatters(seed, d, c)
    k = min(c - 1, d)
    A = orthogonal(Sw, Sb, k)
    assert_close(A.mT @ A, torch.eye(k).double())
    least = quotient_of_traces(A, Sw, Sb).item() * (1 - 1e-12)
    noise = torch.randn(1000, d, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    starts = torch.linalg.qr(noise).Q
    assert least <= quotient_of_traces(starts, Sw, Sb).min().item()
    for weight in (0.1, 1.0, 10.0):
        Q = torch.linalg.qr(penalised(Sw, Sb, k, weight=weight)).Q
        assert least <= quotient_of_traces(Q, Sw, Sb).item()
    assert least <= quotient_of_traces(torch.linalg.qr(fisher(Sw, Sb, k)).Q, Sw, Sb).item()


@pytest.mark.parametrize("components", [None, 2])
def test_few_classes_have_the_directions_of_the_full_eigenproblem(components, monkeypatch):
    d, c = 40, 4
    random = torch.Generator().manual_seed(0)
    mixing = torch.randn(d, d, generator=random, dtype=torch.float64)
    X = torch.randn(600, d, generator=random, dtype=torch.float64) @ mixing
    y = torch.arange(600) % c
    X += 5 * torch.randn(c, d, generator=random, dtype=torch.float64)[y]
    statistics = ClassStatistics(c, d).update(X, y)
    quick = supervised_projection(statistics, components=components)
    monkeypatch.setattr(projection, "_fisher_of_few", lambda *_: None)
    full = supervised_projection(statistics, components=components)
    torch.testing.assert_close(quick, full, rtol=1e-8, atol=1e-10)


def test_columns_that_repeat_each_other_are_left_to_the_full_eigenproblem():
    X, y = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).double().repeat(1, 5), torch.arange(50) % 2
    statistics = ClassStatistics(2, 15).update(X, y)
    assert projection._fisher_of_few(statistics.within, statistics.deviations.mT, 1) is None
    assert torch.isfinite(supervised_projection(statistics, shrinkage=0.0)).all()


def test_orthogonal_is_global_from_any_start():
    Sw, Sb = scatters(1)
    best = quotient_of_traces(orthogonal(Sw, Sb, 3), Sw, Sb)
    for start in torch.randn(20, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        assert_close(quotient_of_traces(orthogonal(Sw, Sb, 3, start), Sw, Sb), best)


@pytest.mark.parametrize(("d", "k"), [(5, 3), (3, 3), (4, 1)])
def test_gradient_equals_automatic_differentiation_and_the_printed_one_does_not(d, k):
    Sw, Sb = scatters(0, d, 4)
    A = torch.randn(d, k, generator=torch.Generator().manual_seed(d), dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad(objective(A, Sw, Sb, 0.7), A)
    A = A.detach()
    assert (objective_gradient(A, Sw, Sb, 0.7) - wanted).norm() <= 1e-10 * wanted.norm()
    printed = torch.as_tensor(reference.printed_gradient(A.numpy(), Sw.numpy(), Sb.numpy(), 0.7))
    assert (printed - wanted).norm() > 1e-2 * wanted.norm()
    # only the sign of the quotient's terms is wrong
    (quotient,) = torch.autograd.grad(quotient_of_traces(A.requires_grad_(), Sw, Sb), A)
    assert_close(printed + 2 * quotient, wanted, rtol=1e-10, atol=1e-10)


def test_objective_is_eq_7():
    Sw, Sb = scatters()
    A = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for weight in (0.0, 2.5):
        wanted = reference.objective(A.numpy(), Sw.numpy(), Sb.numpy(), weight)
        assert objective(A, Sw, Sb, weight).item() == pytest.approx(wanted, rel=1e-12)


def test_penalised_reaches_a_minimum_of_eq_7():
    Sw, Sb = scatters()
    A = penalised(Sw, Sb, 3)
    start = torch.nn.functional.normalize(fisher(Sw, Sb, 3), dim=0)
    least = objective(A, Sw, Sb, 1.0)
    assert least < objective(start, Sw, Sb, 1.0)
    assert objective_gradient(A, Sw, Sb, 1.0, 1e-4).norm() < 1e-3
    for step in torch.randn(200, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        assert least <= objective(A + 1e-2 * step, Sw, Sb, 1.0) + 1e-9


def test_a_large_penalty_is_orthogonal():
    Sw, Sb = scatters()
    A = penalised(Sw, Sb, 3, weight=100.0)
    assert (A.mT @ A - torch.eye(3)).norm() < 1e-4
    assert quotient_of_traces(A, Sw, Sb) < 1.001 * quotient_of_traces(orthogonal(Sw, Sb, 3), Sw, Sb)


@pytest.mark.parametrize("weight", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_penalised_is_no_worse_in_eq_7_than_orthogonal(weight, seed):
    Sw, Sb = scatters(seed)
    least = objective(penalised(Sw, Sb, 3, weight=weight), Sw, Sb, weight)
    assert least <= objective(orthogonal(Sw, Sb, 3), Sw, Sb, weight) + 1e-4


def published_amount(S, n):
    """Oracle approximating shrinkage: Chen, Wiesel, Eldar and Hero (2010), Eq. 23."""
    p = len(S)
    squared, trace = np.trace(S @ S), np.trace(S)
    return min(((1 - 2 / p) * squared + trace**2) / ((n + 1 - 2 / p) * (squared - trace**2 / p)), 1)


@pytest.mark.parametrize(("n", "d"), [(30, 5), (100, 8), (10, 40), (500, 2)])
def test_automatic_shrinkage_is_the_published_amount_for_the_correlations(n, d):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) * np.arange(1, d + 1)
    X -= X.mean(0)
    S = X.T @ X / n
    sd = np.sqrt(np.diag(S))
    R = S / np.outer(sd, sd)
    rho = published_amount(R, n)
    assert 0 < rho < 1
    wanted = ((1 - rho) * R + rho * np.eye(d)) * np.outer(sd, sd)
    assert_close(shrink(torch.as_tensor(S), n), torch.as_tensor(wanted))


def test_automatic_shrinkage_is_near_scikit_learns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 60)) @ (np.eye(60) + 0.1 * rng.normal(size=(60, 60)))
    X /= np.sqrt((X**2).mean(0))  # on correlations
    shrunk, amount = oas(X, assume_centered=True)  # it leaves the terms 2/p out
    S = torch.as_tensor(X.T @ X / 150)
    assert 0.1 < amount < 0.9
    assert (shrink(S, 150.0) - torch.as_tensor(shrunk)).norm() < 0.05 * amount * S.norm()


def test_shrinkage_of_nothing_and_of_everything():
    S = torch.tensor([[1.0, 1.5, 0.0], [1.5, 3.0, 0.0], [0.0, 0.0, 0.0]])  # the last column does not vary
    assert_close(shrink(S, 10, 0.0), S)
    assert_close(shrink(S, 10, 1), torch.diag(S.diagonal()))
    assert_close(shrink(S, 10)[:2, :2], shrink(S[:2, :2], 10))
    assert not shrink(S, 10)[2].any()
    for known in (torch.zeros(2, 2), 3 * torch.eye(2), torch.diag(torch.tensor([1.0, 3.0])), torch.ones(1, 1)):
        assert_close(shrink(known, 10), known)


@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 0.3])
@pytest.mark.parametrize(("method", "scale"), [("fisher", False), *((method, True) for method in METHODS)])
@pytest.mark.parametrize("components", [None, 2])
def test_units_of_the_columns_do_not_matter(method, scale, shrinkage, components):
    X, y = blobs(0, 80, 6, 4)
    units = 10.0 ** np.array([-9, -3, 0, 2, 6, 9])
    A, other = (
        supervised_projection(statistics_of(data, y), method, shrinkage=shrinkage, scale=scale, components=components)[
            0
        ]
        for data in (X, X * units)
    )
    other *= torch.as_tensor(units)[:, None]
    if components is not None:  # signs follow the largest entry, which is another one
        other *= (A * other).sum(0).sign()
    assert_close(other, A, rtol=1e-3, atol=1e-4 * A.abs().max().item())


def test_orthonormal_means_in_the_given_units_unless_they_are_scaled():
    X, y = blobs(0, 80, 6, 4)
    X *= np.arange(1, 7)
    A = supervised_projection(statistics_of(X, y), "orthogonal", components=3)[0]
    assert_close(A.mT @ A, torch.eye(3).double())
    A = supervised_projection(statistics_of(X, y), "orthogonal", components=3, scale=True)[0]
    A *= torch.as_tensor(X.std(0))[:, None]
    assert_close(A.mT @ A, torch.eye(3).double())


@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 0.3])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 + 0.1])
def test_columns_that_do_not_vary_change_nothing(method, scale, shrinkage, constant):
    X, y = blobs(0, 80, 4, 4)
    padded = np.insert(X, [0, 2, 4], constant, axis=1)
    wanted, A = (
        supervised_projection(statistics_of(data, y), method, shrinkage=shrinkage, scale=scale)[0]
        for data in (X, padded)
    )
    assert not A[[0, 3, 6]].any()
    assert_close(A[[1, 2, 4, 5]], wanted, rtol=1e-3, atol=1e-4 * wanted.abs().max().item())


@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 0.3])
@pytest.mark.parametrize("method", METHODS)
def test_a_column_that_is_constant_in_every_class_does_not_drown_the_others(method, shrinkage):
    X, y = blobs(0, 90, 4, 3, apart=4.0)
    leak = 1e-5 * (y == 0)
    statistics = statistics_of(np.c_[X, leak], y)
    A = supervised_projection(statistics, method, shrinkage=shrinkage, scale=True)[0]
    P = np.c_[X, leak] @ A.numpy()
    means = np.stack([P[y == j].mean(0) for j in range(3)])
    spread = np.sqrt(np.mean([P[y == j].var(0) for j in range(3)], axis=0).max())
    gaps = [np.linalg.norm(means[i] - means[j]) / spread for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(gaps) > 2
    assert max(gaps) < 1000


@pytest.mark.parametrize("amount", [-0.1, 1.1, "oas", None, math.nan])
def test_refuses_other_shrinkage(amount):
    with pytest.raises(InputError, match=r"shrinkage must be 'auto' or a number in \[0, 1\], got"):
        shrink(torch.eye(2), 10, amount)


def test_refuses_an_unknown_method_and_names_the_nearest():
    with pytest.raises(InputError, match="unknown projection 'fischer': did you mean fisher"):
        supervised_projection(statistics_of(*blobs()), "fischer")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(6, 4), (2, 6), (5, 2), (3, 4)])
def test_alignment_keeps_the_criteria_and_names_the_columns(method, shape):
    d, c = shape
    statistics = statistics_of(*blobs(3, 50 * c, d, c, apart=4.0))
    Sw, Sb = shrunk_within(statistics), statistics.between
    k = min(c - 1, d)
    A = METHODS[method](Sw, Sb, k, None)
    aligned = align_to_classes(A, statistics.deviations, Sw)
    assert_close(aligned, supervised_projection(statistics, method))
    assert aligned.shape == (1, d, c)
    assert_close(aligned @ aligned.mT, A @ A.mT)  # a rotation
    assert_close(quotient_of_traces(aligned, Sw, Sb), quotient_of_traces(A, Sw, Sb))
    assert_close(aligned.sum(-1), torch.zeros(1, d).double())  # as the corners of a simplex
    centred = statistics.class_means[0] - statistics.class_means[0].mean(0)
    P = centred @ aligned[0]  # [class, column]
    assert_close(P, P.mT)
    assert torch.linalg.eigvalsh(P).min() > -1e-10 * P.norm()  # so no class is low in its own column


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [[40] * 5, [100, 20, 40, 10, 60]])
def test_a_column_peaks_for_its_class(method, sizes):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(5), sizes))
    X = 4 * np.eye(5, 7)[y] + np.random.default_rng(1).normal(size=(len(y), 7)) + 3
    statistics = statistics_of(X, y)
    P = statistics.class_means[0] @ supervised_projection(statistics, method)[0]
    assert P.argmax(dim=0).tolist() == list(range(5))  # among the classes
    assert P.argmax(dim=1).tolist() == list(range(5))  # among the columns


def test_alignment_is_the_best_rotation():
    statistics = statistics_of(*blobs(4, 200, 5, 4))
    A = supervised_projection(statistics, shrinkage=0.0)[0]
    M = statistics.deviations[0]
    Z = M - M.mean(0)
    corners = torch.eye(4).double() - 0.25
    least = (Z @ A - corners).norm()
    plain = fisher(statistics.within, statistics.between, 3)[0]
    noise = torch.randn(500, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for rotation in torch.linalg.qr(noise).Q.mT:
        assert least <= (Z @ plain @ rotation - corners).norm() + 1e-12


def test_a_class_whose_mean_is_the_mean_of_all_is_not_taken_for_absent():
    X = torch.tensor([[-3.0], [-1.0], [-1.0], [1.0], [0.0], [2.0], [0.5], [1.5]]).double()
    y = [0, 0, 1, 1, 2, 2, 2, 2]  # means -2, 0, 1: the mean of all rows is 0
    statistics = statistics_of(X, torch.tensor(y))
    assert not statistics.deviations[0, 1].any()
    A = supervised_projection(statistics, shrinkage=0.0)[0, 0]
    centred = torch.tensor([-5.0, 1.0, 4.0]).double() / 3
    assert_close(A / A.norm(), centred / centred.norm())


def test_the_column_of_an_absent_class_is_zero():
    X, y = blobs(0, 60, 5, 3)
    A = supervised_projection(statistics_of(X, y * 2, 6))
    assert A.shape == (1, 5, 6)
    assert not A[..., [1, 3, 5]].any()
    present = supervised_projection(statistics_of(X, y))
    assert_close(A[..., [0, 2, 4]], present)


@pytest.mark.parametrize("data", AWKWARD)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 1.0])
def test_awkward_data_gives_finite_columns(data, method, shrinkage):
    X, y, c = AWKWARD[data]
    statistics = statistics_of(X, y, c)
    A = supervised_projection(statistics, method, shrinkage=shrinkage)
    assert A.shape == (1, X.shape[1], c)
    assert torch.isfinite(A).all()
    assert not A[..., ~statistics.present].any()
    again = supervised_projection(statistics, method, shrinkage=shrinkage, start=A)
    assert torch.isfinite(again).all()
    if data in ("all zero", "one row", "one class only"):
        assert not A.any()  # nothing separates
    else:
        assert A.any()


@pytest.mark.parametrize("method", METHODS)
def test_groups_are_projected_apart(method):
    X, y = blobs(0, 80, 6, 4)
    together = supervised_projection(statistics_of(X, y, groups=2), method)
    assert together.shape == (2, 3, 4)
    for g in range(2):
        alone = supervised_projection(statistics_of(X[:, 3 * g : 3 * g + 3], y), method)
        assert_close(together[g : g + 1], alone)


def test_a_dead_group_does_not_disturb_the_others():
    X, y = blobs(0, 80, 6, 4)
    dead = np.c_[X[:, :3], np.zeros((80, 3))]
    for method in METHODS:
        A = supervised_projection(statistics_of(dead, y, groups=2), method)
        assert not A[1].any()
        assert_close(A[:1], supervised_projection(statistics_of(X[:, :3], y), method))


@pytest.mark.parametrize("method", METHODS)
def test_starting_from_the_answer_keeps_it(method):
    statistics = statistics_of(*blobs(0, 80, 6, 4))
    A = supervised_projection(statistics, method)
    again = supervised_projection(statistics, method, start=A)
    Sw, Sb = shrunk_within(statistics), statistics.between
    assert_close(quotient_of_traces(again, Sw, Sb), quotient_of_traces(A, Sw, Sb), rtol=1e-2, atol=0)
