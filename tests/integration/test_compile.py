"""torch.compile: one graph, compiled once, the numbers of eager."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

import multipartite as mp
from multipartite.errors import InputError

CASES = [
    pytest.param({"gather": None, "assignment": "hard"}, id="printed"),
    pytest.param({"gather": None, "assignment": "soft"}, id="soft"),
    pytest.param({"gather": None, "assignment": "hard", "groups": 3, "criterion": "information"}, id="information"),
    pytest.param({"assignment": "hard"}, id="gather max, hard"),
    pytest.param({"gather": "average", "assignment": "soft"}, id="gather average, soft"),
    pytest.param({"gather": None, "assignment": "stochastic"}, id="stochastic"),
    pytest.param({}, id="gather max, stochastic"),
    pytest.param({"assignment": "lines", "focus": 0.5}, id="lines"),
    pytest.param({"assignment": "lines", "focus": "auto", "groups": 2}, id="lines, auto"),
    pytest.param({"criterion": "energy", "temperature": 2.0}, id="energy"),
    pytest.param({"temperature": float("inf")}, id="uniform"),
]
DRAWS = CASES[5:]  # their numbers differ from eager in training


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def network(channels=6, **options):
    torch.manual_seed(0)
    pool = mp.MultipartitePool2d(
        3, 2, 1, num_classes=3, num_channels=channels, refit_every=2, momentum=0.1, max_rows=64, **options
    )
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(54, 3))


def batch(step, n=9):
    y = torch.arange(n) % 3
    x = torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(step))
    return x + y[:, None, None, None], y


def train(model, run, steps=6, context=None):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x, y = batch(step)
        with mp.supervise(y), context or torch.enable_grad():
            loss = F.cross_entropy(run(x).float(), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.state_dict()


def graphs():
    """How many graphs were compiled, and how often one was left in the middle."""
    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


def close(got, wanted, tolerance=1e-5):
    for name in wanted:
        torch.testing.assert_close(
            got[name], wanted[name], rtol=tolerance, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}"
        )


@pytest.mark.parametrize("options", CASES[:5])
def test_training_is_one_graph_and_equals_eager(options):
    eager, model = network(**options), network(**options)
    wanted = train(eager, eager)
    got = train(model, torch.compile(model, fullgraph=True, backend="aot_eager"))
    assert graphs() == (1, 0)
    assert int(got["2.updates"]) == 6
    assert got["2.factor"].abs().sum() > 0
    close(got, wanted)


@pytest.mark.parametrize("options", CASES)
def test_evaluation_is_one_graph_and_equals_eager(options):
    model = network(**options)
    train(model, model)
    model.eval()
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    for step in range(4):
        x, _ = batch(step)
        torch.testing.assert_close(run(x), model(x))
    assert graphs() == (1, 0)


@pytest.mark.parametrize("options", DRAWS)
def test_a_compiled_step_draws(options):
    model = network(**options)
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    state = train(model, run)
    assert graphs() == (1, 0)
    assert int(state.get("2.updates", 6)) == 6
    assert all(tensor.isfinite().all() for tensor in state.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("options", CASES[:2])
def test_inductor_agrees(options):
    eager, model = network(**options), network(**options)
    wanted = train(eager, eager)
    got = train(model, torch.compile(model, fullgraph=True))
    assert graphs() == (1, 0)
    close(got, wanted, 1e-4)
    run = torch.compile(model.eval(), fullgraph=True)
    x, _ = batch(9)
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_in_a_compiled_step(dtype):
    model = network(assignment="soft")
    state = train(
        model, torch.compile(model, fullgraph=True, backend="aot_eager"), context=torch.autocast("cpu", dtype)
    )
    assert graphs() == (1, 0)
    assert state["2.factor"].dtype == torch.float32
    assert all(t.isfinite().all() for t in state.values())


@pytest.mark.slow
def test_another_batch_size_is_not_another_model():
    model = network()
    run = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (6, 9, 12, 7):
        x, y = batch(0, n)
        with mp.supervise(y):
            run(x)
    assert graphs() == (1, 0)


@pytest.mark.parametrize("name", ["AdaptiveMaxPool2d", "StochasticPool2d"])
def test_the_other_layers(name):
    if name == "AdaptiveMaxPool2d":
        model = mp.convert(nn.Sequential(nn.Conv2d(1, 6, 3), nn.AdaptiveMaxPool2d(2)), 3, only=nn.AdaptiveMaxPool2d)
        with mp.supervise(batch(0)[1]):
            model(batch(0)[0])
    else:
        model = nn.Sequential(nn.Conv2d(1, 6, 3), mp.StochasticPool2d(2))
    model.eval()
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    for step in range(3):
        x, _ = batch(step)
        torch.testing.assert_close(run(x), model(x))
    assert graphs() == (1, 0)


def test_a_layer_that_met_no_channels_says_what_to_do():
    model = network(channels=None)
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    x, y = batch(0)
    with pytest.raises(InputError, match="give num_channels, or run one batch"), mp.supervise(y):
        run(x)
    assert model[2].num_channels is None
    with mp.supervise(y):
        model(x)
        run(x)
    assert model[2].steps == 2


def test_a_compiled_copy_learns_alone():
    model = network()
    twin = copy.deepcopy(model)
    train(twin, torch.compile(twin, fullgraph=True, backend="aot_eager"), steps=2)
    assert (twin[2].steps, model[2].steps) == (2, 0)
