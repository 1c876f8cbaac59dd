"""Mixed pooling, faithful to Lee et al.: a share of the maximum, the rest of the mean."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

import multipartite as mp
from multipartite.functional import mixed_pool
from multipartite.pooling.sums import window_mean
from multipartite.pooling.window import Window
from windows import MAX_POOL, activations, bounded, problems


@given(problems(), st.floats(0, 1))
@bounded
def test_a_share_is_of_the_maximum_and_the_rest_of_the_mean(problem, share):
    x, _, window = problem
    highest, mean = MAX_POOL[problem.dims](x, **window), window_mean(x, Window.of(**window, dims=problem.dims))
    torch.testing.assert_close(mixed_pool(x, share, **window), share * highest + (1 - share) * mean)


@given(problems())
@bounded
def test_a_share_of_one_is_max_pooling_and_of_none_the_average(problem):
    x, _, window = problem
    torch.testing.assert_close(mixed_pool(x, 1.0, **window), MAX_POOL[problem.dims](x, **window))
    mean = window_mean(x, Window.of(**window, dims=problem.dims))
    torch.testing.assert_close(mixed_pool(x, 0.0, **window), mean)


def test_the_layer_begins_in_the_middle_and_learns_its_share():
    pool = mp.MixedPool2d(2)
    assert pool.share.item() == 0.5
    x = activations(4, 3, 8, 8).float()
    optimiser = torch.optim.SGD(pool.parameters(), lr=5.0)
    for _ in range(30):
        optimiser.zero_grad()
        (pool(x) - torch.nn.functional.max_pool2d(x, 2)).square().mean().backward()
        optimiser.step()
    assert 0.9 < pool.share.item() < 1
