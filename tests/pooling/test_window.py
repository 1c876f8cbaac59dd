"""Windows: they look at what torch's own pooling looks at."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given

from multipartite.errors import InputError
from multipartite.pooling.window import Window
from windows import MAX_POOL, bounded, problems


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


@given(problems())
@bounded
def test_windows_overlap_where_two_may_look_at_one_pixel(problem):
    x, _, window = problem
    frame = Window.of(**window, dims=problem.dims)
    own = torch.arange(1.0, x[0, 0].numel() + 1).reshape(1, 1, *x.shape[2:])
    seen = torch.stack(list(frame.views(own, 0.0))).flatten()
    _, times = seen[seen > 0].unique(return_counts=True)
    assert frame.overlaps or times.max() == 1


@pytest.mark.parametrize(("stride", "dilation", "overlaps"), [(2, 1, True), (3, 1, False), (4, 2, True), (5, 2, False)])
def test_a_window_of_three_overlaps_the_next_by_its_reach(stride, dilation, overlaps):
    assert Window.of(3, stride, 0, dilation, dims=2).overlaps == overlaps


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
