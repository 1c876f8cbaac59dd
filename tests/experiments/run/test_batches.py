"""Batches: normalised as the data set says, in an order of seed and epoch alone."""

import torch

from multipartite.experiments.data import Normaliser, Split, load
from multipartite.experiments.run.batches import Images, batch_order, seed_step


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
