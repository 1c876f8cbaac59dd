import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset, Split, stratified


def dataset(n=3000, channels=3):
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, channels, 4, 5), dtype=torch.uint8, generator=random)
    labels = torch.arange(n) % 3
    return Dataset("noise", Split(images, labels), Split(images[:30], labels[:30]), ("a", "b", "c"))


def test_moments_are_those_of_the_training_images():
    data = dataset()
    exact = data.train.images.double()
    assert_close(data.mean, exact.mean((0, 2, 3)).float())
    assert_close(data.std, exact.std((0, 2, 3), correction=0).float())


def test_normalised_training_images_have_zero_mean_and_unit_deviation():
    data = dataset()
    x = data.normalise(data.train.images)
    assert x.dtype == torch.float32
    assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    assert_close(x.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)
    assert data.train.images.dtype == torch.uint8


def test_normalising_leaves_the_images_alone_and_multiplies_as_training_always_did():
    data = dataset()
    for images in (data.test.images, data.test.images.float()):
        kept = images.clone()
        mean, std = data.mean.view(-1, 1, 1), data.std.view(-1, 1, 1)
        assert data.normalise(images).equal((kept.float() - mean) * (1.0 / std)), "committed results rest on these bits"
        assert images.equal(kept)


def test_a_constant_channel_becomes_zero():
    images = torch.full((6, 1, 2, 2), 7, dtype=torch.uint8)
    split = Split(images, torch.arange(6) % 2)
    data = Dataset("flat", split, split, ("a", "b"))
    assert data.normalise(images).abs().sum() == 0


def test_limit_is_stratified_seeded_and_spares_the_test_set():
    data = dataset()
    small = data.limit(300)
    assert small.train.labels.bincount().tolist() == [100, 100, 100]
    assert small.train.images.equal(data.limit(300, seed=0).train.images)
    assert not small.train.images.equal(data.limit(300, seed=1).train.images)
    assert small.test.images.equal(data.test.images)
    assert data.limit(3000) is data


def test_moments_follow_the_training_images_that_are_left():
    data = dataset()
    small = data.limit(30)
    assert_close(small.mean, small.train.images.double().mean((0, 2, 3)).float())


@pytest.mark.parametrize(("share", "count"), [(0.1, 300), (600, 600)])
def test_validation_is_split_off_the_training_set(share, count):
    data = dataset()
    split = data.with_validation(share, seed=3)
    assert len(split.validation) == len(split.validation.images) == count
    assert split.validation.labels.bincount().tolist() == [count // 3] * 3
    assert len(split.train) == 3000 - count
    together = torch.cat([split.train.images, split.validation.images]).flatten(1)
    assert together.unique(dim=0).equal(data.train.images.flatten(1).unique(dim=0))
    assert split.test.images.equal(data.test.images)
    assert not split.validation.images.equal(data.with_validation(share, seed=4).validation.images)


def test_labels_stay_with_their_images():
    n = 90
    images = (torch.arange(n) % 3).to(torch.uint8).view(n, 1, 1, 1)
    own = Split(images, torch.arange(n) % 3)
    data = Dataset("own", own, own, ("a", "b", "c"))
    split = data.limit(60).with_validation(0.5)
    assert split.train.images.flatten().long().equal(split.train.labels)
    assert split.validation.images.flatten().long().equal(split.validation.labels)


@pytest.mark.parametrize("count", [-5, 0, 2, 3001])
def test_an_impossible_limit_is_refused(count):
    with pytest.raises(InputError, match=rf"limit must lie from 3 .* to 3000 .* got {count}"):
        dataset().limit(count)


@pytest.mark.parametrize("share", [0, -0.5, -3, 1.0, 2, 10.5, 2998, 0.0001])
def test_an_impossible_validation_part_is_refused(share):
    with pytest.raises(InputError, match=r"from 3 to 2997 .* got"):
        dataset().with_validation(share)


def test_it_is_frozen_and_describes_itself():
    data = dataset()
    with pytest.raises(AttributeError):
        data.name = "other"
    assert data.shape == (3, 4, 5)
    assert repr(data) == "Dataset noise: 3 classes, images 3x4x5, 3000 train, 0 validation, 30 test"


BLANK = torch.zeros(6, 1, 4, 4, dtype=torch.uint8)
HALVES = torch.arange(6) % 2


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (BLANK / 1, HALVES, r"images must be uint8 .* got float32 of shape \(6, 1, 4, 4\); scale"),
        (BLANK[:, 0], HALVES, r"images must be uint8 of shape \(N, C, H, W\), got uint8 of shape \(6, 4, 4\)"),
        (BLANK, HALVES[:5], r"labels must be int64 of shape \(6,\), got int64 of shape \(5,\)"),
        (BLANK, HALVES / 1, r"labels must be int64 of shape \(6,\), got float32"),
    ],
)
def test_a_wrong_split_is_refused(images, labels, message):
    with pytest.raises(InputError, match=message):
        Split(images, labels)


