"""What every rival promises besides its own formula: torch's signature, any layout, any precision, one graph."""

from __future__ import annotations

import copy
import logging
import pickle

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import nn
from torch.export import Dim

import multipartite as mp
from multipartite import functional
from multipartite.errors import InputError
from multipartite.pooling import create
from multipartite.words import Word
from windows import MAX_POOL, activations, bounded, lay_out, problems

# a word for every rival and setting that takes a path of its own
WORDS = [
    *["blur", "blur:width=3", "fractional", "gated", "gated:per=channel", "lip", "lp", "lp:p=1", "lp:p=3", "lp:p=6"],
    *["lp:p=inf", "mixed", "s3", "s3:grid_size=4", "softpool", "strided"],
]
NO_DILATION = ("fractional",)
DRAWS = ["fractional", "s3", "s3:grid_size=4"]
OF_THE_LAYER = {"per"}  # options that say which parameters a layer has
FUNCTIONS = {
    "blur": functional.blur_pool,
    "fractional": functional.fractional_pool,
    "gated": functional.gated_pool,
    "lip": functional.lip_pool,
    "lp": functional.lp_pool,
    "mixed": lambda x, logit, *window, **options: functional.mixed_pool(x, logit.sigmoid(), *window, **options),
    "s3": functional.s3_pool,
    "softpool": functional.soft_pool,
    "strided": functional.strided_pool,
}
words = pytest.mark.parametrize("word", WORDS)


def layer(word, *window, dims=2, seed=0, **options):
    made = create(word, *window, num_classes=3, dims=dims, **options)
    made.generator = torch.Generator().manual_seed(seed)
    return made


def stirred(made, x):
    """The layer, with parameters, if it has any, that are not those which it began with."""
    made(x)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    made.generator = torch.Generator().manual_seed(0)
    return made


def fits(word, window):
    return "dilation" in window and (word.partition(":")[0] not in NO_DILATION or max(window["dilation"]) == 1)


@words
@given(problem=problems())
@bounded
def test_the_output_has_the_size_of_max_pooling(word, problem):
    x, _, window = problem
    if not fits(word, window) or (word == "s3:grid_size=4" and any(4 % s for s in window["stride"])):
        return
    kernel, stride, padding = window["kernel_size"], window["stride"], window["padding"]
    rest = {name: window[name] for name in ("dilation", "ceil_mode")}
    made = layer(word, kernel, stride, padding, dims=problem.dims, **rest).to(x.dtype)
    expected = MAX_POOL[problem.dims](x, **window).shape
    for training in (True, False):
        out = made.train(training)(x)
        assert out.shape == expected
        assert out.isfinite().all()


@words
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("training", [True, False])
def test_module_is_function(word, dims, training):
    x = torch.randn(2, 3, *[7] * dims)
    made = stirred(layer(word, 3, 2, 1, dims=dims, ceil_mode=True), x).train(training)
    parts = Word.parse(word)
    options = {name: value for name, value in parts.options if name not in OF_THE_LAYER}
    if word in DRAWS:
        options |= {"training": training, "generator": torch.Generator().manual_seed(0)}
    expected = FUNCTIONS[parts.name](x, *made.parameters(), (3,) * dims, 2, 1, ceil_mode=True, **options)
    assert torch.equal(made(x), expected)


@words
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_those_of_finite_differences(word, dims, training):
    x = activations(2, 2, *[5, 5, 3][:dims], seed=3)
    made = stirred(layer(word, 2, 2, 0, dims=dims, ceil_mode=True).double(), x).train(training)
    x.requires_grad_()
    parameters = list(made.parameters())

    def pooled(x, *_):
        made.generator.manual_seed(1)
        return made(x)

    assert torch.autograd.gradcheck(pooled, (x, *parameters))


@words
@pytest.mark.parametrize("layout", ["channels last", "every other", "transposed"])
@pytest.mark.parametrize("training", [True, False])
def test_the_layout_changes_no_number(word, layout, training):
    x = activations(2, 3, 8, 8)
    made = stirred(layer(word, 3, 2, 1).double(), x).train(training)
    other = lay_out(x, layout)
    results = []
    for numbers in (x, other):
        made.generator.manual_seed(0)
        numbers.requires_grad_()
        out = made(numbers)
        results.append((out, torch.autograd.grad(out.square().sum(), numbers)[0]))
    (one, slope), (two, other_slope) = results
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(slope, other_slope)
    if layout == "channels last":
        assert two.is_contiguous(memory_format=torch.channels_last)
        assert one.is_contiguous()


@words
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_one_image_needs_no_batch(word, dims):
    made = layer(word, 2, dims=dims).double().eval()
    x = activations(1, 2, *[6] * dims)
    assert torch.equal(made(x[0]), made(x)[0])


@words
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_at_large_activations_is_finite(word, dtype):
    made = layer(word, 3, 2, 1).to(dtype)
    line = torch.tensor([0.0, 3e4, -3e4, 1.0, 6e4, 6e4, 6e4, 6e4])
    line = line / 9 if word.startswith("lp") else line  # the sum of a window is to be a number, too
    x = line.to(dtype).repeat(2, 2, 8, 1).requires_grad_()
    for training in (True, False):
        out = made.train(training)(x)
        assert out.dtype == dtype
        assert out.isfinite().all()
        (slope,) = torch.autograd.grad(out.float().mean(), x)
        assert slope.isfinite().all()


