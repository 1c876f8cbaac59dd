"""Batches: normalised as the data set says, in an order of seed and epoch alone."""

from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from multipartite.experiments.data import Normaliser, Split, load
from multipartite.experiments.run.batches import (
    Images,
    TrainingBatches,
    batch_order,
    draw_moves,
    move,
    seed_step,
    soften,
)


def test_batches_are_normalised_as_the_data_set_does_it():
    data = load("digits")
    for layout in (torch.contiguous_format, torch.channels_last):
        part = Images(data.test, data.normalise, memory_format=layout)
        images, labels = part.batch(torch.tensor([5, 3]))
        assert images.equal(data.normalise(data.test.images[[5, 3]]))
        assert labels.tolist() == data.test.labels[[5, 3]].tolist()


def test_colour_batches_keep_the_layout():
    split = Split(torch.zeros(4, 3, 5, 5, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64))
    part = Images(split, Normaliser(torch.ones(3, 1, 1), torch.ones(3, 1, 1)), memory_format=torch.channels_last)
    images, _ = part.batch(torch.tensor([0, 2]))
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert part.images.dtype == torch.uint8


def test_the_order_is_a_permutation_new_in_every_epoch_and_leaves_the_random_numbers_alone():
    state = torch.get_rng_state()
    orders = [batch_order(7, epoch, 100) for epoch in range(3)]
    assert torch.equal(state, torch.get_rng_state())
    assert all(order.sort().values.tolist() == list(range(100)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 3


def test_every_step_and_process_draws_its_own_numbers():
    drawn = set()
    with torch.random.fork_rng(devices=[]):
        for place in [(0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]:
            seed_step(*place)
            drawn.add(torch.rand(()).item())
    assert len(drawn) == 4


def photographs(n=90, shape=(3, 16, 24)):
    random = torch.Generator().manual_seed(0)
    images = torch.randint(1, 256, (n, *shape), dtype=torch.uint8, generator=random)
    return Images(Split(images, torch.arange(n) % 3), Normaliser(torch.zeros(3, 1, 1), torch.ones(3, 1, 1)))


def moved_slowly(image, down, right, mirrored):
    out = torch.zeros_like(image)
    _, height, width = image.shape
    for y in range(height):
        for x in range(width):
            from_y, from_x = y - down, (width - 1 - x if mirrored else x) - right
            if 0 <= from_y < height and 0 <= from_x < width:
                out[:, y, x] = image[:, from_y, from_x]
    return out


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_moves_against_a_slow_loop(layout):
    images = photographs(20).images.contiguous(memory_format=layout)
    moves = draw_moves(np.random.default_rng(1), 20, (16, 24), flips=True)
    expected = [moved_slowly(image, *map(int, how)) for image, how in zip(images, moves, strict=True)]
    assert move(images, moves).equal(torch.stack(expected))
    assert move(images, torch.zeros(20, 3, dtype=torch.int64)).equal(images)


@pytest.mark.parametrize(("side", "reach"), [(8, 1), (28, 4), (32, 4), (40, 5), (3, 1)])
def test_moves_reach_an_eighth_of_the_side_and_are_spread_evenly(side, reach):
    moves = draw_moves(np.random.default_rng(0), 9000, (side, 32), flips=True)
    for column, values in zip(moves.T, [2 * reach + 1, 9, 2], strict=True):
        counts = column.unique(return_counts=True)[1]
        assert len(counts) == values
        assert 0.8 < counts.min() * values / 9000 <= counts.max() * values / 9000 < 1.2
    assert moves[:, 0].abs().max() == reach
    assert draw_moves(np.random.default_rng(0), 9000, (side, 32), flips=False)[:, 2].max() == 0


def test_training_batches_are_the_images_in_their_order_and_no_more_where_nothing_is_asked():
    images = photographs()
    batches = TrainingBatches(images, seed=4, batch_size=40, num_classes=3, flips=True)
    assert batches.steps == 2
    for epoch, step in [(0, 0), (1, 1), (0, 1)]:
        expected, labels = images.batch(batch_order(4, epoch, 90)[40 * step : 40 * step + 40])
        batch = batches.at(epoch, step)
        assert batch.images.equal(expected)
        assert batch.labels.equal(labels)


def test_moved_batches_depend_on_seed_epoch_and_step_alone():
    def batch(seed=0, epoch=0, step=0, **options):
        options = {"num_classes": 3, "augment": True, "flips": True, **options}
        return TrainingBatches(photographs(), seed=seed, batch_size=30, **options).at(epoch, step).images

    state = torch.get_rng_state()
    plain = [batch(augment=False, epoch=epoch) for epoch in (0, 1)]
    moved = [batch(epoch=epoch) for epoch in (0, 1)]
    assert torch.equal(state, torch.get_rng_state())
    assert batch(epoch=1).equal(moved[1]), "whatever was drawn before"
    assert not moved[0].equal(plain[0])
    assert (moved[0] != plain[0]).flatten(1).any(1).sum() > 25, "each image has a move of its own"
    back = torch.argsort(batch_order(0, 0, 90)[:30])
    other = torch.argsort(batch_order(1, 0, 90)[:30])
    assert not batch(seed=1)[other].equal(moved[0][back])
    assert not batch(step=1).equal(moved[0])
    assert not batch(flips=False).equal(moved[0])


def test_processes_share_the_batch_of_one():
    options = {"seed": 2, "batch_size": 30, "num_classes": 3, "augment": True, "flips": True, "mixup": 0.4}
    whole = TrainingBatches(photographs(), **options).at(1, 2)
    for rank in range(3):
        share = TrainingBatches(photographs(), **options, rank=rank, processes=3).at(1, 2)
        for name in ("images", "targets", "labels"):
            assert getattr(share, name).equal(getattr(whole, name)[rank::3])


def test_smoothed_labels_give_the_loss_of_torch():
    labels, logits = torch.tensor([2, 0, 1, 2]), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    targets = soften(labels, 3, 0.3)
    torch.testing.assert_close(targets.sum(1), torch.ones(4))
    expected = F.cross_entropy(logits, labels, label_smoothing=0.3)
    torch.testing.assert_close(F.cross_entropy(logits, targets), expected)
    batch = TrainingBatches(photographs(), seed=0, batch_size=30, num_classes=3, label_smoothing=0.3).at(0, 0)
    assert batch.targets.equal(soften(batch.labels, 3, 0.3))


def test_labels_stay_classes_where_nothing_softens_them():
    batch = TrainingBatches(photographs(), seed=0, batch_size=30, num_classes=3, augment=True).at(0, 0)
    assert batch.targets is batch.labels
    assert batch.labels.dtype == torch.int64


@pytest.mark.parametrize("augment", [False, True])
def test_images_and_labels_are_mixed_in_pairs_by_one_share(augment):
    options = {"seed": 5, "batch_size": 30, "num_classes": 3, "augment": augment, "flips": True}
    plain = TrainingBatches(photographs(), **options)
    mixed = TrainingBatches(photographs(), **options, mixup=0.5, label_smoothing=0.1)
    dominant = set()
    for epoch, step in product(range(5), range(3)):
        before, batch = plain.at(epoch, step), mixed.at(epoch, step)
        random = np.random.default_rng((5, epoch, step, 1))
        share, partner = random.beta(0.5, 0.5), random.permutation(30)
        own, other = soften(before.labels, 3, 0.1), soften(before.labels[partner], 3, 0.1)
        torch.testing.assert_close(batch.images, share * before.images + (1 - share) * before.images[partner])
        torch.testing.assert_close(batch.targets, share * own + (1 - share) * other)
        assert batch.labels.equal(batch.targets.argmax(1))
        dominant.add(share >= 0.5)
    assert dominant == {True, False}


def test_shares_are_those_of_a_beta_distribution():
    batches = TrainingBatches(photographs(2), seed=0, batch_size=2, num_classes=3, mixup=2.0)
    weights = torch.stack([batches.at(epoch, 0).targets[0] for epoch in range(3000)])
    shares = weights[weights.amax(1) < 1 - 1e-6].amax(1)  # of pairs that are two, the larger one
    expected = np.random.default_rng(0).beta(2.0, 2.0, 10000)
    assert shares.mean().item() == pytest.approx(np.maximum(expected, 1 - expected).mean(), abs=0.01)
