"""Ranking of features (Eq. 2) against the loops of the paper."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris, load_wine

import reference
from multipartite.criteria import for_columns
from multipartite.errors import InputError
from multipartite.ranking import feature_scores, rank_features
from samples import AWKWARD, blobs

LOOPS = list(reference.FROM_MOMENTS | reference.FROM_SAMPLES)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(("c", "offset"), [(2, 0.0), (4, 0.0), (3, 1e6)])
@pytest.mark.parametrize("floor", [0.0, 0.3, 1.0])
def test_scores_equal_the_loops(name, c, offset, floor):
    X, y = blobs(c, 60, 5, c)
    X += offset
    order, scores = rank_features(X, y, name, variance_floor=floor)
    wanted = reference.feature_scores(X, y, name, floor)
    np.testing.assert_allclose(scores, wanted, rtol=1e-12 if offset == 0 else 1e-6)
    assert order.tolist() == np.argsort(-scores, kind="stable").tolist()


@pytest.mark.parametrize("name", LOOPS)
def test_scores_of_real_tables_equal_the_loops(name):
    X, y = load_iris(return_X_y=True)
    scores = rank_features(X, y, name, variance_floor=0).scores
    np.testing.assert_allclose(scores, reference.feature_scores(X, y, name), rtol=1e-10)


@pytest.mark.parametrize("name", for_columns())
def test_an_informative_column_comes_first_and_noise_last(name):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 3)) + np.outer(y, [1.0, 0.0, 4.0])
    assert rank_features(X, y, name).order.tolist() == [2, 0, 1]


@pytest.mark.parametrize("name", for_columns())
def test_two_classes_count_the_same_criterion_twice(name):
    X, y = blobs(0, 50, 4, 2)
    total = feature_scores(torch.as_tensor(X), torch.as_tensor(y), name)
    swapped = feature_scores(torch.as_tensor(X), torch.as_tensor(1 - y), name)
    torch.testing.assert_close(total, swapped)
    if name in LOOPS:
        halves = [reference.two_groups(column[y == 0], column[y == 1], name) for column in X.T]
        np.testing.assert_allclose(total, 2 * np.array(halves))


@pytest.mark.parametrize("name", for_columns())
@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, 1e9 + 0.1, -7.7e-9])
def test_a_constant_column_scores_zero(name, constant):
    X, y = blobs(0, 37, 3, 3)
    order, scores = rank_features(np.c_[np.full(37, constant), X], y, name)
    assert scores[0] == 0
    assert order[-1] == 0


@pytest.mark.parametrize("name", for_columns())
def test_duplicated_columns_score_alike(name):
    X, y = blobs(0, 40, 3, 3)
    order, scores = rank_features(np.c_[X, X], y, name)
    np.testing.assert_allclose(scores[:3], scores[3:], rtol=1e-12)
    assert [j % 3 for j in order[::2]] == [j % 3 for j in order[1::2]] == rank_features(X, y, name).order.tolist()


@pytest.mark.parametrize("name", for_columns())
@pytest.mark.parametrize("data", [name for name, (_, y, _) in AWKWARD.items() if len(set(y)) > 1])
def test_awkward_data_gives_finite_scores(name, data):
    X, y, _ = AWKWARD[data]
    order, scores = rank_features(X, y, name)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    assert sorted(order) == list(range(X.shape[1]))


@pytest.mark.parametrize("name", for_columns())
def test_two_rows_are_enough(name):
    scores = rank_features([[0.0, 5.0], [1.0, 5.0]], ["a", "b"], name).scores
    assert np.isfinite(scores).all()
    assert scores[0] > scores[1] == 0


def rare_pixels():
    """A column that tells three classes apart, one with spread alone to tell by, noise, and a value in one row only."""
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    noise = rng.normal(size=(900, 4))
    noise[:, 0] += y
    noise[:, 1] *= 1 + y
    noise[:, 3] = 0
    noise[7, 3] = 1
    return noise, y


@pytest.mark.parametrize("name", for_columns())
def test_a_value_in_one_row_alone_does_not_make_a_column_the_best(name):
    X, y = rare_pixels()
    assert rank_features(X, y, name).order[0] == 0


@pytest.mark.parametrize("name", ["kl", "bhattacharyya"])
def test_the_floor_bounds_what_variances_can_say(name):
    X, y = rare_pixels()
    assert rank_features(X, y, name, variance_floor=0).order[0] == 3  # as MATLAB would have it
    scores = rank_features(X, y, name).scores
    assert scores[1] > 10 * scores[2]  # spread still counts
    assert scores[3] < 0.2 * scores[0]
    blind = rank_features(X, y, name, variance_floor=1).scores
    assert blind[0] > 20 * max(blind[1:])


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.0, 0.7, 3.0])
def test_weights_equal_the_greedy_loop(alpha, beta):
    X, y = load_wine(return_X_y=True)
    order, scores = rank_features(X, y, correlation_weight=alpha, distance_weight=beta)
    assert order.tolist() == reference.greedy_order(X, scores, alpha, beta, 13)
    assert (scores == rank_features(X, y).scores).all()


@pytest.mark.parametrize("seed", range(5))
def test_weights_equal_the_greedy_loop_on_random_rows(seed):
    X, y = blobs(seed, 50, 9, 3)
    order, scores = rank_features(X, y, "ttest", correlation_weight=0.8, distance_weight=2.0, top=6)
    assert order.tolist() == reference.greedy_order(X, scores, 0.8, 2.0, 6)
    assert order.tolist() != rank_features(X, y, "ttest", top=6).order.tolist()


def test_full_correlation_weight_holds_copies_back():
    X, y = blobs(0, 60, 3, 3)
    best = rank_features(X, y).order[0]
    X = np.c_[X, X[:, best]]
    assert set(rank_features(X, y).order[:2]) == {best, 3}
    assert rank_features(X, y, correlation_weight=1.0, top=2).order[1] not in (best, 3)


def test_words_frames_and_integers():
    X, y = load_iris(return_X_y=True)
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    wanted = rank_features(X, y)
    np.testing.assert_allclose(rank_features(pd.DataFrame(X), pd.Series(words)).scores, wanted.scores, rtol=1e-12)
    assert (rank_features((10 * X).round().astype(int), y).scores > 0).all()
    assert rank_features(X, y, top=2).order.tolist() == wanted.order[:2].tolist()


X3, Y3 = np.arange(12.0).reshape(4, 3), [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (X3[0], Y3, {}, r"X must be \(rows, columns\) with at least one column, got shape \(3,\)"),
        (X3[:, :0], Y3, {}, r"X must be \(rows, columns\) with at least one column, got shape \(4, 0\)"),
        (X3 + 1j, Y3, {}, "X must be real numbers, got complex ones"),
        (X3 * 1e160, Y3, {}, "X must be small enough to be squared in float64: divide it by its largest value"),
        (X3, Y3[:3], {}, "X and y must have as many rows, got 4 and 3"),
        (X3, [1] * 4, {}, "need at least two classes to tell apart, got one class"),
        (X3[:1], Y3[:1], {}, "need at least two rows, got 1"),
        (np.where(X3 == 4, np.nan, X3), Y3, {}, "X must be finite, got NaN or inf in column 1"),
        (pd.DataFrame(np.where(X3 == 4, np.inf, X3), columns=[*"abc"]), Y3, {}, "NaN or inf in column b:"),
        (X3, [0, None, 1, 1], {}, "labels must not be missing, got 1 of 4"),
        (X3, Y3, {"criterion": "kll"}, r"unknown criterion 'kll': did you mean kl\?"),
        (X3, Y3, {"correlation_weight": 1.5}, r"correlation_weight must lie in \[0, 1\], got 1.5"),
        (X3, Y3, {"correlation_weight": np.nan}, r"correlation_weight must lie in \[0, 1\], got nan"),
        (X3, Y3, {"distance_weight": -1}, "distance_weight must be finite and not negative, got -1"),
        (X3, Y3, {"distance_weight": np.inf}, "distance_weight must be finite and not negative, got inf"),
        (X3, Y3, {"distance_weight": np.nan}, "distance_weight must be finite and not negative, got nan"),
        (X3, Y3, {"variance_floor": -0.1}, r"variance_floor must lie in \[0, 1\], got -0.1"),
        (X3, Y3, {"variance_floor": np.nan}, r"variance_floor must lie in \[0, 1\], got nan"),
        (X3, Y3, {"top": 0}, r"top must lie in \[1, 3\] and be whole \(X has 3 columns\), got 0"),
        (X3, Y3, {"top": 4}, r"top must lie in \[1, 3\] and be whole \(X has 3 columns\), got 4"),
        (X3, Y3, {"top": 2.5}, r"top must lie in \[1, 3\] and be whole \(X has 3 columns\), got 2.5"),
        ([["a", 1.0], ["b", 2.0]], [0, 1], {}, "X must be numbers, got text: drop these columns or encode them"),
    ],
)
def test_refuses_bad_input(X, y, options, message):
    with pytest.raises(InputError, match=message):
        rank_features(X, y, **options)
