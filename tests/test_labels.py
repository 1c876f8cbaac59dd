"""Labels as users give them."""

import math

import pytest
import torch
from torch.testing import assert_close

import multipartite as mp
from multipartite.errors import InputError
from multipartite.labels import Labels, plain_labels
from windows import LAYERS

SOFT = torch.tensor([[0.5, 0.5, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.25, 0.25, 0.5]], dtype=torch.float64)
ROWS = torch.arange(8.0, dtype=torch.float64).reshape(4, 2)
VECTORS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 4.0]], dtype=torch.float64)


def test_indices_need_no_weight():
    labels = Labels.of(torch.tensor([2, 0, 2, 1]), 3)
    assert labels.weight is None
    assert labels.soft is None
    assert len(labels) == 4
    assert_close(labels.sums(ROWS), torch.tensor([[2.0, 3.0], [6.0, 7.0], [4.0, 6.0]]).double())
    assert_close(labels.mix(VECTORS), VECTORS[[2, 0, 2, 1]])


def test_ignored_rows_weigh_nothing():
    labels = Labels.of(torch.tensor([2, -7, 2, 1]), 3, ignore_index=-7)
    assert labels.weight.tolist() == [1, 0, 1, 1]
    assert_close(labels.sums(ROWS), torch.tensor([[0.0, 0.0], [6.0, 7.0], [4.0, 6.0]]).double())
    assert_close(labels.rescaled_sums(ROWS * labels.weight.sqrt()[:, None]), labels.sums(ROWS))


def test_soft_labels_weigh_every_class():
    labels = Labels.of(SOFT, 3)
    assert labels.weight.tolist() == [1, 2, 0, 1]
    assert_close(labels.sums(ROWS), SOFT.T @ ROWS)
    assert_close(labels.rescaled_sums(ROWS * labels.weight.sqrt()[:, None]), SOFT.T @ ROWS)
    assert_close(labels.mix(VECTORS)[0], torch.tensor([0.5, 0.5]).double())
    assert_close(labels.mix(VECTORS)[1], VECTORS[1])  # a mean, whatever the row weighs
    assert_close(labels.mix(VECTORS)[2], torch.zeros(2).double())


@pytest.mark.parametrize("y", [torch.tensor([2, 0, 2, 1]), torch.tensor([2, -100, 2, 1]), SOFT])
def test_slices_keep_their_rows(y):
    whole = Labels.of(y, 3)
    parts = [whole[:1], whole[1:]]
    assert [len(part) for part in parts] == [1, 3]
    assert_close(parts[0].sums(ROWS[:1]) + parts[1].sums(ROWS[1:]), whole.sums(ROWS))


def test_an_unsigned_class_is_not_mistaken_for_the_ignored_one():
    labels = Labels.of(torch.tensor([156, 3], dtype=torch.uint8), 200)  # 156 is -100 in eight bits
    assert labels.weight is None
    assert labels.index.tolist() == [156, 3]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.tensor([0, 3]), r"labels must lie in \[0, 3\) for num_classes=3, got 3"),
        (torch.tensor([0, -1]), r"labels must lie in \[0, 3\) for num_classes=3, got -1"),
        (
            torch.tensor([0.0, 1.0]),
            r"labels must be \(N,\) class indices or \(N, 3\) weights, got float32 of shape \(2,\)",
        ),
        (torch.tensor(1), r"labels must be \(N,\) class indices or \(N, 3\) weights, got int64 of shape \(\)"),
        (torch.ones(2, 4), r"labels must be .* got float32 of shape \(2, 4\)"),
        (torch.tensor([[0.5, -0.5, 1.0]]), "soft labels must be finite and not negative, got -0.5"),
        (torch.tensor([[0.5, float("nan"), 1.0]]), "soft labels must be finite and not negative, got nan"),
        (torch.tensor([[0.5, float("inf"), 1.0]]), "soft labels must be finite and not negative, got inf"),
    ],
)
def test_refuses_other_labels(y, message):
    with pytest.raises(InputError, match=message):
        Labels.of(y, 3)


