"""Checks at the public boundary."""

import warnings

import numpy as np
import pandas as pd
import pytest

from multipartite._validation import check_finite, encode_labels
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
        ([0.5, -1.0, 0.5], [-1.0, 0.5]),
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
