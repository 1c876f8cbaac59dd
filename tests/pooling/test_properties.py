"""One family: max, average and Zeiler and Fergus's pooling are corners of the paper's method; and it separates."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import multipartite as mp
from multipartite.pooling.window import Window
from windows import LAYERS, MAX_POOL, PRINTED, STOCHASTIC, activations, bounded, problems

DIMS = [1, 2, 3]


def taught_by(x, window, dtype=torch.float64, **options):
    """A kl layer of one group a channel that has learned from x, whose images take turns in two classes."""
    layer = LAYERS[x.ndim - 2](**window, num_classes=2, groups=x.shape[1], dtype=dtype, **PRINTED | options)
    with mp.supervise(torch.arange(len(x)) % 2):
        layer(x)
    return layer.eval()


@pytest.mark.parametrize("dims", DIMS)
@given(data=st.data())
@bounded
def test_hard_with_a_group_a_channel_is_max_pooling_to_the_bit(dims, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    x, _, window = data.draw(problems(dims=dims, nonnegative=True, dtype=dtype))
    layer = taught_by(x, window, dtype, return_indices=True)
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, indices = layer(one)
    expected, places = MAX_POOL[dims](two, **window, return_indices=True)
    assert torch.equal(out, expected)
    assert torch.equal(indices, places)
    weights = activations(*out.shape, seed=1, dtype=dtype)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    assert torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("dims", DIMS)
@given(data=st.data())
@bounded
def test_stochastic_at_temperature_2_evaluates_to_zeiler_and_fergus(dims, data):
    x, _, window = data.draw(problems(dims=dims, nonnegative=True))
    layer = taught_by(x, window, assignment="stochastic", temperature=2.0)
    torch.testing.assert_close(layer(x), STOCHASTIC[dims](**window).eval()(x))


@pytest.mark.parametrize("dims", DIMS)
def test_stochastic_at_temperature_2_draws_as_zeiler_and_fergus(dims):
    kernel = {1: (8,), 2: (2, 4), 3: (2, 2, 2)}[dims]
    a = torch.arange(8.0).double().reshape(1, 1, *kernel)
    n = 20_000
    many = a.expand(n, *a.shape[1:])
    half = (torch.arange(n) % 2).reshape(n, 1, *[1] * dims)
    layer = taught_by(many + 9 * half, {"kernel_size": kernel})
    layer.assignment, layer.temperature = "stochastic", 2.0
    layer.train()._warned = True
    layer.generator = torch.Generator().manual_seed(dims)
    counts = torch.bincount(layer(many).flatten().long(), minlength=8)
    assert layer.informed
    assert counts[0] == 0
    chances = a.flatten()[1:] / a.sum()
    assert chisquare(counts[1:], n * chances).pvalue > 0.01


@pytest.mark.parametrize("assignment", ["soft", "stochastic"])
@pytest.mark.parametrize("dims", DIMS)
@given(data=st.data())
@bounded
def test_infinite_temperature_evaluates_to_average_pooling(dims, assignment, data):
    x, _, window = data.draw(problems(dims=dims, nonnegative=True))
    out = taught_by(x, window, assignment=assignment, temperature=math.inf)(x)
    frame = Window.of(**window, dims=dims)
    inside = torch.stack(list(frame.views(torch.ones_like(x), 0.0))).sum(0)
    torch.testing.assert_close(out, torch.stack(list(frame.views(x, 0.0))).sum(0) / inside)
    if set(window["dilation"]) == {1} and dims < 3:  # torch averages no dilated windows
        average = {1: F.avg_pool1d, 2: F.avg_pool2d}[dims]
        sizes = {name: window[name] for name in ("kernel_size", "stride", "padding", "ceil_mode")}
        torch.testing.assert_close(out, average(x, **sizes, count_include_pad=False))
