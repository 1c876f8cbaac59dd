"""Lp pooling: torch's own, and what torch's lacks."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.functional import lp_pool
from windows import MAX_POOL, activations, bounded, problems

THEIRS = {1: F.lp_pool1d, 2: F.lp_pool2d, 3: F.lp_pool3d}


@given(problems(most_channels=1), st.sampled_from([1, 1.5, 2, 3, 4.0, 7, 20.0, math.inf]))
@bounded
def test_it_is_the_formula(problem, p):
    x, _, window = problem
    torch.testing.assert_close(lp_pool(x, **window, p=p), reference.lp_pool(x, p, **window))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 8])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_it_is_torchs_own_where_that_works(dims, p, ceil_mode):
    x = activations(2, 3, *[8] * dims).abs()
    torch.testing.assert_close(lp_pool(x, 3, 2, ceil_mode=ceil_mode, p=p), THEIRS[dims](x, p, 3, 2, ceil_mode))


@given(problems(nonnegative=True))
@bounded
def test_a_large_power_is_nearly_the_maximum(problem):
    x, _, window = problem
    places = math.prod(window["kernel_size"])
    highest, out = MAX_POOL[problem.dims](x, **window), lp_pool(x, **window, p=200.0)
    assert (highest <= out * (1 + 1e-12)).all()
    assert (out <= highest * places ** (1 / 200) * (1 + 1e-12)).all()


def test_a_power_of_one_is_the_sum():
    assert lp_pool(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), 4, p=1).item() == 10


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 4, 5, 50, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeros_have_no_slope_and_no_nan(p, dtype):
    x = torch.zeros(1, 2, 6, 6, dtype=dtype)
    x[0, 0, 0, 0] = 2.0
    x.requires_grad_()
    out = lp_pool(x, 2, p=p)
    (slope,) = torch.autograd.grad(out.sum(), x)
    assert out.sum().item() == pytest.approx(2.0)
    assert slope.isfinite().all()
    assert slope[0, 1].eq(0).all() or p == math.inf
    assert slope[0, 0, 0, 0].item() == pytest.approx(1.0)


@pytest.mark.parametrize("p", [5, 30, 100])
def test_high_powers_neither_overflow_nor_vanish(p):
    x = torch.tensor([[[1e9, 1e8, 1e-9, 1e-10]]], requires_grad=True)
    out = lp_pool(x, 2, p=p)
    (slope,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(out, torch.tensor([[[1e9, 1e-9]]]), rtol=1e-5, atol=0)
    torch.testing.assert_close(slope[0, 0, ::2], torch.ones(2))


@pytest.mark.parametrize("p", [0.5, 0, -2, "two", True, math.nan])
def test_a_power_that_is_none_is_refused(p):
    with pytest.raises(InputError, match="p must be a number from 1 to infinity, got"):
        mp.LPPool2d(2, p=p)
    with pytest.raises(InputError, match="p must be a number from 1 to infinity, got"):
        lp_pool(torch.zeros(1, 1, 4, 4), 2, p=p)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by torch itself, where it makes jvp
@pytest.mark.parametrize("p", [2.0, 3.0])
def test_windows_of_zeros_have_no_slope_forward_either(p):
    x = torch.zeros(1, 1, 4, 4)
    value, slope = torch.func.jvp(lambda v: mp.functional.lp_pool(v, 2, p=p), (x,), (torch.ones_like(x),))
    assert not value.any()
    assert not slope.any()
