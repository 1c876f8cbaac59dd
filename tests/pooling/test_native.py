"""The compiled kernel against the operations of torch that it stands in for."""

import copy
import itertools
import math
import pickle
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import multipartite as mp
from multipartite.criteria import row_form
from multipartite.instance_ranking import Fold
from multipartite.pooling import native
from multipartite.pooling.gather import gather
from multipartite.pooling.window import Window

pytestmark = pytest.mark.skipif(not native.available(), reason="the kernel was not compiled, or MULTIPARTITE_NATIVE=0")

VARIANTS = [name for name in native._runnable() if native._load(name) is not None]
SIZES = {1: (17,), 2: (11, 9), 3: (7, 8, 6)}
WINDOWS = [(2, 2, 0, 1), (3, 2, 1, 1), (2, 3, 0, 2), (3, 1, 1, 1), (4, 2, 1, 1)]  # kernel, stride, padding, dilation


@pytest.fixture(autouse=True, params=VARIANTS)
def variant(request, monkeypatch):
    """Test what was compiled for this processor, and for any lesser one."""
    library = native._load(request.param)
    monkeypatch.setattr(native, "_library", lambda: library)


def maps(dims: int, channels: int = 12, *, last: bool, seed: int = 0, images: int = 3) -> torch.Tensor:
    x = torch.randn(images, channels, *SIZES[dims], generator=torch.Generator().manual_seed(seed))
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x


def pooled(x, used, function, *sizes, **options):
    """Output and gradient, with the kernel or without."""
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_(options.get("training", False))
    with native.use(used):
        # with 5 a mark comes within 7e-8 of where two pixels meet, which rounding decides in the build without AVX2
        y = function(x, *sizes, generator=torch.Generator().manual_seed(6), **options)
    if not x.requires_grad:
        return y, None
    slope = torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape).cos()
    return y, torch.autograd.grad((y * slope).sum(), x)[0]


def gathered_pool(how, x, *sizes, **options):
    return mp.functional.multipartite_pool(x, None, *sizes, gather=how, **options)


def assert_same(x, function, *sizes, **options):
    ours, theirs = (pooled(x, used, function, *sizes, **options) for used in (True, False))
    for one, two in zip(ours, theirs, strict=True):
        if one is not None:
            assert_close(one, two, atol=1e-5, rtol=1e-5, check_stride=False)


