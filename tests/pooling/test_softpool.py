"""SoftPool, faithful to Stergiou et al., and finite whatever the numbers are."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import reference
from multipartite import SoftPool2d
from multipartite.functional import soft_pool
from windows import MAX_POOL, activations, bounded, lay_out, problems


@given(problems(most_channels=1), st.sampled_from([1.0, 30.0, 1e4]))
@bounded
def test_it_is_the_formula(problem, spread):
    """Also where exponentials of the numbers themselves are out of range."""
    x, _, window = problem
    torch.testing.assert_close(soft_pool(spread * x, **window), reference.soft_pool(spread * x, **window))


def test_it_is_the_authors_two_averages():
    x = activations(2, 3, 8, 8)
    expected = F.avg_pool2d(x.exp() * x, 3, 2) / F.avg_pool2d(x.exp(), 3, 2)
    torch.testing.assert_close(soft_pool(x, 3, 2), expected)


@given(problems(), st.sampled_from([0.0, 5.0, -3e3]))
@bounded
def test_equal_numbers_are_averaged(problem, value):
    x, _, window = problem
    x = torch.full_like(x, value)
    torch.testing.assert_close(soft_pool(x, **window), MAX_POOL[problem.dims](x, **window))


@given(problems())
@bounded
def test_numbers_that_are_far_apart_leave_the_maximum(problem):
    x, _, window = problem
    torch.testing.assert_close(soft_pool(1e6 * x, **window), MAX_POOL[problem.dims](1e6 * x, **window))


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
@pytest.mark.parametrize("sign", [1, -1])
def test_large_numbers_have_finite_gradients(size, sign):
    x = (sign * size * torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))).requires_grad_()
    out = soft_pool(x, 3, 2, 1)
    (slope,) = torch.autograd.grad(out.sum(), x)
    assert out.isfinite().all()
    assert slope.isfinite().all()


def test_a_map_with_both_large_and_small_numbers_keeps_the_small_ones():
    """One shift for the whole map would leave nothing of the second window."""
    x = torch.tensor([[[200.0, 200.0, -100.0, -101.0]]])
    expected = -100 - 1 / (1 + torch.e)
    torch.testing.assert_close(soft_pool(x, 2), torch.tensor([[[200.0, expected]]]))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
@pytest.mark.parametrize(("dims", "window"), [(1, (3, 2, 1, 2)), (2, (2, 2, 0)), (2, (3, 2, 1, 1, True)), (3, (2, 1))])
def test_gradients_of_every_kind(dims, window, layout):
    x = lay_out(activations(2, 2, *[5] * dims), layout).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: soft_pool(x, *window),
        x,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert torch.autograd.gradgradcheck(lambda x: soft_pool(x, *window), x)


def test_maps_under_vmap():
    x = activations(3, 2, 2, 6, 6)
    expected = torch.stack([soft_pool(one, 2) for one in x])
    torch.testing.assert_close(torch.func.vmap(lambda one: soft_pool(one, 2))(x), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_holds_for_numbers_of_any_size():
    x = activations(1, 2, 4, 4)
    traced = torch.jit.trace(SoftPool2d(2), x)
    torch.testing.assert_close(traced(1e3 * x), soft_pool(1e3 * x, 2))
