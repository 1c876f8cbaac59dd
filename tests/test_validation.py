"""Checks at the public boundary."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

import multipartite as mp
from multipartite._validation import as_tensor, check_finite, encode_labels
from multipartite.errors import InputError


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_finite_numbers_pass(dtype):
    check_finite(np.ones((3, 2), dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_numbers_whose_sum_overflows_pass(dtype):
    check_finite(np.full((3, 2), np.finfo(dtype).max, dtype=dtype))


@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [np.nan, np.inf]])
def test_names_the_column(bad):
    X = np.zeros((4, 3))
    X[: len(bad), 1] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="X must be finite, got NaN or inf in column 1: fill or drop these rows"):
            check_finite(X)
        with pytest.raises(InputError, match="in column width: fill"):
            check_finite(X, ["height", "width", "depth"])


def test_names_no_more_than_five_columns():
    X = np.full((2, 8), np.nan)
    with pytest.raises(InputError, match="in columns 0, 1, 2, 3, 4 and 3 more: fill"):
        check_finite(X)
    with pytest.raises(InputError, match="in columns 0, 1: fill"):
        check_finite(X[:, :2])


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([3, 1, 3], [1, 3]),
        ([5.0, -1.0, 5.0], [-1.0, 5.0]),
        (np.array([5.0, -1, 5.0], dtype=object), [-1, 5.0]),
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        ([True, False, True], [False, True]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series([3, 1, 3], dtype="Int64"), [1, 3]),
    ],
)
def test_labels_are_indexed_in_order(y, classes):
    found, index = encode_labels(y, 3)
    assert found.tolist() == classes
    assert index.tolist() == [1, 0, 1]
    assert index.dtype == np.int64


@pytest.mark.parametrize(
    ("y", "rows", "message"),
    [
        ([[0], [1]], 2, r"y must be one label a row, got shape \(2, 1\)"),
        ([0, 1, 0], 2, "X and y must have as many rows, got 2 and 3"),
        ([0], 1, r"need at least two rows, got 1 \(n_samples=1\)"),
        ([], 0, "need at least two rows, got 0"),
        ([0.0, np.nan, 1.0], 3, "labels must not be missing, got 1 of 3: drop these rows"),
        ([0.5, 2.0, 0.5], 3, "y must be classes, got a continuous target with numbers such as 0.5: bin it first, for"),
        (np.float32([1, 2, 2.25]), 3, "got a continuous target with numbers such as 2.25: bin it"),
        (np.array([1, 2, 2.25], dtype=object), 3, "got a continuous target with numbers such as 2.25: bin it"),
        ([0.0, np.inf, 1.0], 3, "got a continuous target with numbers such as inf: bin it"),
        (["a", None, None], 3, "labels must not be missing, got 2 of 3"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), 3, "labels must not be missing, got 1 of 3"),
        (pd.Series([1, pd.NA, 2], dtype="Int64"), 3, "labels must not be missing, got 1 of 3"),
        (pd.to_datetime(["2020-01-01", None, "2020-01-02"]), 3, "labels must not be missing, got 1 of 3"),
        ([7, 7, 7], 3, "need at least two classes to tell apart, got one class: 7"),
        (["cat", "cat"], 2, "need at least two classes to tell apart, got one class: 'cat'"),
        (np.array([1, "a"], dtype=object), 2, "labels must be all numbers or all words, got int and str"),
    ],
)
def test_refuses_other_labels(y, rows, message):
    with pytest.raises(InputError, match=message):
        encode_labels(y, rows)


def test_more_classes_than_can_be_told_apart_are_warned_of_at_the_line_of_the_user():
    X = np.arange(60.0)[:, None]
    with pytest.warns(
        UserWarning, match="y has 60 classes in 60 rows: if it is a measurement or an identifier"
    ) as caught:
        mp.rank_features(X, np.arange(60))
    assert caught[0].filename == __file__
    mp.rank_features(X, np.arange(60) % 30)
    with pytest.warns(DataConversionWarning) as caught:
        mp.SupervisedProjection().fit(X, (np.arange(60) % 2)[:, None])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("values", [[0, 1], [1, 0, 1, 1], [3, 100, 7, 3]])
def test_whole_numbers_are_counted_as_unique_would(dtype, values):
    y = np.array(values).astype(dtype)
    if len(np.unique(y)) < 2:
        y[0] = 0
    classes, index = encode_labels(y, len(y))
    expected, inverse = np.unique(y, return_inverse=True)
    assert classes.dtype == y.dtype
    assert classes.tolist() == expected.tolist()
    assert index.tolist() == inverse.tolist()


@pytest.mark.parametrize("y", [[-5, 2, -5], [0, 2**62], [-(2**62), 2**62]])
def test_whole_numbers_far_apart_or_below_zero(y):
    classes, index = encode_labels(y, len(y))
    assert classes[index].tolist() == y


@pytest.mark.parametrize("estimator", [mp.SupervisedProjection(), mp.InstanceRanker(), mp.FeatureRanker()], ids=str)
def test_no_estimator_takes_a_measurement_for_classes(estimator):
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(InputError, match="y must be classes, got a continuous target"):
        estimator.fit(X, X[:, 0])
    with pytest.raises(InputError, match="y must be classes, got a continuous target"):
        mp.rank_features(X, X[:, 0])
    if hasattr(estimator, "partial_fit"):
        with pytest.raises(InputError, match="classes must be classes, got a continuous target"):
            estimator.partial_fit(X, X[:, 0] > 0, classes=[0.5, 1.5])
        with pytest.raises(InputError, match="need at least two classes to tell apart, got classes=1"):
            estimator.partial_fit(X, X[:, 0] > 0, classes=[1])


# Each in a process of its own, for torch warns of read-only arrays once
READ_ONLY = """
import warnings
warnings.simplefilter("error")
import numpy as np, pandas as pd, multipartite as mp
X, y = np.arange(24.0).reshape(8, 3) % 5, np.array([0, 1] * 4)
{}
mp.rank_features(X, y), mp.rank_features(X, y, "roc"), mp.rank_features(X, y, correlation_weight=1)
mp.FeatureRanker(top=2).fit(X, y).transform(X)
mp.SupervisedProjection().fit(X, y).partial_fit(X, y).transform(X)
mp.InstanceRanker().fit(X, y).rank(X)
import torch
net = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 1), mp.MultipartitePool1d(2, num_classes=2))
with mp.supervise(np.asarray(y)):
    net(torch.rand(8, 1, 4))
mp.fit(net, [(torch.rand(8, 1, 4), np.asarray(y))])
mp.ClassStatistics(2, 3).update(np.asarray(X, dtype=float), np.asarray(y, dtype=int))
"""


@pytest.mark.parametrize(
    "make",
    [
        "X.flags.writeable = y.flags.writeable = False",
        "X, y = pd.DataFrame(X, columns=[*'abc']), pd.Series(y)",
        "X, y = pd.DataFrame(X, columns=[*'abc']).convert_dtypes(), pd.Series(y, dtype='Int64')",
        "X, y = X[::-1], y[::-1]",
        "X, y = np.broadcast_to(X[:, :1], X.shape), y.tolist()",
    ],
)
def test_arrays_that_may_not_be_written_to_bring_no_warning(make):
    subprocess.run([sys.executable, "-c", READ_ONLY.format(make)], check=True, timeout=120)


def test_arrays_are_viewed_as_they_are():
    X = np.arange(6.0).reshape(2, 3)
    assert as_tensor(X).data_ptr() == X.ctypes.data
    X.flags.writeable = False
    assert as_tensor(X).data_ptr() == X.ctypes.data
    assert as_tensor(X[::-1]).tolist() == X[::-1].tolist()
