"""Multipartite pooling against Alg. 3 in loops, and what torch expects of a layer."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from torch import nn

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.functional import score_map
from multipartite.instance_ranking import is_channels_last
from multipartite.projection import supervised_projection
from windows import (
    LAYERS,
    LAYOUTS,
    UNPOOL,
    activations,
    bounded,
    labelled,
    lay_out,
    printed2d,
    printed_pool,
    problems,
    same,
    snapshot,
    taught,
)

ASSIGNMENTS = ["hard", "soft", "stochastic", "lines"]
X4 = activations(2, 6, 4, 4, seed=3)

# Values


@given(problems())
@bounded
def test_values_and_indices_are_those_of_alg_3(problem):
    x, groups, window = problem
    factor = activations(groups, x.shape[1] // groups, 2, seed=1)
    out, indices = printed_pool(x, factor, **window, return_indices=True)
    h = torch.einsum("ngdl,gdr->ngrl", x.reshape(len(x), groups, -1, x[0, 0].numel()), factor)
    scores = h.square().sum(2).reshape(len(x), groups, *x.shape[2:])
    values, places = reference.multipartite_pool(x, scores, *window.values())
    assert torch.equal(out, values)
    assert torch.equal(indices, places)


@given(problems())
@bounded
def test_without_statistics_energy_picks_the_first_of_equals(problem):
    x, groups, window = problem
    x = x.round()  # many ties
    out, indices = printed_pool(x, None, **window, groups=groups, return_indices=True)
    energy = x.reshape(len(x), groups, -1, *x.shape[2:]).square().sum(2)
    values, places = reference.multipartite_pool(x, energy, *window.values())
    assert torch.equal(indices, places)
    assert torch.equal(out, values)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_papers_example_has_its_shapes_and_its_picks(layout):
    x, labels = labelled(channels=20, classes=10, size=24, images=100)
    x = lay_out(x, layout)
    pool = printed2d(2, num_classes=10, max_rows=None, dtype=torch.float64)
    with mp.supervise(labels):
        out = pool(x)
    assert out.shape == (100, 20, 12, 12)
    A = supervised_projection(pool.statistics)[0]
    assert A.shape == (20, 10)
    scores = pool.score(x)
    assert scores.numel() == 57600
    assert pool.statistics.total == 57600
    rows = x[:1].movedim(1, -1).reshape(-1, 20)  # 576 x 20
    slow = reference.instance_scores(rows, A.numpy(), pool.statistics.within[0].numpy(), pool.statistics.present, "kl")
    values, _ = reference.multipartite_pool(x[:1], torch.from_numpy(slow).reshape(1, 1, 24, 24), 2)
    assert torch.equal(out[:1], values)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("training", [True, False])
def test_module_is_function(dims, assignment, training):
    layer = taught(dims, kernel_size=3, stride=2, padding=1, ceil_mode=True, groups=2, assignment=assignment)
    layer.train(training)
    layer.generator = torch.Generator().manual_seed(0)
    x = activations(2, 6, *[7] * dims, seed=9)
    options = {"assignment": assignment, "training": training, "generator": torch.Generator().manual_seed(0)}
    if assignment == "lines":  # how far the layer has learned to trust its scores
        options["focus"] = layer.trust
    expected = printed_pool(x, layer.factor, (3,) * dims, 2, 1, 1, True, **options)
    layer._warned = True  # no labels are meant to come
    assert torch.equal(layer(x), expected)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_one_image_may_come_without_a_batch_dimension(dims, assignment):
    layer = taught(dims, assignment=assignment, learn_every=1)
    x = activations(6, *[6] * dims)
    assert torch.equal(layer(x), layer(x[None])[0])
    layer.train().momentum = 0.0
    before = layer.statistics.total.clone()
    with mp.supervise(torch.tensor(1)):
        layer(x)
    assert layer.statistics.total == before + 6**dims


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_torchs_unpooling_accepts_the_indices(dims):
    layer = taught(dims, groups=2, return_indices=True)
    x = activations(2, 6, *[6] * dims, seed=4)
    out, indices = layer(x)
    back = UNPOOL[dims](out, indices, 2)
    assert back.shape == x.shape
    kept = back != 0
    assert kept.sum() == out.numel()
    assert torch.equal(back[kept], x[kept])
    one, places = layer(x[0])
    assert torch.equal(one, out[0])
    assert torch.equal(places, indices[0])


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_the_memory_layout_changes_nothing_and_channels_last_stays(assignment):
    layer = taught(groups=2, assignment=assignment)
    x = activations(3, 6, 8, 8)
    expected = layer(x)
    for layout in LAYOUTS:
        out = layer(lay_out(x, layout))
        torch.testing.assert_close(out, expected)
        if assignment == "hard":
            assert is_channels_last(out) == (layout == "channels last")


# Gradients


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("criterion", ["kl", "ttest", "information"])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_gradients_are_right(dims, criterion, assignment):
    size = {1: 6, 2: 4, 3: 3}[dims]
    layer = taught(dims, 4, 3, groups=2, size=4, criterion=criterion, assignment=assignment, temperature=0.7)
    x = activations(1, 4, *[size] * dims, seed=6).requires_grad_()
    if assignment in ("stochastic", "lines"):  # the scores are taken as given, which gradcheck cannot know
        weights = layer(torch.ones_like(x))
        assert torch.isfinite(weights).all()
        layer.train()._warned = True
        state = torch.Generator().manual_seed(0).get_state()

        def pooled(x):
            layer.generator = torch.Generator()
            layer.generator.set_state(state)
            return layer(x)

        assert torch.autograd.gradcheck(pooled, x)
    else:
        assert torch.autograd.gradcheck(layer, x)


def test_the_gradient_reaches_the_picked_pixels_alone():
    layer = taught(groups=2, return_indices=True)
    x = activations(2, 6, 6, 6).requires_grad_()
    out, indices = layer(x)
    out.sum().backward()
    expected = torch.zeros(2, 6, 36, dtype=x.dtype).scatter_(2, indices.flatten(2), 1.0)
    assert torch.equal(x.grad.flatten(2), expected)


def test_soft_gradients_survive_a_refit_between_forward_and_backward():
    layer = printed2d(2, num_classes=3, assignment="soft", refit_every=1, dtype=torch.float64)
    x, labels = labelled()
    x.requires_grad_()
    with mp.supervise(labels):
        one = layer(x)
        factor = layer.factor.clone()
        two = layer(x.detach() * 3 + 1)
    assert not torch.equal(layer.factor, factor)
    (one.sum() + two.sum()).backward()
    y = x.detach().clone().requires_grad_()
    printed_pool(y, factor, 2, assignment="soft").sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


# Precision and determinism


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_under_autocast_statistics_keep_their_precision(dtype, assignment):
    layer = printed2d(2, num_classes=3, assignment=assignment)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), layer)
    nn.init.constant_(net[0].bias, 1e4)
    x, labels = labelled(channels=3)
    x = x.float().requires_grad_()
    with torch.autocast("cpu", dtype), mp.supervise(labels):
        out = net(x)
    out.float().sum().backward()
    assert out.dtype == dtype
    assert layer.factor.dtype == torch.float32
    assert layer.statistics.mean.dtype == torch.float64
    assert layer.updates == 1
    for tensor in (out, x.grad, layer.factor, layer.statistics.scatter):
        assert torch.isfinite(tensor).all()
    with torch.autocast("cpu", dtype):
        assert torch.isfinite(net.eval()(x)).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_half_precision_input_of_large_activations_stays_finite(dtype, assignment):
    layer = taught(assignment=assignment, criterion="information")
    x = (1e4 * activations(2, 6, 6, 6)).to(dtype)
    out = layer(x)
    assert out.dtype == dtype
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_deterministic_algorithms_suffice(assignment, layout):
    layer = taught(kernel_size=3, stride=1, padding=1, assignment=assignment).train()
    x, labels = labelled()
    x = lay_out(x, layout).requires_grad_()
    torch.use_deterministic_algorithms(True)
    try:
        with mp.supervise(labels):
            layer(x).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.isfinite(x.grad).all()


# Bad input: a clear error, and the state as before


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize(
    ("x", "labels", "message"),
    [
        (torch.rand(6, 6), None, r"input must have 3 or 4 dimensions, \(\[N,\] C, 2 spatial\), got shape \(6, 6\)"),
        (torch.rand(1, 2, 6, 6, 6), None, "input must have 3 or 4 dimensions"),
        (torch.ones(2, 6, 4, 4, dtype=torch.int32), None, "input must be floating point, got int32"),
        (torch.rand(2, 5, 4, 4), None, "channels"),
        (torch.rand(2, 6, 4, 4), torch.tensor([0, 3]), r"labels must lie in \[0, 3\) for num_classes=3, got 3"),
        (torch.rand(2, 6, 4, 4), torch.tensor([0, -1]), r"labels must lie in \[0, 3\)"),
        (torch.rand(2, 6, 4, 4), torch.tensor([0, 1, 2]), "got 3 labels for a batch of 2"),
        (torch.rand(2, 6, 4, 4), torch.zeros(3, 4, 4, dtype=torch.int64), "got 3 labels for a batch of 2"),
        (torch.rand(2, 6, 4, 4), torch.rand(2, 4), r"labels must be \(N,\) class indices or \(N, 3\) weights"),
        (torch.rand(2, 6, 4, 4), torch.rand(2), "labels must be"),
        (torch.rand(2, 6, 4, 4), torch.tensor([[0.5, 0.5, math.nan]] * 2), "soft labels must be finite"),
        (torch.rand(2, 6, 4, 4), torch.tensor([[0.5, 0.7, -0.2]] * 2), "soft labels must be finite and not negative"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(settled, x, labels, message):
    layer = taught(groups=2) if settled else printed2d(2, num_classes=3, groups=2)
    layer.train()
    before = snapshot(layer)
    with pytest.raises(InputError, match=message), mp.supervise(labels):
        layer(x)
    assert same(snapshot(layer), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "kll"}, "unknown criterion 'kll': did you mean kl\\? known: .*bhattacharyya"),
        (
            {"criterion": "roc"},
            "criterion 'roc' cannot rank instances: with one foreground value .* same sum; use one of",
        ),
        ({"criterion": "wilcoxon"}, "criterion 'wilcoxon' cannot rank instances"),
        ({"projection": "fishr"}, "unknown projection 'fishr': did you mean fisher\\? known: .*orthogonal"),
        ({"assignment": "softly"}, "unknown assignment 'softly': did you mean soft\\? known: hard, soft, stochastic"),
        ({"assignment": "soft", "return_indices": True}, "'soft' mixes pixels: return_indices must be False"),
        ({"temperature": 0.0}, "temperature must be positive, got 0.0"),
        ({"temperature": math.nan}, "temperature must be positive, got nan"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        ({"refit_every": 0}, "refit_every must be at least 1, a whole number, got 0"),
        ({"max_rows": 0}, "max_rows must be at least 1, a whole number, got 0"),
        ({"rank": 0}, "rank must be at least 1, a whole number, got 0"),
        ({"rank": "all"}, "rank must be at least 1, a whole number, got 'all'"),
        ({"num_classes": 1}, "num_classes must be at least 2, a whole number, got 1"),
        ({"num_classes": 2.5}, "num_classes must be at least 2, a whole number, got 2.5"),
        ({"groups": 0}, "groups must be at least 1, a whole number, got 0"),
        ({"groups": "2"}, "groups must be at least 1, a whole number, got '2'"),
        ({"groups": 2, "num_channels": 5}, "num_channels must be divisible by groups=2, got 5"),
        ({"padding": 2}, r"padding must be at most half of kernel_size=\(2, 2\), got \(2, 2\)"),
        ({"kernel_size": 0}, "kernel_size must be"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        printed2d(**{"kernel_size": 2, "num_classes": 3} | options)


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        ({"assignment": "lines", "focus": 0.0}, "focus", 0.5),
        ({"assignment": "lines", "focus": 0.5}, "focus", "auto"),
        ({"assignment": "stochastic", "temperature": math.inf}, "temperature", 1.0),
    ],
)
def test_an_option_that_would_have_to_learn_what_the_layer_did_not_is_refused(made, name, value):
    layer = printed2d(2, num_classes=3, **made)
    with pytest.raises(InputError, match=f"was made without what {name}={value!r} has to learn"):
        setattr(layer, name, value)
    assert getattr(layer, name) == made[name]


def test_other_options_may_be_set():
    layer = taught(assignment="lines", focus=0.5)
    layer.focus = 0.0
    torch.testing.assert_close(layer(X4), nn.functional.avg_pool2d(X4, 2))
    layer.focus, layer.assignment, layer.temperature = 0.25, "stochastic", 2.0
    assert (layer.focus, layer.assignment, layer.temperature) == (0.25, "stochastic", 2.0)
    blind = printed2d(2, assignment="lines", focus=0.0, criterion="energy")
    blind.focus = 0.5  # a pixel's energy has nothing to learn
    assert blind.focus == 0.5


def test_the_function_is_told_its_focus():
    with pytest.raises(InputError, match="focus must be a number in"):
        printed_pool(X4, None, 2, assignment="lines", focus="auto")


def test_there_are_no_indices_of_an_expectation():
    layer = taught(assignment="stochastic", return_indices=True)
    with pytest.raises(InputError, match="'stochastic' mixes pixels in evaluation: there are no indices"):
        layer(activations(1, 6, 4, 4))


def test_a_layer_refuses_other_channels_than_it_has_learned_from():
    with pytest.raises(InputError, match="has learned from 6 channels, got 4: maps of another width"):
        taught()(activations(1, 4, 4, 4))


# Degenerate batches


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("criterion", ["kl", "information"])
@pytest.mark.parametrize(
    ("x", "labels"),
    [
        (torch.empty(0, 6, 4, 4), torch.empty(0, dtype=torch.int64)),
        (torch.rand(1, 6, 4, 4), torch.tensor([1])),
        (torch.rand(3, 6, 4, 4), torch.tensor([1, 1, 1])),
        (torch.rand(3, 6, 4, 4), torch.tensor([3, 4, 3])),
        (torch.rand(3, 6, 4, 4), torch.tensor([-100, -100, -100])),
        (torch.zeros(3, 6, 4, 4), torch.tensor([0, 1, 2])),
        (torch.ones(3, 6, 4, 4), torch.tensor([0, 1, 2])),
    ],
    ids=["no images", "one image", "one class", "classes not seen before", "all ignored", "all zero", "constant"],
)
def test_degenerate_batches_do_no_harm(known, assignment, criterion, x, labels):
    layer = printed2d(2, num_classes=5, assignment=assignment, criterion=criterion, groups=2, refit_every=1)
    if known:
        with mp.supervise(labelled()[1]):
            layer(labelled()[0].float())
    with mp.supervise(labels):
        out = layer(x)
    assert out.shape == (len(x), 6, 2, 2)
    for tensor in (out, layer.factor, *layer.statistics.buffers()):
        assert torch.isfinite(tensor).all()
    assert (layer.statistics.count >= 0).all()
    assert (torch.linalg.eigvalsh(layer.statistics.within) > -1e-9).all()
    with mp.supervise(labelled()[1]):
        layer(labelled()[0].float())
    assert layer.informed
    assert torch.isfinite(layer.eval()(torch.rand(2, 6, 4, 4))).all()


# What a layer shows


def test_a_layer_shows_what_was_asked_for():
    shown = repr(mp.MultipartitePool3d(2, num_classes=7, groups=2, assignment="soft", temperature=3))
    for part in (
        "MultipartitePool3d",
        "num_classes=7",
        "groups=2",
        "assignment=soft",
        "temperature=3.0",
        "stride=(2, 2, 2)",
    ):
        assert part in shown


def test_score_has_a_map_a_group():
    layer = taught(groups=3)
    x = activations(2, 6, 5, 5)
    assert torch.equal(layer.score(x), score_map(x, layer.fold(), groups=3))
    assert layer.score(x).shape == (2, 3, 5, 5)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("training", [True, False])
def test_before_any_labels_a_warning_names_the_cure_once(dims, training, recwarn):
    layer = LAYERS[dims](2, num_classes=3).train(training)
    for _ in range(2):
        assert layer(torch.rand(1, 2, *[4] * dims)).shape == (1, 2, *[2] * dims)
    assert len(recwarn) == 1
    assert "multipartite.supervise(labels)" in str(recwarn[0].message)
    assert "multipartite.fit(model, loader)" in str(recwarn[0].message)
