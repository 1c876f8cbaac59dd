"""States that earlier versions wrote still load; states that do not fit say why; nothing is unpickled."""

import ast
import importlib.util
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import multipartite as mp

DATA = Path(__file__).parents[1] / "data"
SOURCE = Path(mp.__file__).parent

spec = importlib.util.spec_from_file_location("write_old_state", DATA / "write_old_state.py")
old = importlib.util.module_from_spec(spec)
spec.loader.exec_module(old)


def layer(name):
    """The layer that an old state was written from: what was the default then is said."""
    options = {"gather": None, "assignment": "hard", **old.LAYERS[name]}
    return mp.MultipartitePool2d(3, 2, 1, num_classes=3, refit_every=1, **options)


@pytest.mark.parametrize("name", old.LAYERS)
def test_an_old_state_pools_as_it_did(name):
    tensors = load_file(DATA / "old_state.safetensors")
    prefix = f"{name}/state/"
    state = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
    pool = layer(name).eval()
    pool.load_state_dict(state)
    torch.testing.assert_close(pool(tensors["input"]), tensors[f"{name}/output"])
    assert pool.state_dict().keys() == state.keys()


def test_an_old_state_goes_on_learning():
    tensors = load_file(DATA / "old_state.safetensors")
    pool = layer("kl")
    pool.load_state_dict({k.removeprefix("kl/state/"): t for k, t in tensors.items() if k.startswith("kl/state/")})
    with mp.supervise(torch.tensor([0, 1])):
        pool(tensors["input"])
    assert int(pool.updates) == 2
    assert not torch.equal(pool.factor, tensors["kl/state/factor"])


def model(channels=6, classes=3, **options):
    pool = mp.MultipartitePool2d(2, num_classes=classes, num_channels=channels, **options)
    return nn.Sequential(nn.Sequential(nn.ReLU(), pool))


@pytest.mark.parametrize(
    ("other", "came"),
    [
        ({"channels": 4}, r"is \(1, 4, 2\), and this layer has num_channels=6"),
        ({"classes": 5}, r"is \(1, 6, 4\), and this layer has num_channels=6, num_classes=3"),
        ({"groups": 2}, r"is \(2, 3, 2\), and this layer has .*groups=1"),
    ],
)
def test_a_state_that_does_not_fit_names_the_layer(other, came):
    target = model()
    with pytest.raises(RuntimeError, match=r"layer '0\.1': .*" + came):
        target.load_state_dict(model(**other).state_dict())
    assert target[0][1].num_channels == 6


def test_nothing_is_unpickled():
    """Every torch.load is for weights only, and nothing imports pickle or its kin to read with."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"pickle", "dill", "cloudpickle", "shelve", "marshal"}, path
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "np.load", "numpy.load"):
                said = {word.arg: ast.unparse(word.value) for word in node.keywords}
                safe = said.get("weights_only") == "True" or said.get("allow_pickle", "False") == "False"
                assert safe if "np" in ast.unparse(node.func) else said.get("weights_only") == "True", path
