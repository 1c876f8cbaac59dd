"""Scores: steps 1 to 4 of Alg. 3, against its loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from multipartite.errors import InputError
from multipartite.instance_ranking import Fold, score_map
from multipartite.projection import supervised_projection
from windows import LAYOUTS, activations, bounded, labelled, lay_out, problems, taught


def quadratic(factor):
    return Fold.quadratic(factor)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("criterion", ["kl", "bhattacharyya", "ttest"])
@pytest.mark.parametrize(("groups", "channels", "classes"), [(1, 6, 3), (2, 6, 3), (1, 2, 5)])
def test_scores_are_those_of_alg_2_pixel_by_pixel(layout, criterion, groups, channels, classes):
    layer = taught(channels=channels, classes=classes, groups=groups, criterion=criterion)
    x = lay_out(activations(3, channels, 4, 5, seed=5), layout)
    scores = layer.score(x)
    assert scores.shape == (3, groups, 4, 5)
    A, Sw = supervised_projection(layer.statistics), layer.statistics.within
    width = channels // groups
    for g in range(groups):
        rows = x[:, g * width : (g + 1) * width].movedim(1, -1).reshape(-1, width)
        expected = reference.instance_scores(rows, A[g].numpy(), Sw[g].numpy(), layer.statistics.present, criterion)
        differences = torch.from_numpy(expected - expected[0])  # the fold leaves the constant out
        torch.testing.assert_close(scores[:, g].flatten() - scores[0, g, 0, 0], differences, rtol=1e-9, atol=1e-9)


@given(problems(), st.integers(1, 3))
@bounded
def test_scores_do_not_depend_on_the_memory_layout(problem, rank):
    x, groups, _ = problem
    factor = activations(groups, x.shape[1] // groups, rank, seed=3)
    h = torch.einsum("ngdl,gdr->ngrl", x.reshape(len(x), groups, -1, x[0, 0].numel()), factor)
    expected = h.square().sum(2).reshape(len(x), groups, *x.shape[2:])
    torch.testing.assert_close(score_map(x, quadratic(factor)), expected)


def test_without_a_factor_energy_scores():
    x = activations(2, 6, 3, 3)
    expected = x.reshape(2, 3, 2, 3, 3).square().sum(2)
    torch.testing.assert_close(score_map(x, None, groups=3), expected)


def test_a_group_whose_factor_vanishes_is_scored_by_energy_and_the_others_by_theirs():
    x, factor = activations(2, 4, 5), activations(2, 2, 1)
    factor[1] = 0
    scores = score_map(x, quadratic(factor))
    torch.testing.assert_close(scores[:, 1], x[:, 2:].square().sum(1))
    torch.testing.assert_close(scores[:, 0], (x[:, :2] * factor[0]).sum(1).square())


def test_information_is_the_divergence_of_the_posterior_from_the_prior():
    x, _ = labelled(channels=3, images=30, size=4)
    layer = taught(channels=3, criterion="information", size=4)
    statistics = layer.statistics
    A = supervised_projection(statistics)[0]
    rows = x.movedim(1, -1).reshape(-1, 3)
    S = torch.linalg.pinv(A.T @ statistics.within[0] @ A, rtol=1e-10, hermitian=True)
    gaps = (rows[:, None] - statistics.class_means[0]) @ A  # [n, c, c]
    logits = -torch.einsum("nci,ij,ncj->nc", gaps, S, gaps) / 2 + statistics.prior.log()
    posterior = logits.softmax(1)
    expected = (posterior * (posterior / statistics.prior).log()).sum(1)
    torch.testing.assert_close(layer.score(x).flatten(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_scored_in_single(dtype):
    x = (1e4 * activations(2, 4, 3, 3)).to(dtype)
    scores = score_map(x, quadratic(activations(1, 4, 2)))
    assert scores.dtype == torch.float32
    assert torch.isfinite(scores).all()
    torch.testing.assert_close(scores, score_map(x.float(), quadratic(activations(1, 4, 2))))


def test_channels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="channels do not fit groups=2, got x with 3 channels"):
        score_map(activations(1, 3, 4), None, groups=2)
    with pytest.raises(InputError, match="a factor for 4 channels in 2 groups, got x with 6 channels"):
        score_map(activations(1, 6, 4), quadratic(activations(2, 2, 1)))
