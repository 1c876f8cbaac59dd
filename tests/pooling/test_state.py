"""What a layer keeps: it travels by state_dict, copy, pickle and .to(), and comes into being late."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import multipartite as mp
from multipartite.pooling.sharing import Pending
from windows import activations, labelled, printed2d, same, snapshot, taught

CRITERIA = ["kl", "bhattacharyya", "ttest", "information"]
X = activations(2, 6, 6, 6, seed=8)


def fresh(**options):
    return printed2d(2, num_classes=3, dtype=torch.float64, **options).eval()


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("num_channels", [None, 6])
@pytest.mark.parametrize(("groups", "projection"), [(1, "fisher"), (3, "fisher"), (1, "orthogonal"), (2, "penalised")])
def test_a_state_dict_brings_everything_into_a_fresh_layer(criterion, num_channels, groups, projection):
    layer = taught(criterion=criterion, groups=groups, batches=3, projection=projection, refit_every=2)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    options = {"criterion": criterion, "groups": groups, "projection": projection, "refit_every": 2}
    other = fresh(num_channels=num_channels, **options)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert same(snapshot(other), snapshot(layer))
    assert torch.equal(other(X), layer(X))
    for pool in (layer, other):  # and they go on alike, past the next refit
        for seed in (7, 8):
            with mp.supervise(labelled()[1]):
                pool.train()(labelled(seed=seed)[0])
    assert same(snapshot(other), snapshot(layer))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_layer_of_lower_rank_scores_by_the_columns_it_kept_and_so_does_its_copy(memory_format):
    layer, whole = taught(classes=5, rank=2), taught(classes=5)
    assert (layer.kept, whole.kept) == (2, 4)
    x = X.to(memory_format=memory_format)
    factor = layer.factor[0, :, :2]
    expected = torch.einsum("nchw,cr->nrhw", x, factor).square().sum(1, keepdim=True)
    torch.testing.assert_close(layer.score(x), expected)
    other = printed2d(2, num_classes=5, dtype=torch.float64, rank=2).eval()
    other.load_state_dict(layer.state_dict())
    assert other.kept == 2
    assert torch.equal(other(x), layer(x))
    layer.reset()
    assert layer.kept == 0


def test_a_layer_inside_a_model_loads_by_its_prefix():
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.Sequential(taught()))
    other = nn.Sequential(nn.Conv2d(1, 6, 3), nn.Sequential(fresh()))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other[1](X), model[1](X))


def test_a_layer_that_met_no_channels_has_an_empty_state_and_loads_it():
    assert fresh().state_dict() == {}
    layer = fresh()
    layer.load_state_dict({})
    assert layer.num_channels is None


@pytest.mark.parametrize("num_channels", [None, 4])
@pytest.mark.parametrize(
    "there",
    [{"classes": 5}, {"groups": 2}, {"channels": 8}, {"classes": 9, "channels": 2}, {"criterion": "information"}],
)
def test_the_state_of_another_layer_is_refused_and_changes_nothing(there, num_channels):
    if num_channels is None and there == {"channels": 8}:
        pytest.skip("a layer that met no channels takes any")
    state = taught(**{"channels": 4} | there).state_dict()
    here = fresh(num_channels=num_channels)
    before = snapshot(here)
    with pytest.raises(RuntimeError, match=r"the state is for other channels, classes or groups: .* num_classes=3"):
        here.load_state_dict(state)
    assert same(snapshot(here), before)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
@pytest.mark.parametrize("criterion", ["kl", "information"])
def test_copies_are_equal_and_learn_apart(copied, criterion):
    layer = taught(criterion=criterion)
    layer.generator = torch.Generator().manual_seed(3)
    other = copied(layer)
    assert same(snapshot(other), snapshot(layer))
    assert torch.equal(other(X), layer(X))
    before = snapshot(layer)
    with mp.supervise(labelled()[1]):
        other.train()(labelled(seed=5)[0])
    assert same(snapshot(layer), before)
    assert other.steps == layer.steps + 1
    assert copied(fresh()).num_channels is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_buffers_move_but_never_below_single_precision(dtype):
    layer = taught()
    exact = snapshot(layer)
    layer.to(dtype)
    assert layer.factor.dtype == (torch.float32 if dtype == torch.float32 else torch.float64)
    for name in ("count", "mean", "scatter"):
        assert torch.equal(getattr(layer.statistics, name), exact[3][f"statistics.{name}"])
    assert layer.updates.dtype == torch.int64
    assert layer(X.to(dtype)).dtype == dtype


def test_a_layer_moved_before_it_met_channels_settles_there():
    layer = printed2d(2, num_classes=3).double()
    layer.allocate(6)
    assert layer.factor.dtype == torch.float64
    assert printed2d(2, num_classes=3, num_channels=6).half().factor.dtype == torch.float32


@pytest.mark.parametrize("num_channels", [None, 6])
@pytest.mark.filterwarnings("ignore:.*has seen no labels yet")
def test_shapes_are_found_on_the_meta_device(num_channels):
    layer = printed2d(2, num_classes=3, num_channels=num_channels, device="meta")
    x = torch.empty(2, 6, 6, 6, device="meta")
    assert layer.eval()(x).shape == (2, 6, 3, 3)
    with mp.supervise(torch.tensor([0, 1])):
        out = layer.train()(x)
    assert out.shape == (2, 6, 3, 3)
    assert out.is_meta
    assert layer.factor.is_meta


def test_a_layer_on_the_meta_device_takes_a_state_over():
    layer = taught()
    other = printed2d(2, num_classes=3, num_channels=6, device="meta", dtype=torch.float64).eval()
    other.load_state_dict(layer.state_dict(), assign=True)
    assert torch.equal(other(X), layer(X))


def test_reset_forgets_what_was_learned_and_keeps_the_channels():
    layer = taught()
    layer.reset()
    assert (layer.num_channels, layer.steps, layer.informed) == (6, 0, False)
    assert not any(tensor.any() for tensor in layer.state_dict().values())


def test_a_memory_puts_everything_back():
    layer, new = taught(), fresh()
    before = snapshot(layer)
    memories = [layer.remember(), new.remember()]
    for pool in (layer, new):
        with mp.supervise(labelled()[1]):
            pool.train()(labelled(seed=5)[0])
    assert not same(snapshot(layer), before)
    for put_back in memories:
        put_back()
    assert same(snapshot(layer), before)
    assert new.num_channels is None
    assert new.state_dict() == {}


def test_a_frozen_state_pools_and_does_not_learn():
    layer = taught()
    frozen = {name: tensor for name, tensor in layer.state_dict().items() if not name.startswith("statistics.")}
    other = fresh()
    other.load_state_dict(frozen)
    assert torch.equal(other(X), layer(X))
    with mp.supervise(torch.tensor([0, 1])):
        assert torch.equal(other.train()(X), layer(X))
    assert torch.equal(other.train()(X), layer(X))  # and without labels it is as silent
    assert other.frozen


def test_a_state_that_learns_thaws_a_frozen_layer():
    layer, other = taught(), mp.freeze(taught(seed=3))
    other.load_state_dict(layer.state_dict())
    assert not other.frozen
    for pool in (layer, other):
        with mp.supervise(labelled()[1]):
            pool.train()(labelled(seed=7)[0])
    assert same(snapshot(other), snapshot(layer))


@pytest.mark.parametrize("options", [{}, {"assignment": "lines"}, {"criterion": "information"}])
def test_a_layer_first_run_in_inference_mode_can_be_trained(options):
    model = nn.Sequential(nn.Conv2d(1, 6, 3), mp.MultipartitePool2d(2, num_classes=3, **options))
    x, labels = torch.rand(12, 1, 8, 8), torch.arange(12) % 3
    with torch.inference_mode(), pytest.warns(UserWarning, match="has seen no labels yet"):
        model.eval()(x)
    with mp.supervise(labels):
        model.train()(x).sum().backward()
    assert model[1].updates == 1
    with torch.inference_mode():
        mp.fit(model, [(x, labels)])
    with mp.supervise(labels):
        model.train()(x).sum().backward()


def test_what_one_process_has_seen_since_the_last_refit_is_part_of_the_state():
    layer, other = taught(), fresh()
    x, labels = labelled(seed=3)
    layer.pending = Pending(layer.statistics.empty().update(x, labels), kept=0.9, turns=2)
    state = layer.state_dict()
    assert not any(name.startswith("pending") for name, _ in layer.named_buffers())  # which DDP would copy around
    other.load_state_dict(state)
    layer.double()  # moving a layer loses nothing either
    for pool in (layer, other):
        assert (pool.pending.kept, pool.pending.turns, pool.pending.missing) == (0.9, 2, 0)
        assert pool.join()
        assert pool.pending is None
    assert same(snapshot(other), snapshot(layer))
    expected = taught().statistics.decay(0.1).update(x, labels)
    torch.testing.assert_close(layer.statistics.scatter, expected.scatter)
