"""The scikit-learn estimators: scikit-learn's own checks, equality with the functions, streams, bad input."""

import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import dump, load
from scipy.sparse import coo_matrix, csc_matrix, csr_array, csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import multipartite as mp
from multipartite.errors import InputError
from multipartite.instance_ranking import one_versus_rest
from multipartite.projection import METHODS, supervised_projection

ESTIMATORS = [mp.SupervisedProjection(), mp.InstanceRanker(), mp.FeatureRanker()]
STREAMED = ESTIMATORS[:2]
README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


@parametrize_with_checks(
    [*ESTIMATORS, mp.SupervisedProjection(projection="orthogonal"), mp.InstanceRanker(criterion="information")]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


# Equality with the functions


@pytest.mark.parametrize("projection", METHODS)
def test_projection_is_the_function_of_the_statistics(digits, projection):
    X, y = digits
    model = mp.SupervisedProjection(projection, shrinkage=0.1).fit(X, y)
    A = supervised_projection(mp.ClassStatistics(10, 64).update(X, y), projection, shrinkage=0.1, scale=True)[0]
    np.testing.assert_allclose(model.transform(X), X @ A.numpy(), atol=1e-9)
    assert model.A_.shape == (64, 10)


def test_every_column_of_the_projection_stands_for_its_class(digits):
    X, y = digits
    words = np.array(list("jihgfedcba"))[y]  # classes in another order than the digits
    P = mp.SupervisedProjection().fit(X, words).transform(X)
    means = np.stack([P[words == word].mean(0) for word in sorted(set(words))])
    assert (means.argmax(0) == np.arange(10)).all()


def test_leading_components_carry_the_most_separation_in_order(digits):
    X, y = digits
    model = mp.SupervisedProjection(n_components=4, shrinkage=0.1).fit(X, y)
    P = model.transform(X)
    separation = [np.var([p[y == j].mean() for j in range(10)]) for p in P.T]
    assert P.shape == (1797, 4)
    assert separation == sorted(separation, reverse=True)
    more = mp.SupervisedProjection(n_components=9, shrinkage=0.1).fit(X, y)
    np.testing.assert_allclose(more.A_[:, :4], model.A_, atol=1e-9)
    assert (np.take_along_axis(model.A_, np.abs(model.A_).argmax(0)[None], 0) > 0).all()  # signs are settled


@pytest.mark.parametrize("criterion", ["kl", "ttest", "bhattacharyya"])
def test_instance_scores_are_the_sum_of_one_versus_rest_scores(digits, criterion):
    X, y = digits
    model = mp.InstanceRanker(criterion).fit(X, y)
    P = torch.from_numpy(X @ model.A_)
    variance = torch.from_numpy((model.A_ * (model.statistics_.within[0].numpy() @ model.A_)).sum(0))
    expected = one_versus_rest(P, variance, name=criterion).sum(1)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-8)


def test_information_lies_between_zero_and_the_bound_set_by_the_rarest_class(digits):
    X, y = digits
    scores = mp.InstanceRanker("information").fit(X, y).score_samples(X)
    assert (scores >= 0).all()
    assert (scores <= np.log(len(y) / np.bincount(y).min()) + 1e-9).all()
    assert scores.mean() > 1.5  # of log(10) = 2.3: most digits are plain


def test_rank_gives_the_best_rows_first(digits):
    X, y = digits
    model = mp.InstanceRanker().fit(X, y)
    scores = model.score_samples(X)[model.rank(X)]
    assert (np.diff(scores) <= 0).all()
    assert model.rank(np.ones((3, 64))).tolist() == [0, 1, 2]


def test_feature_ranker_selects_what_rank_features_ranks(iris):
    X, y = iris
    order, scores = mp.rank_features(X, y, "roc", correlation_weight=0.9, top=3)
    ranker = mp.FeatureRanker("roc", top=3, correlation_weight=0.9).fit(X, y)
    np.testing.assert_array_equal(ranker.scores_, scores)
    assert np.argsort(ranker.ranking_)[:3].tolist() == order.tolist()
    assert sorted(ranker.ranking_) == [1, 2, 3, 4]
    assert ranker.get_support(indices=True).tolist() == sorted(order)
    assert mp.FeatureRanker(top=2).fit(X, y).ranking_.max() == 3  # those left out share a place
    assert mp.FeatureRanker(top=99).fit(X, y).get_support().all()


