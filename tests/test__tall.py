import numpy as np
import pytest
import torch

from multipartite import _tall
from multipartite._tall import tall_moments
from multipartite.statistics import ClassStatistics


@pytest.fixture
def small_chunks(monkeypatch):
    """Many chunks and many spans, at sizes that take no time."""
    monkeypatch.setattr(_tall, "_CHUNK", 64)
    monkeypatch.setattr(_tall, "_WHOLE", 96)
    monkeypatch.setattr(_tall, "_GLANCE", 32)


@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("apart", [0.1, 30])
def test_spans_add_up_to_the_plain_sums(small_chunks, order, threads, dtype, apart):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 500)
    y = np.sort(y) if order == "sorted" else y
    X = (rng.normal(size=(500, 3)) + apart * y[:, None]).astype(dtype)
    whole = ClassStatistics(5, 3).update(torch.from_numpy(X).double(), y)
    summed = ClassStatistics(5, 3)
    spans = tall_moments(X, y, 5, threads)
    assert len(spans) == threads
    for number, mean, scatter in spans:
        other = ClassStatistics(5, 3)
        other.count.copy_(torch.from_numpy(number))
        other.mean.copy_(torch.from_numpy(mean))
        other.scatter.copy_(torch.from_numpy(scatter)[None])
        summed.merge(other)
    rtol = 1e-5 if dtype is np.float32 else 1e-12
    for name in ("count", "mean", "scatter"):
        expected = getattr(whole, name)
        torch.testing.assert_close(getattr(summed, name), expected, rtol=rtol, atol=rtol * expected.abs().max().item())


def test_a_class_that_lies_far_away_keeps_its_digits():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 20_000)
    X = rng.normal(size=(40_000, 2)) + np.array([0.0, 1e6])[y][:, None]
    (_, _, scatter), *_ = tall_moments(X, y, 2, 1)
    exact = sum(((X[y == j] - X[y == j].mean(0)).T @ (X[y == j] - X[y == j].mean(0))) for j in (0, 1))
    np.testing.assert_allclose(scatter, exact, rtol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "mean", "far"), [("f8", 5, False), ("f8", 20, True), ("f4", 0.5, False), ("f4", 5, True)]
)
def test_rows_are_centred_only_where_digits_would_be_lost(dtype, mean, far):
    rng = np.random.default_rng(2)
    X, y = (rng.normal(size=(4000, 3)) + mean).astype(dtype), rng.integers(0, 2, 4000)
    origins, centred = _tall._origins(X, y, 2)
    assert centred is far
    assert origins.any() == far


def test_a_column_that_never_changes_is_centred():
    X, y = np.full((4000, 1), 0.3), np.arange(4000) % 2
    (_, _, scatter), *_ = tall_moments(X, y, 2, 1)
    assert scatter.item() < 1e-25


def test_statistics_take_the_tall_way_for_tall_tables(monkeypatch):
    called = []
    monkeypatch.setattr("multipartite.statistics.tall_moments", lambda *args: called.append(args) or [])
    X, y = np.zeros((_tall.LEAST_ROWS, 2)), np.zeros(_tall.LEAST_ROWS, dtype=int)
    ClassStatistics(2, 2).update(X, y)
    ClassStatistics(2, 2).update(X[1:], y[1:])
    assert len(called) == 1