@pytest.mark.parametrize("assignment", ["hard", "stochastic", "lines"])
@pytest.mark.parametrize("how", [None, "max", "blur"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_kernel_pools_as_the_operations_do(dims, how, assignment):
    for window, ceil, groups, training, score, last in itertools.product(
        WINDOWS, (False, True), (1, 3), (False, True), ("energy", "factor", "uniform"), (False, True)
    ):
        if training and last and (dims != 2 or groups > 1):
            continue  # there the operations leave the layout on their way, and draw in another order
        factor = torch.randn(groups, 12 // groups, 5, generator=torch.Generator().manual_seed(1))
        assert_same(
            maps(dims, last=last),
            mp.functional.multipartite_pool,
            factor if score == "factor" else None,
            *((size,) * dims for size in window),
            ceil,
            groups=groups,
            gather=how,
            assignment=assignment,
            temperature=math.inf if score == "uniform" else 1.0,
            focus=0.0 if score == "uniform" else 0.6,
            training=training,
        )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_kernel_draws_channels_as_the_operations_do(dims, training):
    for window, ceil, last in itertools.product(WINDOWS, (False, True), (False, True)):
        if training and last and dims != 2:
            continue
        sizes = ((size,) * dims for size in window)
        assert_same(maps(dims, last=last), mp.functional.stochastic_pool, *sizes, ceil, training=training)


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_kernel_keeps_the_lines_that_s3_draws(dims, cells):
    for window, ceil, last in itertools.product(WINDOWS, (False, True), (False, True)):
        sizes = [(size,) * dims for size in window]
        options = {"grid_size": tuple(cells * s for s in sizes[1]), "training": True}
        assert_same(maps(dims, last=last), mp.functional.s3_pool, *sizes, ceil, **options)


@pytest.mark.parametrize("channels", [1, 2, 5, 7, 8, 9, 17])
@pytest.mark.parametrize("last", [False, True])
def test_any_number_of_channels(channels, last):
    x = maps(2, channels, last=last)
    factor = torch.randn(1, channels, 3, generator=torch.Generator().manual_seed(1))
    for training in (False, True):
        assert_same(x, mp.functional.multipartite_pool, factor, 2, training=training)
        assert_same(x, mp.functional.stochastic_pool, 2, training=training)


@pytest.mark.parametrize("rank", [1, 8, 9, 10, 16, 17, 64, 70])
@pytest.mark.parametrize("channels", [5, 8, 11, 12, 20, 80])
def test_any_rank_of_the_factor(rank, channels):
    factor = torch.randn(1, channels, rank, generator=torch.Generator().manual_seed(1)) / 9
    for training in (False, True):
        assert_same(maps(2, channels, last=True), mp.functional.multipartite_pool, factor, 3, 2, training=training)


@pytest.mark.parametrize("temperature", [0.3, 2.0])
@pytest.mark.parametrize("training", [False, True])
def test_temperatures(temperature, training):
    options = {"temperature": temperature, "training": training}
    assert_same(maps(2, last=True), mp.functional.multipartite_pool, None, 3, 2, **options)


@pytest.mark.parametrize("criterion", ["information", "ttest"])
def test_forms_of_their_own(criterion):
    form, generator = row_form(criterion), torch.Generator().manual_seed(2)
    factor, offset = (torch.randn(1, n, 10, generator=generator) for n in (12, 1))
    prior = torch.randn(10, generator=generator).log_softmax(0)
    fold = Fold(factor, offset, prior, None, form) if form.has_offset else Fold(factor, None, None, None, form)
    for assignment, training in itertools.product(("hard", "stochastic", "lines"), (False, True)):
        options = {"assignment": assignment, "focus": 0.5, "training": training}
        assert_same(maps(2, last=True), mp.functional.multipartite_pool, fold, 2, **options)


def test_a_group_that_tells_nothing_scores_by_energy():
    factor = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(1))
    factor[1] = 0
    assert_same(maps(2, last=True), mp.functional.multipartite_pool, factor, 2, assignment="hard", gather=None)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e25])
@pytest.mark.parametrize("training", [False, True])
def test_strange_numbers_are_left_to_the_operations(value, training):
    x = maps(2, last=True).relu()
    x[1, 2, 3, 4] = value
    for assignment in ("hard", "stochastic", "lines"):
        how = "max" if assignment == "hard" else "auto"  # one large number, smoothed, leaves the best pixel to rounding
        options = {"gather": how, "assignment": assignment, "focus": 0.5, "training": training}
        with native.use(True):
            ours = mp.functional.multipartite_pool(x, None, 2, **options, generator=torch.Generator().manual_seed(0))
        assert ours.shape == (3, 12, 5, 4)
        if not training:
            with native.use(False):
                assert_close(ours, mp.functional.multipartite_pool(x, None, 2, **options), equal_nan=True)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scores_of_any_size(scale):
    x = maps(2, last=True).relu() * scale
    for assignment in ("hard", "stochastic", "lines"):
        with native.use(True):
            ours = mp.functional.multipartite_pool(x, None, 2, assignment=assignment, focus=0.5)
        with native.use(False):
            assert_close(
                ours, mp.functional.multipartite_pool(x, None, 2, assignment=assignment, focus=0.5), atol=0, rtol=1e-5
            )


