"""Labels as users give them."""

import pytest
import torch
from torch.testing import assert_close

from multipartite.errors import InputError
from multipartite.labels import Labels

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
