"""Local importance pooling, faithful to Gao et al."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.functional import lip_pool
from multipartite.pooling.sums import window_mean
from multipartite.pooling.window import Window
from windows import activations, bounded, problems


def weights(channels, seed=0):
    return [
        activations(*shape, seed=seed + i) for i, shape in enumerate([(channels, channels), (channels,), (channels,)])
    ]


@given(problems(most_channels=1))
@bounded
def test_it_is_the_formula(problem):
    x, _, window = problem
    given_ = weights(x.shape[1])
    torch.testing.assert_close(lip_pool(x, *given_, **window), reference.lip_pool(x, *given_, **window))


def test_it_is_the_authors_layers():
    x = activations(2, 3, 9, 9)
    weight, scale, shift = weights(3)
    logit = 12 * F.instance_norm(F.conv2d(x, weight[..., None, None]), weight=scale, bias=shift).sigmoid()
    expected = F.avg_pool2d(x * logit.exp(), 3, 2) / F.avg_pool2d(logit.exp(), 3, 2)
    torch.testing.assert_close(lip_pool(x, weight, scale, shift, 3, 2), expected)


@given(problems())
@bounded
def test_it_begins_as_the_average(problem):
    x, _, window = problem
    pool = {1: mp.LIPPool1d, 2: mp.LIPPool2d, 3: mp.LIPPool3d}[problem.dims](**window)
    torch.testing.assert_close(pool.double()(x), window_mean(x, Window.of(**window, dims=problem.dims)))


def test_other_channels_than_the_weights_are_for_are_refused():
    with pytest.raises(InputError, match=r"weight must have the shape \(4, 4\) for 4 channels, got \(3, 3\)"):
        mp.LIPPool2d(2, num_channels=3)(torch.zeros(1, 4, 4, 4))
