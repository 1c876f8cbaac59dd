"""Stochastic pooling, faithful to Zeiler and Fergus: written out in loops."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from scipy.stats import chisquare

import multipartite as mp
from multipartite.errors import InputError
from multipartite.functional import stochastic_pool
from multipartite.pooling.window import Window
from windows import MAX_POOL, STOCHASTIC, activations, bounded, problems


def windows_of(x, window, dims):
    """The numbers of every window, a list of those that are not padding."""
    views = torch.stack(list(Window.of(**window, dims=dims).views(x, math.nan)))
    return [column[~column.isnan()] for column in views.flatten(1).T]


@given(problems())
@bounded
def test_evaluation_is_weighted_by_probability(problem):
    x, _, window = problem
    out = stochastic_pool(x, **window)
    assert out.shape == MAX_POOL[problem.dims](x, **window).shape
    for found, pixels in zip(out.flatten(), windows_of(x, window, problem.dims), strict=True):
        a = [max(float(v), 0.0) for v in pixels]
        expected = sum(v * v / sum(a) for v in a) if sum(a) > 0 else 0.0
        assert math.isclose(found, expected, rel_tol=1e-12)


@given(problems())
@bounded
def test_training_draws_a_pixel_of_the_window_that_is_not_negative(problem):
    x, _, window = problem
    out = stochastic_pool(x, **window, training=True)
    for found, pixels in zip(out.flatten(), windows_of(x, window, problem.dims), strict=True):
        assert found in pixels[pixels > 0] if (pixels > 0).any() else found == 0


def test_draws_follow_the_activations():
    a = torch.tensor([0.0, 1.0, 2.0, 5.0])
    many = a.repeat(20_000)[None, None]
    out = stochastic_pool(many, 4, training=True, generator=torch.Generator().manual_seed(0))
    counts = torch.stack([(out == v).sum() for v in a])
    assert counts[0] == 0
    assert chisquare(counts[1:], 20_000 * a[1:] / a.sum()).pvalue > 0.01


def test_channels_draw_apart_and_a_generator_repeats_them():
    layer = mp.StochasticPool2d(2)
    x = activations(1, 1, 40, 40, nonnegative=True).expand(-1, 2, -1, -1)
    layer.generator = torch.Generator().manual_seed(1)
    one = layer(x)
    layer.generator.manual_seed(1)
    assert torch.equal(layer(x), one)
    assert not torch.equal(one[:, 0], one[:, 1])


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("training", [True, False])
def test_module_is_function(dims, training):
    x = activations(2, 3, *[6] * dims)
    layer = STOCHASTIC[dims](3, 2, 1, 1, True).train(training)
    layer.generator = torch.Generator().manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    out = stochastic_pool(x, (3,) * dims, 2, 1, 1, True, training=training, generator=generator)
    assert torch.equal(layer(x), out)
    layer.generator.manual_seed(0)
    assert torch.equal(
        layer(x[0]), stochastic_pool(x[:1], 3, 2, 1, 1, True, training=training, generator=generator.manual_seed(0))[0]
    )


def test_the_gradient_reaches_the_drawn_pixels():
    x = activations(2, 3, 6, 6, nonnegative=True).add(0.1).requires_grad_()
    out = stochastic_pool(x, 2, training=True)
    out.sum().backward()
    assert (x.grad.sum((2, 3)) == 9).all()
    assert set(x.grad.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(x.grad.mul(x).sum(), out.sum())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_type_at_large_activations(dtype):
    x = torch.full((1, 2, 4, 4), 1e4, dtype=dtype)
    for training in (True, False):
        out = stochastic_pool(x, 2, training=training)
        assert out.dtype == dtype
        torch.testing.assert_close(out, torch.full_like(out, 1e4))


def test_layers_show_their_window_and_copy():
    layer = mp.StochasticPool2d(3, 2, 1, ceil_mode=True)
    assert "kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(1, 1), ceil_mode=True" in repr(layer)
    assert copy.deepcopy(layer).window == layer.window


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 3), "input must have 3 or 4 dimensions"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.int64), "input must be floating point, got int64"),
    ],
)
def test_bad_input_is_refused(x, message):
    with pytest.raises(InputError, match=message):
        mp.StochasticPool2d(2)(x)


def test_padding_over_half_the_kernel_is_refused():
    with pytest.raises(InputError, match="padding must be at most half"):
        mp.StochasticPool2d(2, padding=2)
