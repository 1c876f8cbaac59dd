"""Windows: they look at what torch's own pooling looks at."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from windows import LAYOUTS, MAX_POOL, activations, bounded, lay_out, problems

from multipartite.errors import InputError
from multipartite.pooling.window import Window, is_channels_last, pick


@given(problems())
@bounded
def test_the_highest_view_of_a_window_is_max_pooling(problem):
    x, _, window = problem
    expected = MAX_POOL[problem.dims](x, **window)
    found = Window.of(**window, dims=problem.dims)
    assert found.out_size(x.shape[2:]) == expected.shape[2:]
    assert torch.equal(torch.stack(list(found.views(x, -math.inf))).amax(0), expected)


@given(problems())
@bounded
def test_best_is_where_max_pooling_finds_it(problem):
    x, _, window = problem
    indices = Window.of(**window, dims=problem.dims).best(x)
    assert torch.equal(indices, MAX_POOL[problem.dims](x, **window, return_indices=True)[1])


@given(problems(most_channels=3), st.integers(0, 1000))
@bounded
def test_pick_takes_all_channels_of_a_group_from_one_pixel(problem, seed):
    x, groups, _ = problem
    L, width = x[0, 0].numel(), x.shape[1] // groups
    indices = torch.randint(L, (len(x), groups, 4), generator=torch.Generator().manual_seed(seed))
    out = pick(x, indices)
    flat = x.flatten(2)
    for i, channel, o in torch.cartesian_prod(*map(torch.arange, out.shape)).tolist():
        assert out[i, channel, o] == flat[i, channel, indices[i, channel // width, o]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pick_keeps_channels_last(layout):
    x = lay_out(activations(2, 4, 6, 6), layout)
    out = pick(x, torch.zeros(2, 2, 3, 3, dtype=torch.int64))
    assert is_channels_last(x) == (layout == "channels last")
    assert is_channels_last(out) == is_channels_last(x)


def test_numbers_spread_over_the_dimensions_and_stride_defaults_to_the_kernel():
    window = Window.of((3, 2), None, (1, 0), 2, dims=2)
    assert window == Window((3, 2), (3, 2), (1, 0), (2, 2), False)
    assert Window.of(2, dims=3).kernel_size == (2, 2, 2)


def test_a_window_needs_pixels():
    Window.of(2, 1, 1, 3, dims=1).check((3,))
    with pytest.raises(InputError, match="without a pixel of an input of size"):
        Window.of(2, 1, 1, 3, dims=1).check((2,))
    for size in ((1, 4), (4, 0)):
        with pytest.raises(InputError, match="too small for windows of"):
            Window.of(2, dims=2).check(size)


@pytest.mark.parametrize("dims", [0, 4])
def test_dimensions_that_there_are_not(dims):
    with pytest.raises(InputError, match="1, 2 or 3 dimensions"):
        Window.of(2, dims=dims)


def test_sizes_may_be_numpys():
    assert Window.of(np.int64(3), dims=2) == Window.of([3, 3], dims=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 0}, r"kernel_size must be an int or 2 ints, at least 1 each, got 0"),
        ({"kernel_size": (2, 2, 2)}, r"kernel_size must be an int or 2 ints"),
        ({"kernel_size": 2, "stride": 0}, r"stride must be an int or 2 ints, at least 1"),
        ({"kernel_size": 2, "stride": (1, 2.5)}, r"stride must be"),
        ({"kernel_size": 2, "dilation": 0}, r"dilation must be"),
        ({"kernel_size": 2, "padding": -1}, r"padding must be an int or 2 ints, at least 0"),
        (
            {"kernel_size": (3, 2), "padding": (1, 2)},
            r"padding must be at most half of kernel_size=\(3, 2\), got \(1, 2\)",
        ),
    ],
)
def test_what_makes_no_window_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Window.of(**options, dims=2)