@pytest.mark.parametrize("last", [False, True])
def test_the_first_of_equals_is_max_pooling_to_the_bit(last):
    x = maps(2, last=last).mul(2).round().div(2).requires_grad_(True)  # many are equal
    y = mp.functional.multipartite_pool(x, None, 3, 2, 1, assignment="hard", temperature=1.0, gather="max", groups=1)
    z = mp.MultipartitePool2d(3, 2, 1, assignment="lines", focus=0, num_classes=2)(x)
    assert y.shape == z.shape == (3, 12, 6, 5)
    # of the chosen pixels, every maximum sends its gradient to the first place that holds it, as torch's does
    with native.use(False):
        w = mp.functional.multipartite_pool(x, None, 3, 2, 1, assignment="hard", gather="max", groups=1)
    slope = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    ours, theirs = (torch.autograd.grad(v, x, slope)[0] for v in (y, w))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_gathering_is_torchs_max_pooling_at_stride_one(dims, last):
    x, maximum = maps(dims, last=last), {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[dims]
    for kernel, padding, dilation in ((2, 0, 1), (3, 1, 1), (3, 1, 2), (5, 2, 1)):
        window = Window.of(kernel, 2, padding, dilation, dims=dims)
        assert torch.equal(gather(x, window, "max"), maximum(x, kernel, 1, padding, dilation))


@pytest.mark.parametrize("how", ["max", "blur"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_a_gathered_map_sends_its_gradient_back_as_the_operations_do(how, dims, last):
    for (kernel, stride, padding, dilation), ceil in itertools.product(WINDOWS, (False, True)):
        window = Window.of(kernel, stride, padding, dilation, ceil_mode=ceil, dims=dims)
        x = maps(dims, 11, last=last).mul(2).round().requires_grad_(True)  # many are equal
        found = []
        for used in (True, False):
            with native.use(used):
                y = gather(x, window, how)
            slope = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
            (first,) = torch.autograd.grad((y.square() * slope).sum(), x, create_graph=True)
            found.append((y, first, torch.autograd.grad(first.square().sum(), x)[0]))
        assert "Picked" in found[0][0].grad_fn.name()
        for ours, theirs in zip(*found, strict=True):
            assert_close(ours, theirs, atol=1e-4, rtol=1e-5, check_stride=False)


def test_any_number_of_threads_gives_the_same_bits():
    x, before = maps(2, last=True, images=7), torch.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            found.append(pooled(x, True, mp.functional.multipartite_pool, None, 2, training=True))
        finally:
            torch.set_num_threads(before)
    for y, grad in found[1:]:
        assert torch.equal(y, found[0][0])
        assert torch.equal(grad, found[0][1])


@pytest.mark.parametrize("how", ["max", "blur", "stochastic"])
@pytest.mark.parametrize("last", [False, True])
def test_a_gradient_of_the_gradient(how, last):
    x = maps(2, last=last).requires_grad_(True)
    pool = mp.functional.stochastic_pool if how == "stochastic" else partial(gathered_pool, how)

    def twice(used):
        with native.use(used):
            y = pool(x.relu(), 3, 2, 1, training=True, generator=torch.Generator().manual_seed(0))
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    assert_close(twice(True), twice(False))


def test_hooks_on_saved_tensors_and_checkpoints_see_what_is_kept():
    x = maps(2, last=True).requires_grad_(True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = mp.functional.multipartite_pool(x, None, 2, training=True)
    assert {t.dtype for t in kept} == {torch.int32, torch.uint8}  # a tenth of what indices would take
    y.sum().backward()
    assert x.grad.sum() == y.numel()


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(2, 3, 4, 4, dtype=torch.float64),
        torch.zeros(2, 3, 4, 4, dtype=torch.bfloat16),
        torch.zeros(2, 3, 4, 4, device="meta"),
        torch.zeros(0, 3, 4, 4),
        torch.zeros(2, 3, 8, 8)[:, :, ::2, ::2],
    ],
)
def test_what_the_kernel_does_not_do_is_done_by_operations(x):
    assert not native.handles(x, Window.of(2, dims=2))


def test_windows_of_too_many_places_are_for_operations():
    assert not native.handles(torch.zeros(1, 1, 20, 20), Window.of(16, dims=2))
    assert native.handles(torch.zeros(1, 1, 20, 20), Window.of(15, dims=2))
    assert not native.handles(torch.zeros(1, 1, 20, 20), Window.of(2, 16, dims=2)), "of which one pixel stays"


def assert_learn_the_same(layers, batches):
    """Two layers of a kind, of which one learns by the kernel."""
    for x, labels in batches:
        for layer, used in zip(layers, (True, False), strict=True):
            with native.use(used), mp.supervise(labels):
                layer(x)
    ours, theirs = (layer.statistics for layer in layers)
    assert_close(ours.count, theirs.count)
    assert_close(ours.mean, theirs.mean, rtol=1e-6, atol=1e-5)
    assert_close(ours.within, theirs.within, rtol=1e-4, atol=1e-4)
    assert layers[0].steps == layers[1].steps == len(batches)


@pytest.mark.parametrize("max_rows", [None, 300])
@pytest.mark.parametrize("channels", [7, 20, 64])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("groups", [1, "channels"])
def test_a_layer_learns_the_same(channels, groups, last, max_rows):
    groups = channels if groups == "channels" else groups
    options = {"num_classes": 5, "groups": groups, "max_rows": max_rows, "learn_every": 1}
    layers = [mp.MultipartitePool2d(2, **options) for _ in range(2)]
    labels = torch.arange(30) % 4
    batches = [(maps(2, channels, images=30, last=last, seed=step) + 3, labels) for step in range(3)]
    assert_learn_the_same(layers, batches)


@pytest.mark.parametrize("gather", [None, "max", "blur"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("window", "ceil_mode"), [*((w, False) for w in WINDOWS), ((3, 2, 1, 1), True)])
def test_a_layer_learns_the_same_from_any_window(window, ceil_mode, dims, last, gather):
    layers = [
        getattr(mp, f"MultipartitePool{dims}d")(*window, ceil_mode=ceil_mode, num_classes=3, gather=gather, max_rows=50)
        for _ in range(2)
    ]
    # a class is new in the sixth batch, which is learned from
    labels = [torch.arange(6) % (2 + (step > 4)) for step in range(8)]
    batches = [(maps(dims, images=6, last=last, seed=step) + 100, labels[step]) for step in range(8)]
    assert_learn_the_same(layers, batches)


def test_learning_makes_no_map_whole(monkeypatch):
    monkeypatch.setattr("multipartite.pooling.learning.Seen.whole", None)
    layer = mp.MultipartitePool2d(2, num_classes=3)
    with mp.supervise(torch.arange(12) % 3):
        layer(maps(2, images=12, last=True))
    assert layer.steps == 1


@pytest.mark.parametrize(("value", "size"), [(math.inf, 1), (-math.inf, 1), (math.nan, 1), (math.nan, 2)])
def test_a_batch_that_is_not_finite_is_refused(value, size):
    layer = mp.MultipartitePool2d(size, num_classes=3, learn_every=1)  # a maximum must not hide what is not a number
    x, labels = maps(2, images=12, last=True).relu(), torch.arange(12) % 3
    with mp.supervise(labels):
        layer(x)
        before = layer.statistics.scatter.clone()
        x[3, 4, -1, -1] = value
        with pytest.warns(mp.errors.MultipartiteWarning, match="refused a batch"):
            layer(x)
    assert torch.equal(layer.statistics.scatter, before)


def taught_layer(**options):
    pool = mp.MultipartitePool2d(2, num_classes=3, **options).train()
    with mp.supervise(torch.tensor([0, 1, 2])):
        pool(maps(2, last=True).relu())
    return pool.eval()


def assert_evaluates_as_the_operations_do(pool, x):
    with torch.no_grad():
        ours = [pool(x) for _ in range(3)]  # the first gets ready, unless it was so before; the others are served
        with native.use(False):
            expected = pool(x)
        again = pool(x), pool(x)
    for each in (*ours, *again):
        assert_close(each, expected, atol=1e-5, rtol=1e-5, check_stride=False, equal_nan=True)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"assignment": "hard", "gather": None},
        {"assignment": "lines", "focus": 0.5},
        {"assignment": "lines", "focus": "auto", "criterion": "information"},
        {"assignment": "lines", "focus": 0.0},
        {"criterion": "energy", "groups": 3},
        {"gather": "blur"},
        {"criterion": "ttest"},
        {"temperature": math.inf},
    ],
    ids=str,
)
def test_a_layer_that_is_ready_does_what_it_did(options, last):
    pool, x = taught_layer(**options), maps(2, last=last, seed=1).relu()
    assert_evaluates_as_the_operations_do(pool, x)
    assert_evaluates_as_the_operations_do(pool, x[:2])
    assert_evaluates_as_the_operations_do(pool, maps(2, last=not last, seed=2).relu())


