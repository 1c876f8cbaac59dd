"""Class statistics against the loops of Eq. 5 and 6."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import reference
from multipartite.errors import InputError
from multipartite.statistics import ClassStatistics
from samples import AWKWARD, blobs, statistics_of

C = 3
SHAPES = [(), (5,), (3, 4), (2, 3, 2)]


def activations(spatial, *, n=12, d=4, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, *spatial, generator=generator, dtype=torch.float64)
    y = torch.arange(n) % C
    return (x + y.reshape(-1, *[1] * (x.ndim - 1)) * torch.arange(1, d + 1).reshape(-1, *[1] * len(spatial))).to(
        dtype
    ), y


def soft_labels(n, seed=1):
    weights = torch.rand(n, C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weights[0] = 0  # a row may count for nothing
    return weights


def assert_as_in_the_paper(statistics, x, y, rtol=1e-10, **options):
    count, mean, Sw, Sb = reference.statistics(x, y, statistics.num_classes, **options)
    d = statistics.num_features // statistics.groups
    blocks = [slice(g * d, (g + 1) * d) for g in range(statistics.groups)]
    for got, wanted in (
        (statistics.count, count),
        (statistics.mean, mean),
        (statistics.within, np.stack([Sw[b, b] for b in blocks])),
        (statistics.between, np.stack([Sb[b, b] for b in blocks])),
    ):
        scale = max(1.0, np.abs(wanted).max())
        assert_close(got, torch.as_tensor(wanted), rtol=rtol, atol=rtol * scale, check_dtype=False)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("spatial", SHAPES)
def test_one_label_an_image(spatial, groups):
    x, y = activations(spatial)
    assert_as_in_the_paper(ClassStatistics(C, 4, groups=groups).update(x, y), x, y)


@pytest.mark.parametrize("spatial", SHAPES[1:])
def test_one_label_a_pixel(spatial):
    x, _ = activations(spatial)
    y = torch.randint(C, (len(x), *spatial), generator=torch.Generator().manual_seed(2))
    assert_as_in_the_paper(ClassStatistics(C, 4, groups=2).update(x, y), x, y)


@pytest.mark.parametrize("spatial", SHAPES)
def test_soft_labels(spatial):
    x, y = activations(spatial)[0], soft_labels(12)
    assert_as_in_the_paper(ClassStatistics(C, 4, groups=2).update(x, y), x, y)


def test_one_hot_labels_equal_indices():
    x, y = activations((5,))
    one_hot = torch.nn.functional.one_hot(y, C)
    assert_close(ClassStatistics(C, 4).update(x, one_hot).scatter, ClassStatistics(C, 4).update(x, y).scatter)


@pytest.mark.parametrize("spatial", SHAPES)
def test_ignored_rows_count_nowhere(spatial):
    x, y = activations(spatial)
    y = torch.where(torch.arange(12) % 4 == 0, -1, y)
    statistics = ClassStatistics(C, 4).update(x, y, ignore_index=-1)
    assert_as_in_the_paper(statistics, x, y, ignore_index=-1)
    assert_close(statistics.scatter, ClassStatistics(C, 4).update(x[y >= 0], y[y >= 0]).scatter)


def test_ignored_pixels_count_nowhere():
    x, _ = activations((3, 4))
    y = torch.randint(C, (12, 3, 4), generator=torch.Generator().manual_seed(2))
    y[:, 1] = -100
    assert_as_in_the_paper(ClassStatistics(C, 4).update(x, y), x, y)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layouts_agree(layout, dtype):
    x, y = activations((3, 4), dtype=dtype)
    statistics = ClassStatistics(C, 4, groups=2).update(x.contiguous(memory_format=layout), y)
    assert_as_in_the_paper(statistics, x, y, rtol=1e-5 if dtype == torch.float32 else 1e-10)


def test_strided_and_expanded_input():
    x, y = activations((6, 4))
    statistics = ClassStatistics(C, 4).update(x[:, :, ::2, 1:], y)
    assert_as_in_the_paper(statistics, x[:, :, ::2, 1:], y)
    one = x[:, :, :1, :1].expand(-1, -1, 2, 3)
    assert_as_in_the_paper(ClassStatistics(C, 4).update(one, y), one, y)


def test_3d_channels_last():
    x, y = activations((2, 3, 2))
    assert_as_in_the_paper(ClassStatistics(C, 4).update(x.contiguous(memory_format=torch.channels_last_3d), y), x, y)


@pytest.mark.parametrize("labels", ["hard", "soft", "ignored"])
def test_many_chunks_equal_one(monkeypatch, labels):
    x, y = activations((3,), n=30)
    y = {"hard": y, "soft": soft_labels(30), "ignored": torch.where(torch.arange(30) < 5, -100, y)}[labels]
    whole = ClassStatistics(C, 4).update(x, y)
    monkeypatch.setattr("multipartite.statistics._CHUNK", 24)  # two images at a time
    parts = ClassStatistics(C, 4).update(x, y)
    for name in ("count", "mean", "scatter"):
        assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    order=st.randoms(use_true_random=False),
    offset=st.sampled_from([0.0, 1.0, -1e3]),
    soft=st.booleans(),
)
def test_any_split_merged_in_any_order_equals_one_pass(seed, cuts, order, offset, soft):
    X, y = blobs(seed, 60, 4, C)
    X, y = torch.as_tensor(X + offset), torch.as_tensor(y)
    y = soft_labels(60, seed) if soft else y
    edges = sorted({0, 60, *cuts})
    parts = [ClassStatistics(C, 4, groups=2).update(X[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    order.shuffle(parts)
    while len(parts) > 1:  # a random tree of merges
        parts.append(parts.pop(order.randrange(len(parts))).merge(parts.pop(order.randrange(len(parts)))))
    whole = ClassStatistics(C, 4, groups=2).update(X, y)
    for name in ("count", "mean", "scatter", "within", "between"):
        wanted = getattr(whole, name)
        got = getattr(parts[0], name)
        assert (got - wanted).norm() <= 1e-9 * wanted.norm()


@pytest.mark.parametrize("labels", ["hard", "soft"])
@pytest.mark.parametrize("spatial", [(), (4, 4)])
def test_a_large_mean_does_not_cancel_in_float32(spatial, labels):
    generator = torch.Generator().manual_seed(0)
    x = (1e4 + torch.randn(6000 if spatial == () else 400, 6, *spatial, generator=generator)).float()
    y = torch.arange(len(x)) % C
    y = torch.nn.functional.one_hot(y, C) * 0.8 + 0.1 if labels == "soft" else y
    exact = ClassStatistics(C, 6).update(x.double(), y).within
    for batches in (1, 8):
        statistics = ClassStatistics(C, 6)
        for rows, label in zip(x.chunk(batches), y.chunk(batches), strict=True):
            statistics.update(rows, label)
        assert (statistics.within - exact).norm() <= 1e-3 * exact.norm()
    raw = x.movedim(1, -1).reshape(-1, 6)  # what raw second moments would give
    naive = raw.T @ raw / len(raw) - torch.outer(raw.mean(0), raw.mean(0))
    assert (naive - exact[0]).norm() > 1e-1 * exact.norm()


def test_decay_weighs_old_rows_down():
    X, y = blobs(0, 40, 3, C)
    old, new = statistics_of(X[:20], y[:20]), statistics_of(X[20:], y[20:])
    streamed = statistics_of(X[:20], y[:20]).decay(0.25).update(X[20:], y[20:])
    weights = np.where(np.arange(40) < 20, 0.75, 1.0)[:, None] * np.eye(C)[y]
    assert_as_in_the_paper(streamed, X, weights)
    before = statistics_of(X[:20], y[:20])
    after = statistics_of(X[:20], y[:20]).decay(0.25)
    assert_close(after.within, before.within)
    assert_close(after.mean, before.mean)
    assert_close(streamed.count, 0.75 * old.count + new.count)


@pytest.mark.parametrize("momentum", [-0.1, 1.5, float("nan")])
def test_decay_refuses_other_momentum(momentum):
    with pytest.raises(InputError, match=r"momentum must lie in \[0, 1\]"):
        ClassStatistics(2, 2).decay(momentum)


def test_decay_of_everything_forgets_it():
    X, y = blobs(0, 40, 3, C)
    statistics = statistics_of(X + 100, y).decay(1.0).update(X, y)
    assert_as_in_the_paper(statistics, X, y)


@pytest.mark.parametrize("data", AWKWARD)
def test_awkward_data_is_finite_and_as_in_the_paper(data):
    X, y, c = AWKWARD[data]
    statistics = statistics_of(X, y, c)
    assert_as_in_the_paper(statistics, X, y)
    for name in ("prior", "overall_mean", "class_means", "deviations"):
        assert torch.isfinite(getattr(statistics, name)).all()
    assert_close(statistics.present, torch.as_tensor(np.isin(np.arange(c), y)))
    assert not statistics.deviations[:, ~statistics.present].any()


def test_nothing_seen_is_zero_and_finite():
    statistics = ClassStatistics(C, 4, groups=2)
    statistics.update(torch.empty(0, 4), torch.empty(0, dtype=torch.long))
    statistics.update(torch.ones(2, 4), torch.tensor([-100, -100]))
    for name in ("count", "mean", "within", "between", "prior", "overall_mean", "deviations"):
        assert not getattr(statistics, name).any()
    X, y = blobs(0, 20, 4, C)
    assert_close(statistics.merge(statistics_of(X, y, groups=2)).scatter, statistics_of(X, y, groups=2).scatter)
    assert_close(statistics.merge(ClassStatistics(C, 4, groups=2)).scatter, statistics_of(X, y, groups=2).scatter)


def test_between_is_unweighted():
    statistics = ClassStatistics(2, 1).update([[0.0]] * 9 + [[10.0]], [0] * 9 + [1])
    assert statistics.overall_mean.item() == pytest.approx(1.0)
    assert statistics.between.item() == pytest.approx((1 + 81) / 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.uint8])
def test_other_number_types(dtype):
    x, y = torch.arange(48).remainder(7).reshape(12, 4).to(dtype), torch.arange(12) % C
    assert_as_in_the_paper(ClassStatistics(C, 4).update(x, y), x.double(), y, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_other_label_types(dtype):
    x, y = torch.randn(200, 2, generator=torch.Generator().manual_seed(0)).double(), torch.arange(200) % 200
    if dtype == torch.int8:
        y = y % 100
    got = ClassStatistics(200, 2).update(x, y.to(dtype))
    assert_close(got.count, ClassStatistics(200, 2).update(x, y).count)


def test_gradients_are_not_followed():
    x, y = activations((3,))
    statistics = ClassStatistics(C, 4).update(x.requires_grad_(), y)
    assert not statistics.scatter.requires_grad
    assert_as_in_the_paper(statistics, x.detach(), y)


def test_autocast_does_not_lower_the_precision():
    x, y = activations((3,), dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        statistics = ClassStatistics(C, 4).update(x, y)
    assert_as_in_the_paper(statistics, x, y, rtol=1e-5)


def test_state_round_trips_and_keeps_its_precision():
    X, y = blobs(0, 20, 4, C)
    statistics = statistics_of(X, y, groups=2)
    for moved in (statistics.half(), statistics.float(), statistics.to(torch.bfloat16)):
        assert moved.scatter.dtype == torch.float64
    other = ClassStatistics(C, 4, groups=2)
    other.load_state_dict(statistics.state_dict())
    assert torch.equal(other.scatter, statistics.scatter)
    assert not other.reset().count.any()
    assert repr(statistics) == "ClassStatistics(num_classes=3, num_features=4, groups=2)"


def test_float32_statistics_stay_float32():
    X, y = blobs(0, 20, 4, C)
    statistics = statistics_of(torch.as_tensor(X).float(), y, dtype=torch.float32)
    assert {t.dtype for t in statistics.buffers()} == {torch.float32}
    assert_as_in_the_paper(statistics, X, y, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 3, 1), "need at least one class and one feature, got 0 and 3"),
        ((2, 0, 1), "need at least one class and one feature, got 2 and 0"),
        ((2, 4, 3), "groups must divide the number of features, got 3 for 4"),
        ((2, 4, 0), "groups must divide the number of features, got 0 for 4"),
    ],
)
def test_refuses_sizes(arguments, message):
    classes, features, groups = arguments
    with pytest.raises(InputError, match=message):
        ClassStatistics(classes, features, groups=groups)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (torch.ones(4, 3), [0, 1, 0, 1], r"X must be \(N, 2, ...\), got shape \(4, 3\)"),
        (torch.ones(4), [0, 1, 0, 1], r"X must be \(N, 2, ...\), got shape \(4,\)"),
        (torch.ones(4, 2), [0, 1, 0], "labels must be as many as rows, got 3 labels for 4 rows"),
        (torch.ones(2, 2), [0, 2], r"labels must lie in \[0, 2\) for num_classes=2, got 2"),
    ],
)
def test_refuses_rows_and_changes_nothing(X, y, message):
    statistics = ClassStatistics(2, 2)
    with pytest.raises(InputError, match=message):
        statistics.update(X, y)
    assert not statistics.count.any()


def test_refuses_to_merge_others():
    with pytest.raises(
        InputError, match=r"statistics must agree to merge: .* \(2, 4\) in 1 groups against \(2, 4\) in 2"
    ):
        ClassStatistics(2, 4).merge(ClassStatistics(2, 4, groups=2))
