"""Assignments: draws follow the scores, expectations are their means, gradients reach what was kept."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from multipartite.pooling.choose import draw
from multipartite.pooling.window import Window
from windows import activations, bounded, printed_pool, problems

DRAWS = 20_000
SCORES = torch.tensor([0.0, 1.0, 4.0, 9.0], dtype=torch.float64)


def draws(scores, temperature, seed=0):
    """How often each place of one window is drawn, in DRAWS windows of the same scores."""
    score = scores.repeat(DRAWS)[None, None]
    generator = torch.Generator().manual_seed(seed)
    index = draw(score, Window.of(4, dims=1), temperature=temperature, generator=generator)
    return torch.bincount(index.flatten() % 4, minlength=4)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 7.0])
def test_draws_follow_the_scores(temperature):
    chances = SCORES ** (1 / temperature)
    counts = draws(SCORES, temperature)
    assert counts[0] == 0  # without a score, never
    expected = DRAWS * chances / chances.sum()
    assert chisquare(counts[1:], expected[1:]).pvalue > 0.01


def test_the_chi_square_test_can_tell_another_temperature():
    expected = DRAWS * SCORES / SCORES.sum()
    assert chisquare(draws(SCORES, 1.2)[1:], expected[1:]).pvalue < 1e-6


@pytest.mark.parametrize("scores", [SCORES, torch.zeros(4, dtype=torch.float64)])
def test_draws_are_uniform_at_infinite_temperature_and_where_nothing_scores(scores):
    assert chisquare(draws(scores, math.inf)).pvalue > 0.01
    if not scores.any():
        assert chisquare(draws(scores, 1.0)).pvalue > 0.01


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, math.inf])
def test_evaluation_is_the_expectation_of_the_draws(temperature):
    x, factor = activations(1, 3, 2, 2), activations(1, 3, 2, seed=1)
    many = x.expand(DRAWS, -1, -1, -1)
    options = {"assignment": "stochastic", "temperature": temperature}
    generator = torch.Generator().manual_seed(0)
    drawn = printed_pool(many, factor, 2, **options, training=True, generator=generator)
    expected = printed_pool(x, factor, 2, **options)
    error = drawn.std(0) / math.sqrt(DRAWS)
    assert ((drawn.mean(0) - expected[0]).abs() < 4 * error).all()


@given(problems(), st.sampled_from(["soft", "stochastic"]))
@bounded
def test_infinite_temperature_evaluates_to_the_mean_of_the_pixels_inside(problem, assignment):
    x, groups, window = problem
    out = printed_pool(x, None, **window, groups=groups, assignment=assignment, temperature=math.inf)
    frame = Window.of(**window, dims=problem.dims)
    inside = torch.stack(list(frame.views(torch.ones_like(x), 0.0))).sum(0)
    torch.testing.assert_close(out, torch.stack(list(frame.views(x, 0.0))).sum(0) / inside)


@given(problems(), st.sampled_from([0.3, 1.0, 4.0]))
@bounded
def test_soft_weights_are_the_softmax_of_the_scores_over_their_mean(problem, temperature):
    x, _, window = problem
    x = x[:1, :1]  # one channel, so that the window can be written out
    out = printed_pool(x, None, **window, assignment="soft", temperature=temperature)
    frame = Window.of(**window, dims=problem.dims)
    values = torch.stack(list(frame.views(x, math.nan))).flatten(1)
    for place, found in enumerate(out.flatten()):
        inside = values[:, place][~values[:, place].isnan()]
        weights = (inside.square() / (temperature * inside.square().mean())).softmax(0)
        torch.testing.assert_close(found, (weights * inside).sum())


@pytest.mark.parametrize("assignment", ["soft", "stochastic"])
def test_mixtures_do_not_depend_on_the_scale_of_the_activations(assignment):
    x, factor = activations(2, 4, 6, 6), activations(1, 4, 2)
    out = printed_pool(x, factor, 2, assignment=assignment)
    torch.testing.assert_close(printed_pool(1e-3 * x, factor, 2, assignment=assignment), 1e-3 * out)


@pytest.mark.parametrize("assignment", ["hard", "soft", "stochastic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_of_zeros_give_zero_and_finite_gradients(assignment, dtype):
    x = torch.zeros(1, 2, 4, 4, dtype=dtype, requires_grad=True)
    out = printed_pool(x, None, 2, assignment=assignment, temperature=0.01)
    out.sum().backward()
    assert (out == 0).all()
    assert torch.isfinite(x.grad).all()


def test_a_cold_draw_is_the_hard_pick():
    x, factor = activations(2, 4, 6, 6), activations(1, 4, 2)
    hard = printed_pool(x, factor, 2)
    for training in (False, True):
        cold = printed_pool(x, factor, 2, assignment="stochastic", temperature=1e-3, training=training)
        torch.testing.assert_close(cold, hard)


def test_stochastic_evaluation_sends_the_gradient_by_the_chances_alone():
    x = activations(1, 1, 2, nonnegative=True).abs() + torch.tensor([1.0, 2.0])
    x.requires_grad_()
    printed_pool(x, None, 2, assignment="stochastic").sum().backward()
    score = x.detach().square()
    torch.testing.assert_close(x.grad, score / score.sum())


def test_a_generator_makes_draws_repeatable():
    x = activations(4, 6, 8, 8)

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        return printed_pool(x, None, 2, assignment="stochastic", training=True, generator=generator)

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    torch.manual_seed(3)
    one = printed_pool(x, None, 2, assignment="stochastic", training=True)
    torch.manual_seed(3)
    assert torch.equal(one, printed_pool(x, None, 2, assignment="stochastic", training=True))


@pytest.mark.parametrize("assignment", ["soft", "stochastic"])
def test_infinite_temperature_is_average_pooling_in_two_dimensions_gradient_too(assignment):
    x, ours = (activations(2, 3, 7, 7).requires_grad_() for _ in range(2))
    out = printed_pool(ours, None, 3, 2, 1, assignment=assignment, temperature=math.inf)
    average = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    torch.testing.assert_close(out, average)
    weights = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
    (out * weights).sum().backward()
    (average * weights).sum().backward()
    torch.testing.assert_close(ours.grad, x.grad)
