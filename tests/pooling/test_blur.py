"""Blur pooling, faithful to Zhang: written out in loops, and as the author composes it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.functional import blur_pool
from windows import MAX_POOL, activations, bounded, problems


@given(problems(most_channels=1), st.integers(1, 5))
@bounded
def test_it_is_the_formula(problem, width):
    x, _, window = problem
    torch.testing.assert_close(blur_pool(x, **window, width=width), reference.blur_pool(x, width, **window))


@given(problems())
@bounded
def test_a_filter_of_one_tap_is_max_pooling(problem):
    x, _, window = problem
    assert torch.equal(blur_pool(x, **window, width=1), MAX_POOL[problem.dims](x, **window))


@pytest.mark.parametrize(("width", "taps"), [(2, [1, 1]), (3, [1, 2, 1]), (4, [1, 3, 3, 1]), (5, [1, 4, 6, 4, 1])])
def test_it_is_the_authors_three_steps(width, taps):
    """Max at stride one, reflection padding, a depthwise convolution with a stride."""
    x = activations(2, 3, 11, 10)
    line = torch.tensor(taps, dtype=x.dtype) / sum(taps)
    left, right = (width - 1) // 2, width // 2
    steps = F.pad(F.max_pool2d(x, 3, 1, 1), (left, right, left, right), mode="reflect")
    expected = F.conv2d(steps, (line[:, None] * line).expand(3, 1, -1, -1), stride=2, groups=3)
    torch.testing.assert_close(blur_pool(x, 3, 2, 1, width=width), expected)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_constant_map_stays_constant(dims):
    x = torch.full((1, 2, *[6] * dims), 3.0)
    torch.testing.assert_close(blur_pool(x, 2, width=5), torch.full((1, 2, *[3] * dims), 3.0))


def test_it_is_nearly_blind_to_a_shift_where_max_pooling_is_not():
    """What the paper is about: a pattern that moves by one pixel."""
    x = torch.tensor([0.0, 0, 1, 1] * 6)[None, None]
    moved = x.roll(1, -1)
    pooled, shifted = F.max_pool1d(x, 2), F.max_pool1d(moved, 2)
    change = (blur_pool(x, 2, width=5) - blur_pool(moved, 2, width=5))[..., 2:-2].abs().max()
    assert change < 0.3 * (pooled - shifted)[..., 2:-2].abs().max()


def test_a_map_of_one_pixel_is_its_own_mirror():
    assert torch.equal(mp.BlurPool2d(3, 2)(torch.ones(1, 2, 3, 3)), torch.ones(1, 2, 1, 1))


@pytest.mark.parametrize("width", [0, 2.5, "wide"])
def test_a_width_that_is_none_is_refused(width):
    with pytest.raises(InputError, match="width must be a whole number of taps from 1, got"):
        mp.BlurPool2d(2, width=width)
    with pytest.raises(InputError, match="width must be a whole number of taps from 1, got"):
        blur_pool(torch.zeros(1, 1, 4, 4), 2, width=width)
