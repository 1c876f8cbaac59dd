"""Weights of poolings: they wait for their channels, as torch's lazy layers do."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import multipartite as mp
from multipartite.errors import InputError
from windows import activations


def test_an_optimiser_may_hold_the_weights_before_they_are_made():
    pool = mp.LIPPool2d(2)
    optimiser = torch.optim.SGD(pool.parameters(), lr=0.1)
    x = activations(2, 3, 8, 8).float()
    (pool(x) - F.max_pool2d(x, 2)).square().mean().backward()
    optimiser.step()
    assert pool.weight.shape == (3, 3)
    assert pool.weight.abs().sum() > 0


def test_a_state_tells_the_channels():
    one, two = mp.LIPPool2d(2, num_channels=3), mp.LIPPool2d(2)
    nn.init.normal_(one.weight)
    assert two.state_dict() == {}
    two.load_state_dict(one.state_dict())
    x = torch.randn(1, 3, 6, 6)
    assert torch.equal(one(x), two(x))
    with pytest.raises(RuntimeError, match="Missing key"):
        mp.LIPPool2d(2, num_channels=3).load_state_dict({})


def test_layers_that_have_not_met_their_channels_are_copied_and_moved():
    pool = copy.deepcopy(mp.LIPPool2d(2)).to(torch.float64)
    with torch.inference_mode():
        pool(torch.zeros(1, 2, 4, 4, dtype=torch.float64))
    assert pool.weight.dtype == torch.float64
    pool(torch.ones(1, 2, 4, 4, dtype=torch.float64)).sum().backward()  # what inference mode made can be trained


@pytest.mark.parametrize("example", [None, torch.zeros(1, 1, 8, 8)])
@pytest.mark.parametrize("word", ["lip", "gated:per=channel"])
def test_convert_makes_the_weights_where_it_knows_the_channels(word, example):
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2)).double()
    mp.convert(model, 3, word, example=None if example is None else example.double())
    assert all(p.dtype == torch.float64 and p.shape[0] == 4 for p in model[2].parameters())


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_a_number_of_channels_that_is_none_is_refused(count):
    with pytest.raises(InputError, match="num_channels must be a whole number from 1, got"):
        mp.LIPPool2d(2, num_channels=count)
