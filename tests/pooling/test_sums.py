"""Sums over windows: what torch's average pooling and convolution give, in any layout, with their gradients."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given

from multipartite.pooling.sums import window_mean, window_spread, window_sum
from multipartite.pooling.window import Window
from windows import activations, bounded, lay_out, problems

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@given(problems())
@bounded
def test_a_sum_is_that_of_its_places(problem):
    x, _, window = problem
    frame = Window.of(**window, dims=problem.dims)
    taps = [[0.5 + 2 * i - a for i in range(k)] for a, k in enumerate(frame.kernel_size)]
    weights = [math.prod(t) for t in itertools.product(*taps)]
    expected = sum(w * v for w, v in zip(weights, frame.views(x, 0.0), strict=True))
    torch.testing.assert_close(window_sum(x, frame, taps), expected)


@given(problems())
@bounded
def test_a_mean_counts_no_padding(problem):
    x, _, window = problem
    views = torch.stack(list(Window.of(**window, dims=problem.dims).views(x, math.nan)))
    torch.testing.assert_close(window_mean(x, Window.of(**window, dims=problem.dims)), views.nanmean(0))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_mean_is_torchs_average_pooling(dims):
    x = activations(2, 3, *[7] * dims)
    expected = AVERAGE[dims](x, 3, 2, 1, count_include_pad=False)
    torch.testing.assert_close(window_mean(x, Window.of(3, 2, 1, dims=dims)), expected)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_sum_with_taps_is_a_convolution(dims):
    x = activations(2, 3, *[8] * dims)
    line = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64)
    kernel = line
    for _ in range(dims - 1):
        kernel = kernel[..., None] * line
    expected = CONV[dims](x, kernel.expand(3, 1, *kernel.shape), stride=2, padding=1, dilation=2, groups=3)
    window = Window.of(3, 2, 1, 2, dims=dims)
    torch.testing.assert_close(window_sum(x, window, [line.tolist()] * dims), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
@pytest.mark.parametrize(("dims", "window"), [(1, (3, 2, 1, 2)), (2, (2, 2, 0)), (2, (3, 2, 1, 1, True)), (3, (2, 1))])
def test_gradients_of_every_kind(dims, window, layout):
    frame = Window.of(*window, dims=dims)
    x = lay_out(activations(2, 2, *[5] * dims), layout).requires_grad_()
    taps = [[1.0, 2.5, 0.5][:k] for k in frame.kernel_size]

    def total(x):
        return window_sum(x, frame, taps)

    torch.autograd.gradcheck(total, x, check_forward_ad=True, check_batched_grad=True)
    torch.autograd.gradgradcheck(total, x)


@given(problems())
@bounded
def test_spread_is_the_transpose_of_the_sum(problem):
    x, _, sizes = problem
    frame = Window.of(**sizes, dims=problem.dims)
    x = x.requires_grad_()
    total = window_sum(x, frame)
    y = activations(*total.shape)
    (expected,) = torch.autograd.grad(total, x, y)
    torch.testing.assert_close(window_spread(y, frame, x), expected)


def test_the_layout_is_kept_both_ways():
    x = lay_out(activations(2, 3, 6, 6), "channels last").requires_grad_()
    out = window_sum(x, Window.of(2, dims=2))
    assert out.is_contiguous(memory_format=torch.channels_last)
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    assert grad.is_contiguous(memory_format=torch.channels_last)


def test_means_of_half_precision_neither_overflow_nor_drift():
    x = torch.full((1, 1, 8, 8), 6e4, dtype=torch.float16)
    assert (window_mean(x, Window.of(8, dims=2)) == 6e4).all()


def test_maps_under_vmap():
    x, frame = activations(3, 2, 2, 6, 6), Window.of(2, dims=2)
    expected = torch.stack([window_sum(one, frame) for one in x])
    torch.testing.assert_close(torch.func.vmap(lambda one: window_sum(one, frame))(x), expected)
    slopes = torch.func.vmap(torch.func.grad(lambda one: window_sum(one, frame).square().sum()))(x)
    assert slopes.shape == x.shape
