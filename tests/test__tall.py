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
    monkeypatch.setattr(_tall, "_GLANCE", 8)


@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spans_add_up_to_the_plain_sums(small_chunks, order, threads, dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 500)
    y = np.sort(y) if order == "sorted" else y
    X = (rng.normal(size=(500, 3)) + 3 * y[:, None]).astype(dtype)
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


def test_statistics_take_the_tall_way_for_tall_tables(monkeypatch):
    called = []
    monkeypatch.setattr("multipartite.statistics.tall_moments", lambda *args: called.append(args) or [])
    X, y = np.zeros((_tall.LEAST_ROWS, 2)), np.zeros(_tall.LEAST_ROWS, dtype=int)
    ClassStatistics(2, 2).update(X, y)
    ClassStatistics(2, 2).update(X[1:], y[1:])
    assert len(called) == 1