# As good as the rest on rows as they come, whatever their units


RAW = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}


def accuracy(model, X, y, shuffles=5):
    """Ten-fold accuracy in percent, a mean over shuffles: a single row of iris weighs more than half a point."""
    folds = [StratifiedKFold(10, shuffle=True, random_state=seed) for seed in range(shuffles)]
    return 100 * np.mean([cross_val_score(model, X, y, cv=cv) for cv in folds])


@pytest.mark.parametrize("name", RAW)
def test_projection_of_raw_rows_is_as_good_as_linear_discriminant_analysis(name):
    X, y = RAW[name](return_X_y=True)
    shuffles = 1 if name == "digits" else 5
    own = accuracy(make_pipeline(mp.SupervisedProjection(), GaussianNB()), X, y, shuffles)
    assert own >= accuracy(LinearDiscriminantAnalysis(), X, y, shuffles) - 0.5


@pytest.mark.parametrize("criterion", ["kl", "bhattacharyya"])
@pytest.mark.parametrize("name", ["wine", "breast_cancer", "digits"])
@pytest.mark.filterwarnings("ignore:Features .* are constant", "ignore:invalid value encountered in divide")
def test_ten_columns_of_raw_rows_are_as_good_as_those_of_the_f_test(name, criterion):
    X, y = RAW[name](return_X_y=True)
    own = accuracy(make_pipeline(mp.FeatureRanker(criterion, top=10), GaussianNB()), X, y, shuffles=1)
    assert own >= accuracy(make_pipeline(SelectKBest(f_classif, k=10), GaussianNB()), X, y, shuffles=1) - 1e-9


def test_the_ranker_in_the_pipeline_of_the_readme_costs_no_accuracy(digits):
    ranker = re.search(r"mp\.FeatureRanker\(top=(\d+)\), mp\.SupervisedProjection\(\)", README.read_text())
    rest = [mp.SupervisedProjection(), GaussianNB()]
    with_ranker = make_pipeline(mp.FeatureRanker(top=int(ranker[1])), *rest)
    assert int(ranker[1]) < 64
    assert accuracy(with_ranker, *digits, shuffles=3) >= accuracy(make_pipeline(*rest), *digits, shuffles=3)


@pytest.mark.parametrize("projection", ["orthogonal", "penalised"])
def test_orthonormal_directions_are_of_use_on_raw_rows(digits, projection):
    X, y = digits
    train, test = slice(0, None, 2), slice(1, None, 2)
    found = {}
    for scale in (True, False):
        model = make_pipeline(mp.SupervisedProjection(projection, scale=scale), GaussianNB())
        found[scale] = model.fit(X[train], y[train]).score(X[test], y[test])
    assert found[True] > 0.85
    assert found[False] < 0.6  # as the paper has it, pixels that hardly vary decide
    alone = GaussianNB().fit(X[train], y[train]).score(X[test], y[test])
    assert found[True] > alone


# Streams


@pytest.mark.parametrize("model", STREAMED, ids=str)
def test_chunks_of_any_size_teach_the_same_as_all_rows(digits, model):
    X, y = digits
    order = np.argsort(y, kind="stable")  # the first chunks have one class only
    whole, parts = clone(model).fit(X, y), clone(model)
    for rows in np.array_split(order, 60):
        parts.partial_fit(X[rows], y[rows], classes=range(10))
    np.testing.assert_allclose(parts.A_, whole.A_, atol=1e-9)
    np.testing.assert_array_equal(parts.statistics_.count, whole.statistics_.count)


def test_partial_fit_goes_on_from_fit_and_fit_starts_afresh(digits):
    X, y = digits
    whole = mp.SupervisedProjection().fit(X, y)
    model = mp.SupervisedProjection().fit(X[:900], y[:900]).partial_fit(X[900:], y[900:])
    np.testing.assert_allclose(model.A_, whole.A_, atol=1e-9)
    np.testing.assert_array_equal(model.fit(X, y).A_, whole.A_)


def test_rows_that_are_refused_leave_no_trace(digits):
    X, y = digits
    model = mp.SupervisedProjection().fit(X, y)
    before = model.A_.copy()
    bad = X.copy()
    bad[5, 3] = np.inf
    with pytest.raises(InputError, match="column 3"):
        model.partial_fit(bad, y)
    with pytest.raises(InputError, match="unknown projection"):
        model.set_params(projection="fish").partial_fit(X, y)
    assert model.statistics_.total == len(X)
    np.testing.assert_array_equal(model.A_, before)


