"""Strided pooling: the stride alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

import multipartite as mp
import reference
from multipartite.functional import strided_pool
from windows import activations, bounded, problems


@given(problems())
@bounded
def test_the_first_pixel_of_every_window_stays(problem):
    x, _, window = problem
    assert torch.equal(strided_pool(x, **window), reference.strided_pool(x, **window))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_without_padding_it_is_a_slice(dims):
    x = activations(2, 3, *[8] * dims)
    assert torch.equal(strided_pool(x, 2), x[(..., *[slice(None, None, 2)] * dims)])


def test_it_is_a_convolution_with_a_stride_and_nothing_else():
    x = activations(2, 1, 9, 9)
    expected = torch.nn.functional.conv2d(x, torch.ones(1, 1, 1, 1, dtype=x.dtype), stride=3)
    assert torch.equal(strided_pool(x, 3), expected)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_output_is_a_map_of_its_own(stride):
    x = activations(1, 2, 4, 4)
    before = x.clone()
    mp.StridedPool2d(1, stride)(x).add_(1)
    assert torch.equal(x, before)


@pytest.mark.parametrize("of", [lambda x: x[:, 1:, 1:], lambda x: x[:, :1].expand(-1, 3, -1, -1), lambda x: x.mT])
def test_parts_of_a_map_and_repeated_ones_have_their_own_pixels_and_gradients(of):
    x = activations(2, 3, 7, 6).requires_grad_()
    y = of(x)
    assert torch.equal(strided_pool(y, 2), y[..., : y.shape[-2] // 2 * 2 : 2, : y.shape[-1] // 2 * 2 : 2])
    assert torch.autograd.gradcheck(lambda x: strided_pool(of(x), 2), x)
    assert torch.autograd.gradgradcheck(lambda x: strided_pool(of(x), 2), x)
