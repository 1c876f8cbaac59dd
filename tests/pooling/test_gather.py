"""Gather: the stride-one map against torch's pooling and loops, and max pooling as a corner of the two steps."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

import multipartite as mp
from multipartite.criteria import row_form
from multipartite.errors import InputError
from multipartite.functional import multipartite_pool
from multipartite.instance_ranking import Fold
from multipartite.pooling.gather import gather, max_at, origins
from multipartite.pooling.window import Window
from windows import LAYERS, LAYOUTS, MAX_POOL, UNPOOL, activations, bounded, labelled, lay_out, problems

DIMS = [1, 2, 3]
HOW = ["max", "blur", "average", "stochastic"]


def pixels_of(window, place, spatial):
    """Pixels of the window that starts at `place` of the padded map, without its padding."""
    axes = [
        [o - p + i * d for i in range(k) if 0 <= o - p + i * d < n]
        for o, k, p, d, n in zip(place, window.kernel_size, window.padding, window.dilation, spatial, strict=True)
    ]
    return list(itertools.product(*axes))


def smoothed_in_loops(y):
    """Weights 1, 2, 1 along every axis, reflected at the ends."""
    for axis in range(2, y.ndim):
        n, lines = y.shape[axis], y.unbind(axis)
        at = [lines[abs(i) if i < n else 2 * (n - 1) - i] if n > 1 else lines[0] for i in range(-1, n + 1)]
        y = torch.stack([(at[i] + 2 * at[i + 1] + at[i + 2]) / 4 for i in range(n)], axis)
    return y


def in_loops(x, window, how):
    """The gathered map, pixel by pixel."""
    if how == "blur":
        return smoothed_in_loops(in_loops(x, window, "max"))
    size = window.gathered_size(x.shape[2:])
    out = x.new_zeros(*x.shape[:2], *size)
    for n, c in itertools.product(*map(range, x.shape[:2])):
        for place in itertools.product(*map(range, size)):
            values = torch.stack([x[(n, c, *pixel)] for pixel in pixels_of(window, place, x.shape[2:])])
            a = values.clamp_min(0)
            out[(n, c, *place)] = {
                "max": values.max(),
                "average": values.mean(),
                "stochastic": (a * a).sum() / a.sum() if a.any() else a.sum(),
            }[how]
    return out


@pytest.mark.parametrize("how", HOW)
@given(problem=problems())
@bounded
def test_the_gathered_map_is_that_of_the_loops(how, problem):
    window = Window.of(**problem.window, dims=problem.dims)
    torch.testing.assert_close(gather(problem.x, window, how), in_loops(problem.x, window, how))


@given(problems())
@bounded
def test_cells_tile_the_map_and_are_as_many_as_the_outputs_of_max_pooling(problem):
    window = Window.of(**problem.window, dims=problem.dims)
    spatial = problem.x.shape[2:]
    size = window.gathered_size(spatial)
    assert window.cells.out_size(size) == window.out_size(spatial)
    assert tuple(MAX_POOL[problem.dims](problem.x, **problem.window).shape[2:]) == window.out_size(spatial)


@pytest.mark.parametrize("training", [True, False])
@given(st.sampled_from(HOW), st.sampled_from(["hard", "soft", "stochastic", "lines"]), problems())
@bounded
def test_the_output_has_the_size_of_max_pooling_for_every_signature(training, how, assignment, problem):
    x, groups, window = problem
    options = {"gather": how, "assignment": assignment, "focus": 0.5, "training": training, "groups": groups}
    out = multipartite_pool(x, None, **window, **options)
    assert out.shape == MAX_POOL[problem.dims](x, **window).shape
    assert torch.isfinite(out).all()


def equal_scores(x, groups=1):
    """What has no information about the classes scores every pixel alike."""
    d = x.shape[1] // groups
    nothing = x.new_zeros(groups, d, 2), x.new_zeros(groups, 1, 2), x.new_zeros(2), x.new_zeros(groups)
    return Fold(*nothing, row_form("information"), informed=True)


@pytest.mark.parametrize("dims", DIMS)
@given(data=st.data())
@bounded
def test_equal_scores_and_hard_are_max_pooling_to_the_bit(dims, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    x, groups, window = data.draw(problems(dims=dims, dtype=dtype))
    if data.draw(st.booleans()):
        x = x.round()  # ties
    one, two = (t.clone().requires_grad_() for t in (x, x))
    out, indices = multipartite_pool(
        one, equal_scores(x, groups), **window, gather="max", assignment="hard", return_indices=True
    )
    expected, places = MAX_POOL[dims](two, **window, return_indices=True)
    assert torch.equal(out, expected)
    assert torch.equal(indices, places)
    weights = activations(*out.shape, seed=1, dtype=dtype)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    assert torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("dims", DIMS)
def test_the_gradient_is_that_of_max_pooling_to_the_bit_where_nothing_is_summed(dims):
    x = activations(2, 3, *[6] * dims)
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    weights = activations(2, 3, *[3] * dims, seed=1)
    (multipartite_pool(one, equal_scores(x), 2, gather="max", assignment="hard") * weights).sum().backward()
    (MAX_POOL[dims](two, 2) * weights).sum().backward()
    assert torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("dims", DIMS)
@given(data=st.data())
@bounded
def test_equal_scores_and_hard_on_a_smoothed_map_are_blur_pooling_with_three_taps(dims, data):
    x, groups, window = data.draw(problems(dims=dims))
    one, two = (t.clone().requires_grad_() for t in (x, x))
    out = multipartite_pool(one, equal_scores(x, groups), **window, gather="blur", assignment="hard")
    expected = mp.functional.blur_pool(two, **window, width=3)
    torch.testing.assert_close(out, expected)
    weights = activations(*out.shape, seed=1, dtype=x.dtype)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(one.grad, two.grad)


@pytest.mark.parametrize("assignment", ["soft", "stochastic", "lines"])
@pytest.mark.parametrize("dims", DIMS)
def test_uniform_choices_of_a_smoothed_map_evaluate_to_blur_pooling_with_four_taps(dims, assignment):
    x = activations(2, 3, *[9] * dims)
    how = {"gather": "blur", "assignment": assignment, "temperature": math.inf, "focus": 0.0}
    out, expected = multipartite_pool(x, None, 2, **how), mp.functional.blur_pool(x, 2, width=4)
    inner = (..., *[slice(0, -1)] * dims)  # at the end an even filter is reflected another way
    torch.testing.assert_close(out[inner], expected[inner])


@pytest.mark.parametrize("how", ["max", "blur"])
@pytest.mark.parametrize("assignment", ["soft", "stochastic"])
@given(problem=problems())
@bounded
def test_infinite_temperature_evaluates_to_the_mean_of_the_cell_of_the_gathered_map(assignment, how, problem):
    x, groups, window = problem
    options = {"gather": how, "assignment": assignment, "temperature": math.inf, "groups": groups}
    out = multipartite_pool(x, None, **window, **options)
    frame = Window.of(**window, dims=problem.dims)
    cells = frame.cells
    y = in_loops(x, frame, how)
    inside = torch.stack(list(cells.views(torch.ones_like(y), 0.0))).sum(0)
    torch.testing.assert_close(out, torch.stack(list(cells.views(y, 0.0))).sum(0) / inside)


@pytest.mark.parametrize("assignment", ["hard", "soft", "stochastic", "lines"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dims", DIMS)
def test_a_stride_of_one_leaves_no_choice_and_is_max_pooling(assignment, training, dims):
    x = activations(2, 4, *[7] * dims)
    options = {"assignment": assignment, "focus": 0.7, "training": training}
    out = multipartite_pool(x, None, (3,) * dims, 1, 1, **options)
    torch.testing.assert_close(out, MAX_POOL[dims](x, 3, 1, 1))


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("assignment", ["hard", "stochastic", "lines"])
def test_indices_name_where_every_channel_s_maximum_came_from(dims, assignment):
    x = activations(2, 6, *[6] * dims, seed=4)
    options = {"assignment": assignment, "focus": 0.5, "training": assignment != "hard", "groups": 2}
    out, indices = multipartite_pool(x, None, (2,) * dims, return_indices=True, **options)
    assert torch.equal(x.flatten(2).gather(2, indices.flatten(2)).reshape(out.shape), out)
    if assignment != "lines":  # whose lines may lie anywhere
        back = UNPOOL[dims](out, indices, 2, output_size=x.shape[2:])
        assert torch.equal(back[back != 0], x[back != 0])


@pytest.mark.parametrize(
    ("gather", "assignment"), [("blur", "hard"), ("average", "hard"), ("stochastic", "hard"), ("max", "soft")]
)
def test_there_are_no_indices_of_what_is_mixed(gather, assignment):
    with pytest.raises(InputError, match="mixes pixels: return_indices must be False"):
        mp.MultipartitePool2d(2, num_classes=3, gather=gather, assignment=assignment, return_indices=True)


@pytest.mark.parametrize(
    ("sizes", "return_indices", "how"),
    [((2,), False, "blur"), ((3, (1, 2)), False, "blur"), ((2,), True, "max"), ((3, 1), False, "max")],
)
def test_maxima_are_smoothed_unless_indices_are_asked_for_or_all_pixels_stay(sizes, return_indices, how):
    pool = mp.MultipartitePool2d(*sizes, num_classes=3, return_indices=return_indices)
    assert pool.gather == how
    x = activations(2, 4, 6, 6)
    out, expected = (
        multipartite_pool(x, None, *sizes, return_indices=return_indices, gather=one, assignment="hard")
        for one in ("auto", how)
    )
    torch.testing.assert_close(out, expected)


def test_an_unknown_gather_is_refused():
    with pytest.raises(InputError, match="unknown gather 'maxx': did you mean max"):
        mp.MultipartitePool2d(2, num_classes=3, gather="maxx")


# Gradients


@given(problems(most_channels=1), st.booleans())
@bounded
def test_the_maximum_at_chosen_pixels_is_that_of_the_map(problem, known):
    x, groups, _ = problem
    window = Window.of(**problem.window, dims=problem.dims)
    size = window.gathered_size(x.shape[2:])
    chosen = torch.randint(math.prod(size), (len(x), groups, 5), generator=torch.Generator().manual_seed(0))
    y = in_loops(x, window, "max")
    values = max_at(x, window, chosen, size, y if known else None)
    index = chosen.repeat_interleave(x.shape[1] // groups, 1)
    assert torch.equal(values, y.flatten(2).gather(2, index))
    where = origins(x, window, chosen)
    assert torch.equal(x.flatten(2).gather(2, where), values)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("known", [True, False])
def test_the_gradient_of_the_maximum_at_chosen_pixels(layout, groups, known):
    window = Window.of(3, 2, 1, dims=2)
    x = lay_out(activations(2, 4, 3, 3), layout).requires_grad_()
    chosen = torch.randint(9, (2, groups, 2, 2), generator=torch.Generator().manual_seed(0))

    def pooled(x):
        y = gather(x.detach(), window, "max") if known else None
        return max_at(x, window, chosen, (3, 3), y)

    assert gradcheck(pooled, (x,))
    assert gradgradcheck(pooled, (x,))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("assignment", ["hard", "soft", "stochastic", "lines"])
@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_two_steps(how, dims, assignment, training):
    size = {1: 6, 2: 4, 3: 3}[dims]
    x = (activations(1, 2, *[size] * dims, seed=6).abs() + 0.1).requires_grad_()
    fixed = score_of(x.detach(), how)
    state = torch.Generator().manual_seed(0).get_state()

    def pooled(x):
        generator = torch.Generator()
        generator.set_state(state)
        options = {"focus": 0.5, "training": training, "generator": generator, "temperature": 1.3}
        return multipartite_pool(x, fixed, (2,) * dims, gather=how, assignment=assignment, **options)

    if how != "stochastic" and assignment in ("soft", "hard"):
        assert gradcheck(pooled, (x,))
    else:  # scores and chances are taken as given, which finite differences cannot know
        pooled(x).sum().backward()
        assert torch.isfinite(x.grad).all()
        assert x.grad.sum() > 0


def score_of(x, how):
    return activations(1, x.shape[1], 2, seed=3)


# The layer


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("assignment", ["hard", "soft", "stochastic", "lines"])
def test_the_layer_learns_and_scores_on_the_gathered_map(dims, how, assignment):
    x, labels = labelled(dims, size=7)
    options = {"gather": how, "assignment": assignment, "focus": 0.5, "max_rows": None}
    layer = LAYERS[dims](3, 2, 1, num_classes=3, dtype=torch.float64, **options)
    torch.manual_seed(0)
    with mp.supervise(labels):
        layer(x)
    torch.manual_seed(0)
    window = Window.of(3, 2, 1, dims=dims)
    seen = gather(x, window, how, training=True)
    expected = mp.ClassStatistics(3, 6).update(seen, labels)
    torch.testing.assert_close(layer.statistics.mean, expected.mean)
    torch.testing.assert_close(layer.statistics.scatter, expected.scatter)
    layer.eval()
    function = multipartite_pool(x, layer.fold(), (3,) * dims, 2, 1, **{k: options[k] for k in list(options)[:3]})
    assert torch.equal(layer(x), function)


@pytest.mark.parametrize("assignment", ["stochastic", "lines", "hard", "soft"])
@pytest.mark.parametrize("training", [True, False])
def test_the_energy_ablation_differs_in_nothing_but_the_score(assignment, training):
    x = activations(3, 4, 8, 8)
    pools = []
    for criterion in ("energy", "kl"):
        options = {"assignment": assignment, "focus": 0.5, "criterion": criterion, "num_channels": 4}
        pool = mp.MultipartitePool2d(2, num_classes=3, **options).train(training)
        pool.generator, pool._warned = torch.Generator().manual_seed(5), True
        pools.append(pool(x))  # what has learned nothing scores by energy, too
    assert torch.equal(*pools)


@pytest.mark.parametrize("training", [True, False])
def test_energy_needs_no_labels_no_classes_and_says_nothing(training):
    pool = mp.MultipartitePool2d(2, criterion="energy").train(training)
    pool(activations(2, 4, 6, 6))
    pool(activations(2, 8, 6, 6))  # of any width
    assert pool.state_dict() == {}
    assert not pool.learns
    model = nn.Sequential(nn.Conv2d(1, 4, 3), pool)
    assert mp.fit(model, [(torch.rand(2, 1, 8, 8), torch.tensor([0, 1]))]) is model
    assert mp.freeze(model) is model


@pytest.mark.parametrize("options", [{"temperature": math.inf}, {"assignment": "lines", "focus": 0.0}])
def test_what_looks_at_no_score_learns_nothing_and_says_nothing(options):
    pool = mp.MultipartitePool2d(2, num_classes=3, **options)
    pool(activations(2, 4, 6, 6))
    assert not pool.learns
    assert pool.state_dict() == {}


def test_other_criteria_need_the_number_of_classes():
    with pytest.raises(InputError, match="num_classes must be at least 2, a whole number, got None"):
        mp.MultipartitePool2d(2)


def test_a_uniform_draw_never_looks_at_the_whole_map(monkeypatch):
    from multipartite.pooling import multipartite as module

    def refuse(*args, **kwargs):
        raise AssertionError("the map was gathered whole")

    monkeypatch.setattr(module, "gather_map", refuse)
    x = activations(2, 4, 8, 8, nonnegative=True)
    pool = mp.MultipartitePool2d(3, 2, 1, num_classes=3, gather="max", temperature=math.inf)
    out = pool(x)
    y = F.max_pool2d(x, 3, 1, 1)
    cells = torch.stack(list(Window.of(2, dims=2).views(y, 0.0)))  # [4, N, C, 4, 4]
    assert (cells == out).all(2).any(0).all()
