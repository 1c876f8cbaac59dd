"""S3Pool, faithful to Zhai et al.: strips, draws without replacement, and the average that stands for them."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.functional import s3_pool
from multipartite.pooling.s3 import draw_strips
from windows import MAX_POOL, activations, bounded, problems


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(problems(most_channels=1))
@bounded
def test_evaluation_is_the_mean_of_the_cells_of_the_sliding_max(problem):
    x, _, window = problem
    torch.testing.assert_close(s3_pool(x, **window), reference.s3_expectation(x, **window))


@given(problems(most_channels=1), st.integers(1, 3), st.integers(0, 10**6))
@bounded
def test_training_keeps_whole_lines_of_the_sliding_max(problem, cells, seed):
    """Some lines of every strip explain the output, all images and channels with the same ones."""
    x, _, window = problem
    grid = tuple(cells * s for s in window["stride"])
    y, out = (
        reference.sliding_max(x, **window),
        s3_pool(x, **window, grid_size=grid, training=True, generator=generator(seed)),
    )
    assert out.shape == MAX_POOL[problem.dims](x, **window).shape
    lines = generator(seed)
    kept = [
        draw_strips(n, m, s, g, generator=lines)
        for n, m, s, g in zip(y.shape[2:], out.shape[2:], window["stride"], grid, strict=True)
    ]
    for at in itertools.product(*map(range, out.shape[2:])):
        place = [int(lines[i]) for lines, i in zip(kept, at, strict=True)]
        assert torch.equal(out[(..., *at)], y[(..., *place)])


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 30), st.integers(0, 10**6))
@bounded
def test_lines_of_a_strip_are_distinct_sorted_and_as_many_as_they_should_be(stride, cells, count, seed):
    grid = stride * cells
    for length in range((count - 1) * stride + 1, count * stride + 1):
        lines = draw_strips(length, count, stride, grid, generator=generator(seed))
        assert len(lines) == count
        assert (lines[1:] > lines[:-1]).all()
        assert lines.min() >= 0
        assert lines.max() < length
        whole = count // cells
        assert (lines[: whole * cells].reshape(whole, cells) // grid == torch.arange(whole)[:, None]).all()


def test_every_subset_of_a_strip_is_as_likely():
    draws = generator()
    counts = dict.fromkeys(itertools.combinations(range(4), 2), 0)
    for _ in range(6000):
        counts[tuple(draw_strips(4, 2, 2, 4, generator=draws).tolist())] += 1
    assert chisquare(list(counts.values())).pvalue > 0.01


def test_draws_average_to_the_evaluation_where_a_strip_is_one_cell():
    layer = mp.S3Pool2d(2)
    layer.generator = generator()
    x = activations(1, 2, 7, 7)
    mean = torch.stack([layer(x) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, layer.eval()(x), rtol=0.03, atol=0.03)


def test_a_stride_of_one_leaves_no_choice():
    x = activations(2, 3, 6, 6)
    for training in (True, False):
        assert torch.equal(s3_pool(x, 2, 1, training=training, grid_size=3), MAX_POOL[2](x, 2, 1))


def test_a_generator_repeats_the_draws_and_the_seed_of_torch_too():
    layer, x = mp.S3Pool2d(2, grid_size=4), activations(2, 3, 12, 12)
    layer.generator = generator(1)
    one, other = layer(x), layer(x)
    layer.generator.manual_seed(1)
    assert torch.equal(layer(x), one)
    assert not torch.equal(one, other)
    layer.generator = None
    torch.manual_seed(5)
    one = layer(x)
    torch.manual_seed(5)
    assert torch.equal(layer(x), one)


def test_the_gradient_reaches_where_the_kept_maxima_came_from():
    x = activations(2, 3, 8, 8, nonnegative=True).add(0.1).requires_grad_()
    out = s3_pool(x, 2, training=True, grid_size=4)
    out.sum().backward()
    assert (x.grad.sum((2, 3)) == 16).all()
    torch.testing.assert_close(x.grad.mul(x).sum(), out.sum())


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (3, r"grid_size must be a multiple of stride=\(2, 2\), .* got \(3, 3\)"),
        ((4, 3), r"grid_size must be a multiple of stride=\(2, 2\), .* got \(4, 3\)"),
        (0, "grid_size must be an int or 2 ints, at least 1"),
        ((4, 4, 4), "grid_size must be an int or 2 ints"),
    ],
)
def test_grids_that_do_not_fit_are_refused(grid, message):
    with pytest.raises(InputError, match=message):
        mp.S3Pool2d(2, grid_size=grid)
    with pytest.raises(InputError, match=message):
        s3_pool(torch.zeros(1, 1, 8, 8), 2, grid_size=grid)