def test_labels_outside_the_classes_name_the_cure(iris):
    X, y = iris
    model = mp.SupervisedProjection().partial_fit(X[:100], y[:100])
    with pytest.raises(InputError, match=r"among the classes 0, 1, got .*2.*first partial_fit"):
        model.partial_fit(X, y)
    with pytest.raises(InputError, match="classes must stay 0, 1, got 0, 1, 2"):
        model.partial_fit(X, y, classes=[2, 1, 0])
    with pytest.raises(InputError, match="among the classes 0, 1, got None"):
        model.partial_fit(X[:2], [0, None])
    with pytest.raises(InputError, match="got 2 and 1"):
        model.partial_fit(X[:2], [0])


# Arrays as they come


def test_arrays_are_shared_with_torch_not_copied(digits, monkeypatch):
    X, y = digits
    seen = []
    update = mp.ClassStatistics.update
    monkeypatch.setattr(mp.ClassStatistics, "update", lambda s, X, y, **rest: seen.append(X) or update(s, X, y))
    for data in (X, X.astype(np.float32), np.asfortranarray(X)):
        mp.SupervisedProjection().fit(data, y)
        assert seen[-1].data_ptr() == data.ctypes.data
        assert str(seen[-1].dtype) == f"torch.{data.dtype}"


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_memory_maps_and_backward_arrays_work_without_a_warning(digits, tmp_path, model):
    X, y = digits
    dump(X, tmp_path / "X")
    mapped = load(tmp_path / "X", mmap_mode="r")
    assert not mapped.flags.writeable
    expected = vars(clone(model).fit(X, y))
    for data, labels in ((mapped, y), (X[::-1], y[::-1])):
        found = vars(clone(model).fit(data, labels))
        for name in {"A_", "scores_"} & set(expected):
            np.testing.assert_allclose(found[name], expected[name], atol=1e-9)


def test_float32_stays_float32_and_agrees(digits):
    X, y = digits
    model = mp.SupervisedProjection().fit(X, y)
    P = model.transform(X.astype(np.float32))
    assert P.dtype == np.float32
    np.testing.assert_allclose(P, model.transform(X), atol=1e-4)
    ranker = mp.InstanceRanker().fit(X, y)
    assert ranker.score_samples(X.astype(np.float32)).dtype == np.float32


def test_pandas_in_and_out_keep_names_and_index(iris):
    X, y = iris
    X = X.set_axis(np.arange(7, 157))
    names = y.map(dict(enumerate(["setosa", "versicolor", "virginica"])))
    P = mp.SupervisedProjection().set_output(transform="pandas").fit_transform(X, names)
    assert P.columns.tolist() == [f"supervisedprojection_{name}" for name in ("setosa", "versicolor", "virginica")]
    assert P.index.equals(X.index)
    kept = mp.FeatureRanker(top=2).set_output(transform="pandas").fit_transform(X, names.astype("category"))
    assert kept.columns.tolist() == ["petal length (cm)", "petal width (cm)"]


# Weights, sparse rows, names and the way back


def learned(model):
    """What an estimator has learned, as one array."""
    return model.scores_ if hasattr(model, "scores_") else model.A_


WEIGHTED = [*ESTIMATORS, *(mp.FeatureRanker(name) for name in ("ttest", "information", "roc", "wilcoxon"))]


