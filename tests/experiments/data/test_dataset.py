import pytest
import torch
from torch.testing import assert_close

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset, Split


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