def test_arrays_are_copied_into_a_split():
    images, labels = BLANK.numpy().copy(), np.arange(6, dtype=np.uint8)
    images.flags.writeable = False  # as files' bytes are
    split = Split.of(images, labels)
    assert split.labels.dtype == torch.int64
    split.images[0] = 7
    assert images.max() == 0
    with pytest.raises(InputError, match="labels must be int64"):
        Split.of(images, labels / 2)


def test_splits_that_do_not_fit_together_are_refused():
    split = Split(BLANK, HALVES)
    with pytest.raises(InputError, match=r"labels of odd must lie in \[0, 1\) for 1 class_names, got 0 to 1 in train"):
        Dataset("odd", split, split, ("a",))
    with pytest.raises(InputError, match=r"all images of odd must be \(1, 4, 4\) as in train, got \(1, 3, 4\) in test"):
        Dataset("odd", split, Split(BLANK[:, :, 1:], HALVES), ("a", "b"))
    with pytest.raises(InputError, match="odd must hold images to train with"):
        Dataset("odd", split.take(HALVES > 1), split, ("a", "b"))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=200), st.data())
def test_a_choice_divides_the_rows_and_keeps_every_class(labels, data):
    labels = torch.tensor(labels)
    classes = labels.unique()
    if len(classes) == len(labels):
        return
    count = data.draw(st.integers(len(classes), len(labels) - 1))
    chosen, rest = stratified(labels, count, seed=data.draw(st.integers(0, 9)))
    assert sorted([*chosen.tolist(), *rest.tolist()]) == list(range(len(labels)))
    assert len(chosen) == count
    assert labels[chosen].unique().equal(classes)
    assert chosen.tolist() == sorted(chosen.tolist())


def test_shares_are_proportional():
    labels = torch.tensor([0] * 600 + [1] * 300 + [2] * 100)
    chosen, _ = stratified(labels, 50)
    assert labels[chosen].bincount().tolist() == [30, 15, 5]


def test_a_rare_class_keeps_one_and_the_sum_stays():
    labels = torch.tensor([0] * 997 + [1, 2, 3])
    chosen, _ = stratified(labels, 10)
    assert labels[chosen].bincount().tolist() == [7, 1, 1, 1]


def test_remainders_go_to_those_who_lose_most_by_rounding():
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)  # exact shares 3.5, 2.1, 1.4
    chosen, _ = stratified(labels, 7)
    assert labels[chosen].bincount().tolist() == [4, 2, 1]


def test_the_seed_alone_decides_a_choice():
    labels = torch.from_numpy(np.arange(500) % 5)
    first, again, other = (stratified(labels, 50, seed)[0] for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_the_choice_is_random_within_a_class():
    labels = torch.zeros(1000, dtype=torch.int64)
    chosen, _ = stratified(labels, 500)
    assert 400 < chosen.double().mean() < 600


@pytest.mark.parametrize("count", [-1, 0, 1, 6, 7])
def test_impossible_counts_are_refused(count):
    with pytest.raises(InputError, match=f"from 2 to 5 of them, got {count}"):
        stratified(torch.tensor([0, 0, 0, 1, 1, 1]), count)