@pytest.mark.parametrize("model", WEIGHTED, ids=str)
def test_weights_are_repeated_rows(iris, model):
    X, y = (part.to_numpy() for part in iris)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    weighted = clone(model).fit(X, y, sample_weight=counts)
    np.testing.assert_allclose(learned(weighted), learned(repeated), rtol=1e-7, atol=1e-9)
    assert np.abs(learned(weighted) - learned(clone(model).fit(X, y))).max() > 1e-3
    np.testing.assert_allclose(
        learned(clone(model).fit(X, y, np.ones(150))), learned(clone(model).fit(X, y)), rtol=1e-9
    )
    if hasattr(model, "partial_fit"):
        parts = clone(model)
        for rows in np.array_split(np.random.default_rng(1).permutation(len(y)), 5):
            parts.partial_fit(X[rows], y[rows], classes=[0, 1, 2], sample_weight=counts[rows])
        np.testing.assert_allclose(learned(parts), learned(repeated), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize(
    "weight", [np.ones(3), np.full(150, -1.0), np.full(150, np.nan), np.zeros(150), np.ones((150, 1))]
)
def test_weights_that_make_no_sense_are_refused(iris, model, weight):
    with pytest.raises(InputError, match="sample_weight must be"):
        clone(model).fit(*iris, sample_weight=weight)


def test_weights_are_routed_through_a_pipeline(iris):
    X, y = iris
    weight = np.arange(150) % 3
    alone = mp.SupervisedProjection().fit(X, y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        projection = mp.SupervisedProjection().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(projection, GaussianNB().set_fit_request(sample_weight=True))
        pipeline.fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(pipeline[0].A_, alone.A_)


@pytest.mark.parametrize("model", [*WEIGHTED, mp.FeatureRanker(correlation_weight=0.7, distance_weight=2)], ids=str)
@pytest.mark.parametrize("sparse", [csr_matrix, csc_matrix, coo_matrix, csr_array], ids=lambda kind: kind.__name__)
def test_sparse_rows_are_as_dense_ones(digits, model, sparse, monkeypatch):
    monkeypatch.setattr("multipartite._supervised._CHUNK", 64 * 100)  # many chunks
    monkeypatch.setattr("multipartite.ranking._CHUNK", 1797 * 7)
    X, y = digits
    thin = sparse(X)
    dense, found = clone(model).fit(X, y), clone(model).fit(thin, y)
    np.testing.assert_allclose(learned(found), learned(dense), rtol=1e-7, atol=1e-9)
    if hasattr(model, "score_samples"):
        np.testing.assert_allclose(found.score_samples(thin), dense.score_samples(X), rtol=1e-7)
    elif hasattr(model, "A_"):
        P = found.transform(thin)
        assert isinstance(P, np.ndarray)
        np.testing.assert_allclose(P, dense.transform(X), rtol=1e-7, atol=1e-9)
    elif hasattr(found, "ranking_"):
        assert found.ranking_.tolist() == dense.ranking_.tolist()
        assert found.transform(thin).shape == (1797, 10)


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_sparse_rows_are_checked_too(iris, model):
    X, y = iris
    X = X.to_numpy(copy=True)
    X[7, 2] = np.inf
    with pytest.raises(InputError, match="X must be finite, got NaN or inf in column 2"):
        clone(model).fit(csr_matrix(X), y)


def test_columns_are_named_after_their_classes(iris):
    X, y = iris
    model = mp.SupervisedProjection().fit(X, y.map(dict(enumerate("xyz"))))
    assert model.get_feature_names_out().tolist() == [f"supervisedprojection_{name}" for name in "xyz"]
    model = mp.SupervisedProjection(n_components=2).fit(X, y)
    assert model.get_feature_names_out().tolist() == ["supervisedprojection0", "supervisedprojection1"]
    with pytest.raises(NotFittedError):
        mp.SupervisedProjection().get_feature_names_out()


@pytest.mark.parametrize("options", [{}, {"n_components": 2}, {"projection": "orthogonal"}], ids=str)
def test_the_way_back_is_the_best_linear_one(iris, options):
    X, y = (part.to_numpy() for part in iris)
    model = mp.SupervisedProjection(**options).fit(X, y)
    P = model.transform(X)
    back = model.inverse_transform(P)
    np.testing.assert_allclose(model.transform(back), P, atol=1e-8)
    inputs = np.c_[np.ones(len(P)), P]
    best = inputs @ np.linalg.lstsq(inputs, X, rcond=1e-10)[0]
    np.testing.assert_allclose(back, best, atol=1e-7)
    assert model.inverse_transform(P.astype(np.float32)).dtype == np.float32
    with pytest.raises(InputError, match=f"X must have the {P.shape[1]} columns of transform, got 5"):
        model.inverse_transform(np.ones((2, 5)))


# As part of something larger


def test_pipeline_and_grid_search_choose_among_the_options(digits):
    X, y = digits
    pipeline = make_pipeline(mp.FeatureRanker(top=40), mp.SupervisedProjection(), GaussianNB())
    grid = {"supervisedprojection__n_components": [1, None], "featureranker__criterion": ["kl", "roc"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_["supervisedprojection__n_components"] is None
    assert search.best_score_ > 0.85


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_pickles_and_clones(digits, model):
    X, y = digits
    fitted = clone(model).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    method = "score_samples" if hasattr(model, "score_samples") else "transform"
    np.testing.assert_array_equal(getattr(again, method)(X), getattr(fitted, method)(X))
    assert clone(fitted).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        getattr(clone(fitted), method)(X)


# Bad input


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X.assign(b=np.nan), y), "NaN or inf in column b"),
        (lambda X, y: (X.assign(a=-np.inf), y), "NaN or inf in column a"),
        (lambda X, y: (X, y[:-1]), "X and y must have as many rows, got 6 and 5"),
        (lambda X, y: (X, ["one"] * 6), "need at least two classes"),
        (lambda X, y: (X[:1], y[:1]), "at least two rows"),
        (lambda X, y: (X, [*y[:-1], None]), "labels must not be missing, got 1 of 6"),
        (lambda X, y: (X, None), "requires y to be passed"),
    ],
    ids=["nan", "inf", "length", "one class", "one row", "missing", "no labels"],
)
def test_bad_rows_and_labels_are_one_clear_sentence(model, spoil, message):
    X = pd.DataFrame({"a": [1.0, 2, 3, 4, 5, 7], "b": [3.0, 1, 2, 5, 1, 2]})
    X, y = spoil(X, ["u", "v", "u", "v", "u", "v"])
    with pytest.raises(ValueError, match=message):
        clone(model).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (mp.SupervisedProjection("fishr"), "unknown projection 'fishr': did you mean fisher"),
        (mp.SupervisedProjection("fishr", n_components=1), "unknown projection 'fishr': did you mean fisher"),
        (mp.SupervisedProjection(shrinkage=2), "shrinkage must be 'auto' or a number in"),
        (mp.SupervisedProjection(n_components=3), r"n_components must lie in \[1, 2\]"),
        (mp.SupervisedProjection(n_components=1.5), r"n_components must lie in \[1, 2\] .* and be whole, got 1.5"),
        (mp.InstanceRanker("roc"), "cannot rank instances"),
        (mp.InstanceRanker("energy"), "criterion 'energy' learns nothing from labels: score rows by"),
        (mp.InstanceRanker("kll"), "unknown criterion 'kll': did you mean kl"),
        (mp.FeatureRanker("kll"), "unknown criterion 'kll': did you mean kl"),
        (mp.FeatureRanker(top=0), r"top must lie in \[1, 4\]"),
    ],
    ids=str,
)
def test_bad_options_are_one_clear_sentence(iris, model, message):
    with pytest.raises(InputError, match=message):
        model.fit(*iris)