def counted(y, num_classes, shape):
    """Class counts of a layer that has seen ones of `shape` with labels y, all pixels."""
    layer = LAYERS[len(shape) - 2](1, num_classes=num_classes, gather=None, assignment="hard", max_rows=None)
    with mp.supervise(y):
        layer(torch.ones(shape))
    return layer.statistics.count


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32])
@pytest.mark.parametrize(
    ("c", "shape"),
    [
        (6, (4, 2, 2, 3)),  # as many classes as pixels
        (5, (5, 2, 2, 3)),  # as images
        (3, (4, 2, 2, 3)),  # as columns
        (4, (4, 2, 4, 4)),  # as rows, columns and images
        (4, (3, 2, 4)),
        (3, (3, 2, 3)),
        (8, (3, 2, 2, 2, 2)),
        (2, (2, 2, 2, 2, 2)),
    ],
)
def test_one_hot_labels_count_images_whatever_the_sizes(c, shape, dtype):
    y = torch.arange(shape[0]) % c
    hot = torch.nn.functional.one_hot(y, c).to(dtype)
    pixels = math.prod(shape[2:])
    expected = pixels * torch.bincount(y, minlength=c)
    assert counted(hot, c, shape).tolist() == counted(y, c, shape).tolist() == expected.tolist()


def test_one_hot_labels_of_nineteen_classes_and_the_pixels_that_the_defaults_look_at():
    y = torch.arange(100) % 19
    pools = [mp.MultipartitePool2d.printed(2, num_classes=19) for _ in range(2)]
    for pool, labels in zip(pools, (y, torch.nn.functional.one_hot(y, 19)), strict=True):
        with mp.supervise(labels):
            pool(torch.rand(100, 8, 24, 24, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(pools[0].statistics.count, pools[1].statistics.count)
    torch.testing.assert_close(pools[0].statistics.mean, pools[1].statistics.mean)


@pytest.mark.parametrize(("c", "shape"), [(6, (4, 2, 2, 3)), (3, (3, 2, 3, 3)), (4, (3, 2, 4)), (8, (3, 2, 2, 2, 2))])
def test_labels_a_pixel_count_pixels_whatever_the_sizes(c, shape):
    y = torch.randint(c, (shape[0], *shape[2:]), generator=torch.Generator().manual_seed(1))
    assert counted(y, c, shape).tolist() == torch.bincount(y.flatten(), minlength=c).tolist()


def test_weights_a_row_count_as_often():
    X, y = torch.randn(6, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    times = torch.tensor([1, 2, 0, 3, 1, 2])
    weighted = mp.ClassStatistics(3, 2).update(X, y, weight=times)
    repeated = mp.ClassStatistics(3, 2).update(X.repeat_interleave(times, 0), y.repeat_interleave(times))
    for name in ("count", "mean", "scatter"):
        assert_close(getattr(weighted, name), getattr(repeated, name))


def test_another_index_may_be_ignored():
    with mp.supervise(torch.tensor([[0, 255], [1, 1]]), ignore_index=255):
        layer = mp.MultipartitePool1d(1, num_classes=2, gather=None, assignment="hard")
        layer(torch.ones(2, 3, 2))
    assert layer.statistics.count.tolist() == [1, 2]


@pytest.mark.parametrize("count", [3, 3000])
def test_the_index_of_a_class_may_be_ignored(count):
    """As the background of a segmentation is."""
    labels = Labels.of(torch.tensor([0, 1, 2]).repeat(count // 3), 3, ignore_index=0)
    assert labels.weight.tolist() == [0, 1, 1] * (count // 3)


def test_only_labels_of_which_nothing_else_is_to_be_known_are_plain():
    def plain(y, **options):
        with mp.supervise(y, **options):
            return plain_labels(3)

    assert plain_labels(3) is None
    assert plain([0, 1, 2, 2]) == plain(torch.tensor([0, 1, 2, 2])) == 4
    assert plain(torch.arange(3000) % 3) == 3000
    others = ([0, 3], [0, -1], [0, -100], [[0, 1], [1, 0]], torch.eye(3), torch.tensor([0, 1], dtype=torch.int32), [])
    assert [plain(y) for y in others] == [None] * len(others)
    assert plain([0, 1], ignore_index=1) is None
