"""Lines: strata and expectation against slow loops, and draws that follow them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch.autograd import gradcheck

import multipartite as mp
from multipartite.errors import InputError
from multipartite.functional import multipartite_pool
from multipartite.pooling.choose import draw_lines, expected_lines, line_shares
from windows import LAYERS, LAYOUTS, activations, bounded, labelled, lay_out

DRAWS = 20_000


def density(score, focus, axis):
    """p_i of one image and group in plain numbers."""
    lines = np.moveaxis(score, axis, 0).reshape(score.shape[axis], -1).sum(1)
    n = len(lines)
    share = lines / lines.sum() if lines.sum() > 0 else np.full(n, 1 / n)
    return (1 - focus) / n + focus * share


def shares_in_loops(p, m):
    """R[k, i] = m |[F_(i-1), F_i] cut with [k/m, (k+1)/m]|, one by one."""
    ends = np.concatenate([[0.0], np.cumsum(p)])
    R = np.zeros((m, len(p)))
    for k in range(m):
        for i in range(len(p)):
            R[k, i] = m * max(0.0, min(ends[i + 1], (k + 1) / m) - max(ends[i], k / m))
    return R


@st.composite
def scored(draw):
    dims = draw(st.integers(1, 3))
    spatial = [draw(st.integers(1, 6)) for _ in range(dims)]
    out = tuple(draw(st.integers(1, 5)) for _ in range(dims))
    score = activations(2, 2, *spatial, seed=draw(st.integers(0, 999))).square()
    score[0, 0] *= draw(st.sampled_from([0.0, 1.0, 1e-30]))
    return score, out, draw(st.sampled_from([0.0, 0.25, 0.5, 0.9]))


@given(scored())
@bounded
def test_the_expectation_is_that_of_the_loops(problem):
    score, out, focus = problem
    x = activations(2, 4, *score.shape[2:], seed=7)
    found = expected_lines(x, score, out, focus)
    for n in range(2):
        for c in range(4):
            value = x[n, c].numpy()
            for axis, m in enumerate(out):
                R = shares_in_loops(density(score[n, c // 2].numpy(), focus, axis), m)
                np.testing.assert_allclose(R.sum(1), 1, atol=1e-9)
                value = np.moveaxis(np.tensordot(R, value, (1, axis)), 0, axis)
            np.testing.assert_allclose(found[n, c].numpy(), value, atol=1e-9)


@given(scored())
@bounded
def test_lines_are_sorted_and_cross(problem):
    score, out, focus = problem
    flat = draw_lines(score, out, focus)
    assert flat.shape == (2, 2, *out)
    rest = flat
    for axis in reversed(range(len(out))):
        n = score.shape[2 + axis]
        lines = (rest % n).movedim(2 + axis, -1).reshape(2, 2, -1, out[axis])
        assert (lines.diff(dim=-1) >= 0).all()
        assert (lines == lines[:, :, :1]).all()
        rest = rest // n


@pytest.mark.parametrize("focus", [0.0, 0.5, 0.9])
def test_draws_have_the_frequencies_of_the_strata(focus):
    score = torch.tensor([0.0, 1.0, 5.0, 0.0, 2.0, 2.0, 0.0], dtype=torch.float64)[None, None]
    m = 3
    generator = torch.Generator().manual_seed(1)
    lines = draw_lines(score.expand(DRAWS, 1, -1), (m,), focus, generator=generator)[:, 0]  # [DRAWS, m]
    R = shares_in_loops(density(score[0, 0].numpy(), focus, 0), m)
    for k in range(m):
        counts = torch.bincount(lines[:, k], minlength=7).numpy()
        possible = R[k] > 1e-12
        assert counts[~possible].sum() == 0
        assert chisquare(counts[possible], DRAWS * R[k][possible]).pvalue > 0.01


def test_the_chi_square_test_can_tell_another_focus():
    score = torch.tensor([0.0, 1.0, 5.0, 0.0, 2.0, 2.0, 0.0], dtype=torch.float64)[None, None]
    lines = draw_lines(score.expand(DRAWS, 1, -1), (3,), 0.5)[:, 0]
    R = shares_in_loops(density(score[0, 0].numpy(), 0.4, 0), 3)
    counts = torch.bincount(lines[:, 1], minlength=7).numpy()
    possible = (R[1] > 1e-12) & (counts > 0)
    expected = R[1][possible] / R[1][possible].sum() * counts[possible].sum()
    assert chisquare(counts[possible], expected).pvalue < 1e-6


@pytest.mark.parametrize("focus", [0.0, 0.5])
@pytest.mark.parametrize("gather", [None, "max"])
def test_the_mean_of_draws_tends_to_the_evaluation(focus, gather):
    x, factor = activations(1, 3, 6, 6), activations(1, 3, 2, seed=1)
    many = x.expand(DRAWS, -1, -1, -1)
    options = {"assignment": "lines", "focus": focus, "gather": gather}
    generator = torch.Generator().manual_seed(0)
    drawn = multipartite_pool(many, factor, 2, **options, training=True, generator=generator)
    expected = multipartite_pool(x, factor, 2, **options)
    error = drawn.std(0) / math.sqrt(DRAWS)
    assert ((drawn.mean(0) - expected[0]).abs() < 5 * error + 1e-9).all()


@pytest.mark.parametrize("dims", [1, 2])
def test_without_focus_evaluation_is_average_pooling_of_the_gathered_maximum(dims):
    x = activations(2, 3, *[8] * dims)
    out = multipartite_pool(x, None, (3,) * dims, 2, 1, gather="max", assignment="lines", focus=0.0)
    most, mean = {1: (F.max_pool1d, F.avg_pool1d), 2: (F.max_pool2d, F.avg_pool2d)}[dims]
    torch.testing.assert_close(out, mean(most(x, 3, 1, 1), 2))


def test_focus_gives_lines_to_where_the_scores_are():
    score = torch.zeros(1, 1, 16, 16)
    score[..., 3:7, 9:13] = 1.0
    where = [draw_lines(score, (8, 8), focus)[0, 0] for focus in (0.0, 0.9)]
    inside = [(((f // 16 >= 3) & (f // 16 < 7) & (f % 16 >= 9) & (f % 16 < 13)).sum()) for f in where]
    assert inside[0] <= 9
    assert inside[1] >= 36


def test_the_running_sum_ends_with_one_and_a_group_may_have_its_own_focus():
    score = activations(3, 2, 4, 5).square().float()
    focus = torch.tensor([0.0, 0.8])
    F = line_shares(score, focus, 1)
    assert (F[..., -1] == 1).all()
    torch.testing.assert_close(F[:, :1], line_shares(score[:, :1], 0.0, 1))
    torch.testing.assert_close(F[:, 1:], line_shares(score[:, 1:], 0.8, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 2])
def test_the_layout_changes_nothing(layout, groups):
    x = activations(2, 4, 7, 6)
    expected = multipartite_pool(x, None, 3, 2, 1, assignment="lines", focus=0.5, groups=groups)
    found = multipartite_pool(lay_out(x, layout), None, 3, 2, 1, assignment="lines", focus=0.5, groups=groups)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_draws_and_of_their_expectation(dims):
    size = {1: 6, 2: 4, 3: 3}[dims]
    x = activations(1, 2, *[size] * dims).requires_grad_()
    score = activations(1, 1, *[size] * dims, seed=3).square()
    out = (2,) * dims
    assert gradcheck(lambda x: expected_lines(x, score, out, 0.5), (x,))
    flat = draw_lines(score, out, 0.5)
    assert gradcheck(lambda x: mp.pooling.choose.pick(x, flat), (x,))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_layer_of_lines_trains_and_round_trips(dims):
    x, labels = labelled(dims, size=7)
    layer = LAYERS[dims](2, num_classes=3, assignment="lines", dtype=torch.float64, refit_every=1)
    with mp.supervise(labels):
        layer(x)
    assert layer.focus == "auto"
    assert (layer.trust > 0).all()
    assert (layer.trust < 1).all()
    other = LAYERS[dims](2, num_classes=3, assignment="lines", dtype=torch.float64).eval()
    other.load_state_dict(layer.eval().state_dict())
    assert torch.equal(other(x), layer(x))
    assert torch.equal(mp.freeze(other)(x), layer(x))


def test_trust_is_the_share_of_variance_that_the_classes_explain():
    x, labels = labelled(channels=4)
    layer = mp.MultipartitePool2d(2, num_classes=3, assignment="lines", gather=None, max_rows=None, dtype=torch.float64)
    with mp.supervise(labels):
        layer(x)
    Sw, Sb = layer.statistics.within[0], layer.statistics.between[0]
    highest = torch.linalg.eigvals(torch.linalg.solve(Sw, Sb)).real.max()
    torch.testing.assert_close(layer.trust, (highest / (1 + highest))[None], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("focus", [1.0, -0.1, "much", None, math.nan])
def test_a_focus_that_makes_no_sense_is_refused(focus):
    with pytest.raises(InputError, match=r"focus must lie in \[0, 1\) or be 'auto', got"):
        mp.MultipartitePool2d(2, num_classes=3, assignment="lines", focus=focus)


@pytest.mark.parametrize("assignment", ["soft", "stochastic", "lines"])
@pytest.mark.parametrize("size", [1e19, 1e20, 1e30, 5e37])
def test_large_activations_are_pooled_and_learned_from(assignment, size):
    x, labels = labelled()
    layer = mp.MultipartitePool2d(2, num_classes=3, assignment=assignment)
    small = mp.MultipartitePool2d(2, num_classes=3, assignment=assignment)
    with mp.supervise(labels):
        layer((x * size).float())
        small(x.float())
    assert layer.refused == 0
    out = layer.eval()((x * size).float())
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out / size, small.eval()(x.float()), rtol=1e-3, atol=1e-3)