@words
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_network_trains_under_autocast(word, dtype):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), layer(word, 2), nn.Flatten(), nn.Linear(36, 3))
    x, y = torch.randn(9, 1, 8, 8), torch.arange(9) % 3
    net(x)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(20):
        with torch.autocast("cpu", dtype):
            pooled = net[:3](x)
            loss = F.cross_entropy(net[3:](pooled).float(), y)
        assert pooled.dtype == dtype
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert all(p.isfinite().all() and p.grad.isfinite().all() for p in net.parameters())
    assert loss < 1


@words
@pytest.mark.parametrize("fill", [0.0, 1e-30, -2.0])
def test_constant_maps_have_gradients_without_nan(word, fill):
    x = torch.full((1, 2, 6, 6), fill, requires_grad=True)
    for training in (True, False):
        made = layer(word, 3, 2, 1).train(training)
        (slope,) = torch.autograd.grad(made(x).sum(), x)
        assert slope.isfinite().all()


@words
@pytest.mark.parametrize("mode", [True, False])
def test_it_compiles_to_one_graph(word, mode):
    torch._dynamo.reset()
    x = torch.randn(2, 4, 9, 9)
    made = stirred(layer(word, 3, 2, 1, ceil_mode=True), x)
    x.requires_grad_()
    made.generator = None  # which a compiled step does not take
    made.train(mode)
    run = torch.compile(made, fullgraph=True, backend="aot_eager")
    out = run(x)
    (slope,) = torch.autograd.grad(out.square().sum(), x)
    assert slope.isfinite().all()
    if word not in DRAWS or not mode:
        torch.testing.assert_close(out, made(x))
        torch.testing.assert_close(slope, torch.autograd.grad(made(x).square().sum(), x)[0])
    torch._dynamo.reset()


@pytest.fixture
def _quiet():
    """The exporter logs what it does not find; that is no concern of ours."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def ready(word, dims):
    """A layer in evaluation, to be exported."""
    made = stirred(layer(word, 3, 2, 1, dims=dims, ceil_mode=True), torch.randn(2, 3, *[9] * dims))
    made.generator = None
    return made.eval()


@words
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.usefixtures("_quiet")
def test_it_is_exported_for_any_size(word, dims):
    made = ready(word, dims)
    free = ({0: Dim.DYNAMIC, **{2 + i: Dim.DYNAMIC for i in range(dims)}},)
    program = torch.export.export(made, (torch.randn(2, 3, *[9, 11, 10][:dims]),), dynamic_shapes=free)
    for sizes in ([9, 11, 10], [12, 8, 7]):
        x = torch.randn(3, 3, *sizes[:dims])
        torch.testing.assert_close(program.module()(x), made(x))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
@words
@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.usefixtures("_quiet")
def test_onnx_has_the_same_numbers(word, dims, tmp_path):
    import onnxruntime

    made = ready(word, dims)
    free = ({0: Dim.DYNAMIC, **{2 + i: Dim.DYNAMIC for i in range(dims)}},)
    x = torch.randn(2, 3, *[9, 11][:dims])
    torch.onnx.export(made, (x,), tmp_path / "pool.onnx", dynamo=True, dynamic_shapes=free, verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "pool.onnx", providers=["CPUExecutionProvider"])
    for batch in (x, torch.randn(3, 3, *[12, 8][:dims])):
        (got,) = session.run(None, {session.get_inputs()[0].name: batch.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), made(batch).detach(), rtol=1e-4, atol=1e-5)


@words
def test_copies_and_pickles_pool_alike(word):
    made = layer(word, 2).eval()
    x = torch.randn(1, 3, 6, 6)
    expected = made(x)
    made.generator = None  # which cannot be pickled
    for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(twin(x), expected)
        assert repr(twin) == repr(made)


@words
def test_the_window_is_shown(word):
    shown = repr(layer(word, 3, 2, 1))
    assert "kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)" in shown
    assert all(option in shown for option in word.partition(":")[2].split(",") if option)


@words
def test_it_takes_the_place_of_max_pooling_in_a_model(word):
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(3, 2, 1, ceil_mode=True)).double()
    x = activations(2, 1, 9, 9)
    expected = model(x).shape
    out = mp.convert(model, 3, word)(x)
    assert out.shape == expected
    assert out.dtype == torch.float64
    assert all(p.dtype == torch.float64 for p in model.parameters())
    assert type(mp.revert(model)[1]) is nn.MaxPool2d


@words
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 3), "input must have 3 or 4 dimensions"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.int64), "input must be floating point, got int64"),
        (torch.zeros(2, 3, 1, 1), r"input of size \(1, 1\) is too small for windows of \(2, 2\)"),
    ],
)
def test_bad_input_is_refused(word, x, message):
    with pytest.raises(InputError, match=message):
        layer(word, 2)(x)