def test_a_layer_is_ready_anew_when_it_has_changed():
    pool, x = taught_layer(), maps(2, last=True, seed=1).relu()
    assert_evaluates_as_the_operations_do(pool, x)
    other = taught_layer()
    with mp.supervise(torch.tensor([2, 1, 0])):
        other.train()(5 * x)
    other.refit()
    changes = [
        lambda: pool.load_state_dict(other.state_dict()),
        lambda: pool.factor.mul_(torch.arange(1.0, 13.0)[:, None]),
        lambda: setattr(pool, "temperature", 0.5),
        lambda: setattr(pool, "assignment", "hard"),
        lambda: setattr(pool, "gather", None),
        lambda: pool.double().float().factor.mul_(torch.arange(12.0, 0.0, -1.0)[:, None] ** 3),
    ]
    for change in changes:
        change()
        assert_evaluates_as_the_operations_do(pool, x)
    pool.reset()
    with pytest.warns(mp.errors.MultipartiteWarning, match="has seen no labels yet"):
        pool(x)
    assert_evaluates_as_the_operations_do(pool, x)


def test_a_second_evaluation_decides_nothing_anew(monkeypatch):
    pool, x = taught_layer(), maps(2, last=True, seed=1).relu()
    expected = pool(x)
    monkeypatch.setattr("multipartite.pooling.multipartite._pool", None)
    assert_close(pool(x), expected)


