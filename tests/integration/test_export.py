"""torch.export and ONNX: any batch and spatial size, the numbers of torch."""

import logging

import pytest
import torch
from torch import nn
from torch.export import Dim

import multipartite as mp
from multipartite.errors import InputError

LAYERS = {1: mp.MultipartitePool1d, 2: mp.MultipartitePool2d, 3: mp.MultipartitePool3d}
SIZES = [(11, 13, 9), (8, 10, 12), (7, 7, 7), (16, 9, 8)]
# (dims, options); each window comes in some dimension, each dimension in some window
WINDOWS = {
    "1d, padding": (1, {"kernel_size": 3, "stride": 2, "padding": 1}),
    "1d, ceil_mode": (1, {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    "2d": (2, {"kernel_size": 2}),
    "2d, all at once": (
        2,
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "dilation": 2, "groups": 2},
    ),
    "2d, a group a channel": (2, {"kernel_size": 2, "groups": 6}),
    "2d, information": (2, {"kernel_size": (3, 2), "stride": 2, "criterion": "information"}),
    "2d, indices": (2, {"kernel_size": 2, "return_indices": True}),
    "3d, padding and ceil_mode": (3, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    "3d, dilation and groups": (3, {"kernel_size": 2, "dilation": 2, "groups": 3}),
    "2d, gather max, hard": (2, {"kernel_size": 2, "gather": "max"}),
    "2d, gather max, stochastic": (
        2,
        {"kernel_size": 3, "stride": 2, "padding": 1, "gather": "max", "assignment": "stochastic"},
    ),
    "2d, gather average, ceil_mode": (
        2,
        {"kernel_size": 3, "stride": 2, "ceil_mode": True, "gather": "average", "assignment": "stochastic"},
    ),
    "1d, gather stochastic, soft": (1, {"kernel_size": 2, "gather": "stochastic", "assignment": "soft"}),
    "2d, lines": (2, {"kernel_size": 2, "gather": "max", "assignment": "lines", "focus": 0.5}),
    "2d, lines, auto": (2, {"kernel_size": 3, "stride": 2, "gather": "max", "assignment": "lines", "groups": 2}),
    "1d, lines, no gather": (1, {"kernel_size": 3, "stride": 2, "assignment": "lines", "focus": 0.3}),
    "3d, lines": (3, {"kernel_size": 2, "gather": "max", "assignment": "lines", "focus": 0.5}),
    "1d, soft": (1, {"kernel_size": 3, "stride": 2, "padding": 1, "assignment": "soft"}),
    "1d, stochastic": (1, {"kernel_size": 3, "stride": 2, "ceil_mode": True, "assignment": "stochastic"}),
    "2d, soft": (2, {"kernel_size": 2, "assignment": "soft"}),
    "2d, stochastic": (2, {"kernel_size": 2, "assignment": "stochastic"}),
    "2d, stochastic, ceil_mode": (
        2,
        {"kernel_size": 3, "stride": 2, "ceil_mode": True, "assignment": "stochastic"},
    ),
}


def ONNX(test):
    """Slow, and the exporter warns of what it will change in itself."""
    for message in (
        "`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning",
        "Exporting a model while it is in training mode:UserWarning",
    ):
        test = pytest.mark.filterwarnings(f"ignore:{message}")(test)
    return pytest.mark.slow(test)


@pytest.fixture(autouse=True)
def _quiet():
    """The exporter logs what it does not find; that is no concern of ours."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def images(dims, n=4, sizes=SIZES[0], seed=0):
    x = torch.randn(n, 6, *sizes[:dims], generator=torch.Generator().manual_seed(seed))
    y = torch.arange(n) % 3
    return x + y.reshape(-1, *[1] * (dims + 1)), y


def taught(dims, **options):
    pool = LAYERS[dims](**{"gather": None, "assignment": "hard"} | options, num_classes=3)
    x, y = images(dims, 6)
    with mp.supervise(y):
        pool(x)
    return pool.eval()


def free(dims):
    return ({0: Dim.DYNAMIC, **{2 + i: Dim.DYNAMIC for i in range(dims)}},)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def others(dims):
    """Batches of other sizes than the one that was exported."""
    return [images(dims, n, sizes, seed=n)[0] for n, sizes in zip((4, 2, 1, 3), SIZES, strict=True)]


@pytest.mark.parametrize(
    "name",
    ["1d, padding", "2d", "2d, all at once", "3d, padding and ceil_mode", "2d, gather max, stochastic", "2d, lines"],
)
def test_torch_export(name):
    dims, options = WINDOWS[name]
    pool = taught(dims, **options)
    program = torch.export.export(pool, (images(dims)[0],), dynamic_shapes=free(dims))
    for x in others(dims):
        torch.testing.assert_close(program.module()(x), pool(x))


@ONNX
@pytest.mark.parametrize("name", WINDOWS)
def test_onnx(name, tmp_path):
    import onnxruntime

    dims, options = WINDOWS[name]
    pool = taught(dims, **options)
    path = tmp_path / "pool.onnx"
    torch.onnx.export(pool, (images(dims)[0],), path, dynamo=True, dynamic_shapes=free(dims), verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for x in others(dims):
        got = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        wanted = as_tuple(pool(x))
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other)


@ONNX
def test_onnx_of_a_frozen_network_with_an_adaptive_head(tmp_path):
    import onnxruntime

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    mp.convert(model, 3, only=[nn.MaxPool2d, nn.AdaptiveAvgPool2d])
    x, y = images(2, 6, (12, 12))
    mp.freeze(mp.fit(model, [(x, y)])).eval()
    torch.onnx.export(
        model, (x,), tmp_path / "model.onnx", dynamo=True, dynamic_shapes=({0: Dim.DYNAMIC},), verbose=False
    )
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    x = images(2, 3, (12, 12), seed=5)[0]
    got = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(got), model(x).detach())


def test_a_layer_in_training_mode_is_not_exported():
    with pytest.raises(InputError, match=r"training mode cannot be exported: call model.eval\(\)"):
        torch.export.export(taught(2, kernel_size=2).train(), (images(2)[0],))


def adaptive():
    model = mp.convert(nn.Sequential(nn.AdaptiveMaxPool2d(2)), 3, only=nn.AdaptiveMaxPool2d)
    x, y = images(2, 6, (8, 8))
    with mp.supervise(y):
        model(x)
    return model.eval(), x


def test_adaptive_pooling_is_not_exported_for_any_size():
    model, x = adaptive()
    with pytest.raises(InputError, match=r"fixed input size only.*leave the spatial sizes out of dynamic_shapes"):
        torch.export.export(model, (x,), dynamic_shapes=free(2))


def test_adaptive_pooling_is_exported_for_any_batch():
    model, x = adaptive()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: Dim.DYNAMIC},))
    torch.testing.assert_close(program.module()(x[:3]), model(x[:3]))


@ONNX
@pytest.mark.parametrize("case", ["training", "adaptive"])
def test_the_onnx_exporter_says_it_too(case):
    if case == "training":
        model, x, shapes, sentence = taught(2, kernel_size=2).train(), images(2)[0], None, "call model.eval"
    else:
        model, x = adaptive()
        shapes, sentence = free(2), "fixed input size only"
    with pytest.raises(torch.onnx.OnnxExporterError, match=sentence):
        torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False)
