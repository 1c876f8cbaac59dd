"""Fractional max pooling, faithful to torch's: drawn regions in training, fixed ones in evaluation."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.functional import fractional_pool
from multipartite.pooling import native
from windows import MAX_POOL, activations, bounded, problems


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def without_dilation(problem):
    return problem.x, problem.window | {"dilation": (1,) * problem.dims}


@given(problems(most_channels=1))
@bounded
def test_evaluation_is_the_formula_with_a_half(problem):
    x, window = without_dilation(problem)
    halves = torch.full((*x.shape[:2], problem.dims), 0.5)
    torch.testing.assert_close(fractional_pool(x, **window), reference.fractional_pool(x, halves, **window))


@given(problems(most_channels=1), st.integers(0, 10**6))
@bounded
def test_training_is_the_formula_with_draws(problem, seed):
    x, window = without_dilation(problem)
    draws = torch.rand(*x.shape[:2], problem.dims, generator=generator(seed), dtype=x.dtype)
    out = fractional_pool(x, **window, training=True, generator=generator(seed))
    torch.testing.assert_close(out, reference.fractional_pool(x, draws, **window))


def test_it_is_torchs_own():
    x = activations(2, 3, 11, 10)
    samples = torch.rand(2, 3, 2, generator=generator(), dtype=x.dtype)
    expected = F.fractional_max_pool2d(x, 3, (5, 4), _random_samples=samples.flip(-1))
    assert torch.equal(fractional_pool(x, 3, 2, training=True, generator=generator()), expected)


@pytest.mark.skipif(not native.available(), reason="no kernel was compiled")
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("size", "padding"), [((40,), 0), ((11, 10), 0), ((11, 10), 1), ((9, 8, 7), 0)])
def test_the_kernel_does_what_torch_does(size, padding, last, monkeypatch):
    def pooled():
        x = activations(2, 12, *size).float()
        x = (x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x).requires_grad_()
        out = fractional_pool(x, 3, 2, padding, training=True, generator=generator())
        (slope,) = torch.autograd.grad(out, x, torch.rand(out.shape, generator=generator(1)))
        return out.detach(), slope

    asked = []
    monkeypatch.setattr(native, "gathered", lambda *a, of=native.gathered: asked.append(of(*a)) or asked[-1])
    ours = pooled()
    assert len(asked) == 1
    assert (asked[0] is None) == bool(padding)  # which is minus infinity
    with native.use(False):
        theirs = pooled()
    assert torch.equal(ours[0], theirs[0])
    torch.testing.assert_close(ours[1], theirs[1])
    assert ours[0].is_contiguous() == theirs[0].is_contiguous()


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("training", [True, False])
def test_a_whole_ratio_leaves_no_choice_and_is_max_pooling(dims, training):
    x = activations(2, 3, *[8] * dims)
    assert torch.equal(fractional_pool(x, 2, training=training), MAX_POOL[dims](x, 2))


def test_draws_differ_and_evaluation_does_not():
    pool, x = mp.FractionalPool2d(3, 2), activations(2, 3, 16, 16)
    assert not torch.equal(pool(x), pool(x))
    pool.eval()
    assert torch.equal(pool(x), pool(x))


def test_dilation_is_refused():
    message = r"fractional pooling has no dilation: leave it at 1, got \(2, 2\)"
    with pytest.raises(InputError, match=message):
        mp.FractionalPool2d(2, dilation=2)
    with pytest.raises(InputError, match=message):
        fractional_pool(torch.zeros(1, 1, 8, 8), 2, dilation=2)