def test_a_layer_that_is_ready_leaves_strange_numbers_and_gradients_to_the_others():
    pool, x = taught_layer(), maps(2, last=True, seed=1).relu()
    assert_evaluates_as_the_operations_do(pool, x)
    strange = x.clone()
    strange[0, 0, 0, 0] = math.nan
    assert_evaluates_as_the_operations_do(pool, strange)
    followed = x.clone().requires_grad_()
    pool(followed).sum().backward()
    assert followed.grad is not None
    assert torch.func.vmap(pool)(x[:, None]).shape == (3, 1, 12, 5, 4)


def trained(pool, x, labels, used, seed=6):
    """Output and gradient of a training step, with the kernel or without."""
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    pool.generator = torch.Generator().manual_seed(seed)
    with native.use(used), mp.supervise(labels):
        y = pool.train()(x)
    slope = torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape).cos()
    return y.detach(), torch.autograd.grad((y * slope).sum(), x)[0]


def assert_train_alike(pool, twin, x, labels, steps=3):
    for _ in range(steps):
        for one, two in zip(trained(pool, x, labels, True), trained(twin, x, labels, False), strict=True):
            assert_close(one, two, atol=1e-5, rtol=1e-5, check_stride=False, equal_nan=True)
    for (name, one), two in zip(pool.named_buffers(), twin.buffers(), strict=True):
        assert_close(one, two, atol=1e-5 * max(1.0, float(two.abs().max())), rtol=0, msg=name)
    assert pool.steps == twin.steps


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"assignment": "hard", "gather": None},
        {"assignment": "lines", "focus": 0.5, "gather": "max"},
        {"assignment": "lines", "focus": 0.0},
        {"criterion": "energy"},
        {"criterion": "ttest"},
        {"temperature": math.inf},
    ],
    ids=str,
)
def test_a_layer_that_is_ready_trains_as_it_did(options, last):
    pool = mp.MultipartitePool2d(2, num_classes=3, learn_every=2, refit_every=3, **options)
    twin, x, labels = copy.deepcopy(pool), maps(2, last=last, seed=1).relu(), torch.tensor([0, 1, 2])
    assert_train_alike(pool, twin, x, labels, steps=7)
    assert_train_alike(pool, twin, x[:2], labels[:2])
    assert_train_alike(pool, twin, x, labels)