def test_columns_chosen_stay_so_whatever_becomes_of_the_options(iris):
    X, y = iris
    ranker = mp.FeatureRanker(top=2).fit(X, y)
    before = ranker.get_support().copy()
    assert ranker.set_params(top=3).get_support().tolist() == before.tolist()
    assert ranker.support_.sum() == 2
    assert mp.FeatureRanker(top=None).fit(X, y).support_.all()


@pytest.mark.parametrize("kind", [np.float32, np.float64, int])
def test_options_may_be_numbers_of_numpy(iris, kind):
    plain = mp.SupervisedProjection(shrinkage=1, n_components=1).fit(*iris)
    other = mp.SupervisedProjection(shrinkage=kind(1), n_components=np.int64(1)).fit(*iris)
    np.testing.assert_array_equal(other.A_, plain.A_)


def test_labels_of_several_columns_are_not_called_a_column_vector(iris):
    X, y = iris
    with pytest.raises(ValueError, match="y should be a 1d array, got an array of shape"):
        mp.SupervisedProjection().fit(X, np.eye(3)[y])


def test_numbers_too_large_to_square_are_told_from_infinite_ones(iris):
    X, y = iris
    with pytest.raises(InputError, match="small enough to be squared in float64"):
        mp.SupervisedProjection().fit(X * 1e200, y)


def test_rows_to_transform_are_checked_too(iris):
    X, y = iris
    bad = X.copy()
    bad.iloc[3, 2] = np.nan
    with pytest.raises(InputError, match=r"petal length \(cm\)"):
        mp.SupervisedProjection().fit(X, y).transform(bad)
    with pytest.raises(InputError, match=r"petal length \(cm\)"):
        mp.InstanceRanker().fit(X, y).score_samples(bad)
