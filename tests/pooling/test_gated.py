"""Gated pooling, faithful to Lee et al.: the window itself says how much of its maximum is in the output."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.functional import gated_pool, mixed_pool
from windows import activations, bounded, problems


def masks(problem, count, seed=0):
    return activations(count, *problem.window["kernel_size"], seed=seed)


@given(problems(most_channels=1), st.booleans())
@bounded
def test_the_gate_is_the_formula(problem, each):
    x, _, window = problem
    mask = masks(problem, x.shape[1] if each else 1)
    torch.testing.assert_close(gated_pool(x, mask, **window), reference.gated_pool(x, mask, **window))


@given(problems())
@bounded
def test_a_mask_of_zeros_is_half_of_each(problem):
    x, _, window = problem
    torch.testing.assert_close(gated_pool(x, 0 * masks(problem, 1), **window), mixed_pool(x, 0.5, **window))


@pytest.mark.parametrize(("per", "count"), [("layer", 1), ("channel", 3)])
def test_there_is_a_mask_a_layer_or_a_channel(per, count):
    x = activations(2, 3, 8, 8).float()
    pool = mp.GatedPool2d(2, per=per)
    torch.testing.assert_close(pool(x), mixed_pool(x, 0.5, 2))
    assert pool.mask.shape == (count, 2, 2)


def test_one_mask_serves_any_number_of_channels():
    pool = mp.GatedPool2d(2)
    assert [pool(torch.zeros(1, c, 4, 4)).shape[1] for c in (3, 5)] == [3, 5]


@pytest.mark.parametrize(
    ("shape", "channels"), [((2, 2, 2), 3), ((1, 3, 3), 3), ((2, 2), 3)], ids=["channels", "kernel", "dimensions"]
)
def test_masks_that_do_not_fit_are_refused(shape, channels):
    with pytest.raises(InputError, match=r"mask must have the shape \(1, \*kernel_size\) or \(3, \*kernel_size\) with"):
        gated_pool(torch.zeros(1, channels, 4, 4), torch.zeros(shape), 2)


def test_masks_are_per_layer_or_per_channel():
    with pytest.raises(InputError, match=r"unknown per 'pixel'.*known: layer, channel"):
        mp.GatedPool2d(2, per="pixel")