def test_a_layer_that_trains_is_ready_anew_when_it_has_changed():
    pool = mp.MultipartitePool2d(2, num_classes=3, focus=0.7, learn_every=1, refit_every=2)
    twin, x, labels = copy.deepcopy(pool), maps(2, last=True, seed=1).relu(), torch.tensor([0, 1, 2])
    assert_train_alike(pool, twin, x, labels)
    strange = x.clone()
    strange[0, 0, 0, 0] = math.nan
    changes = [
        lambda layer: setattr(layer, "temperature", 0.5),
        lambda layer: setattr(layer, "assignment", "lines"),
        lambda layer: setattr(layer, "focus", 0.0),  # no score is looked at: nothing is learned
        lambda layer: setattr(layer, "focus", 0.5),
        lambda layer: setattr(layer, "gather", "max"),
        lambda layer: layer.factor.mul_(torch.arange(1.0, 13.0)[:, None]),
        lambda layer: layer.eval()(x),
        lambda layer: layer.reset(),
    ]
    for change in changes:
        for layer in (pool, twin):
            change(layer)
        assert_train_alike(pool, twin, x, labels)
    for layer, used in ((pool, True), (twin, False)):
        with pytest.warns(mp.errors.MultipartiteWarning, match="refused a batch"):
            trained(layer, strange, labels, used)
        assert layer.refused == 1
    assert_train_alike(pool, twin, x, labels)


def test_a_layer_that_is_ready_sees_that_nothing_tells_the_classes_apart_any_more():
    pool = mp.MultipartitePool2d(2, num_classes=3, momentum=1 - 1e-12, learn_every=1, refit_every=1)
    twin, x, labels = copy.deepcopy(pool), maps(2, last=True, seed=1).relu(), torch.tensor([0, 1, 2])
    assert_train_alike(pool, twin, x, labels)
    assert pool.informed
    assert_train_alike(pool, twin, x[:1].expand(3, -1, -1, -1).clone(memory_format=torch.channels_last), labels)
    assert not pool.informed


def test_a_second_training_step_decides_nothing_anew(monkeypatch):
    pool, x, labels = taught_layer(), maps(2, last=True, seed=1).relu(), torch.tensor([0, 1, 2])
    expected = trained(pool, x, labels, True)
    monkeypatch.setattr("multipartite.pooling.multipartite._pool", None)
    for one, two in zip(trained(pool, x, labels, True), expected, strict=True):
        assert_close(one, two)


def test_two_maps_may_be_pooled_before_either_sends_its_gradient_back():
    pool, labels = taught_layer(), torch.tensor([0, 1, 2])
    xs = [maps(2, last=True, seed=seed).relu().requires_grad_() for seed in (1, 2)]
    with mp.supervise(labels):
        one, two = (pool.train()(x) for x in xs)
    apart = [torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for y, x in zip((one, two), xs, strict=True)]
    together = torch.autograd.grad(one.sum() + two.sum(), xs)
    for each, expected in zip(together, apart, strict=True):
        assert_close(each, expected)
        assert each.sum() > 0


@pytest.mark.parametrize("grad_last", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", [None, "max", "blur"])
def test_a_gradient_may_come_in_either_layout(how, last, grad_last):
    x = maps(2, last=last).requires_grad_()
    slope = maps(2, last=grad_last, seed=3)[..., :5, :4].contiguous(
        memory_format=torch.channels_last if grad_last else torch.contiguous_format
    )
    sent = []
    for used in (True, False):
        with native.use(used):
            options = {"gather": how, "training": True, "generator": torch.Generator().manual_seed(6)}
            y = mp.functional.multipartite_pool(x, None, 2, **options)
            sent.append(torch.autograd.grad(y, x, slope)[0])
    assert_close(*sent, atol=1e-5, rtol=1e-5, check_stride=False)


def test_being_ready_is_neither_copied_nor_saved():
    pool, x = taught_layer(), maps(2, last=True, seed=1).relu()
    before = set(pool.state_dict())
    assert_evaluates_as_the_operations_do(pool, x)
    assert set(pool.state_dict()) == before
    for copied in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert_evaluates_as_the_operations_do(copied, x)
