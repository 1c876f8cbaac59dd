"""Networks: shapes over sizes and poolings, and weights that depend on the seed alone."""

import dataclasses

import pytest
import torch
from torch import nn

from multipartite import pooling
from multipartite.errors import InputError
from multipartite.experiments.run import networks
from multipartite.experiments.run.checkpoint import digest
from multipartite.experiments.run.config import RunConfig
from multipartite.registry import registries


def build(word="lenet", **changes):
    options = {"channels": 1, "size": (28, 28), "num_classes": 10, "pooling_word": "max", "seed": 0}
    return networks.build(word, **{**options, **changes})


@pytest.mark.parametrize("word", pooling.available())
@pytest.mark.parametrize(
    ("network", "channels", "size"),
    [
        ("lenet", 1, (28, 28)),
        ("lenet", 3, (16, 40)),
        ("zeiler:width=4", 3, (32, 32)),
        ("zeiler:width=4", 1, (15, 15)),
        ("modern:width=4", 1, (8, 8)),
        ("modern:width=4", 3, (32, 32)),
        ("small", 1, (8, 8)),
        ("small", 2, (4, 4)),
    ],
)
def test_every_pooling_in_every_network_gives_one_row_of_logits_an_image(word, network, channels, size):
    net = build(network, channels=channels, size=size, num_classes=7, pooling_word=word)
    assert net.eval()(torch.rand(3, channels, *size)).shape == (3, 7)


def test_lenet_has_the_layers_of_the_paper_s_example():
    net = build()
    x = torch.rand(100, 1, 28, 28)
    shapes = {}
    for name, layer in net.named_children():
        x = layer(x)
        shapes[name] = tuple(x.shape[1:])
    assert shapes["conv1"] == (20, 24, 24)
    assert shapes["pool1"] == (20, 12, 12)
    assert shapes["conv2"] == (50, 8, 8)
    assert shapes["pool2"] == (50, 4, 4)
    assert shapes["full"] == (500,)
    assert shapes["classes"] == (10,)
    assert sum(p.numel() for p in net.parameters()) == 431080


def test_zeiler_has_three_convolutions_of_64_maps_and_overlapping_pools():
    net = build("zeiler", channels=3, size=(32, 32))
    convolutions = [m for m in net if isinstance(m, nn.Conv2d)]
    assert [(m.out_channels, m.kernel_size) for m in convolutions] == [(64, (5, 5))] * 3
    assert [(m.kernel_size, m.stride) for m in net if isinstance(m, nn.MaxPool2d)] == [(3, 2)] * 3
    assert sum(isinstance(m, nn.Linear) for m in net) == 1


def test_modern_has_three_stages_of_two_convolutions_with_batch_norm_and_a_global_head():
    net = build("modern", channels=3, size=(32, 32))
    kinds = [type(m) for m in net]
    stage = [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] * 2 + [nn.MaxPool2d]
    assert kinds == stage * 3 + [nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear]
    convolutions = [m for m in net if isinstance(m, nn.Conv2d)]
    assert [m.out_channels for m in convolutions] == [32, 32, 64, 64, 128, 128]
    assert {(m.kernel_size, m.padding, m.bias) for m in convolutions} == {((3, 3), (1, 1), None)}
    assert [(m.kernel_size, m.stride) for m in net if isinstance(m, nn.MaxPool2d)] == [(2, 2)] * 3
    assert net.classes.in_features == 128
    assert build("modern:width=8").classes.in_features == 32


@pytest.mark.parametrize("side", [8, 28, 32, 40])
def test_modern_takes_the_images_of_every_data_set(side):
    net = build("modern:width=2", channels=1, size=(side, side))
    assert net(torch.rand(2, 1, side, side)).shape == (2, 10)


def test_building_leaves_the_caller_s_random_numbers_alone():
    before = torch.get_rng_state()
    build()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("channels", "size", "name"),
    [(1, (28, 28), "lenet"), (3, (32, 32), "zeiler"), (1, (8, 8), "small"), (3, (9, 30), "small")],
)
def test_auto_chooses_by_the_images(channels, size, name):
    assert networks.resolve("auto", channels, size).name == name


@pytest.mark.parametrize(
    ("word", "changes", "message"),
    [
        ("lenett", {}, "unknown network 'lenett': did you mean lenet"),
        ("zeiler:wide=3", {}, "unknown option of network 'zeiler': 'wide'.*width"),
        ("zeiler:width=many", {}, "width of network 'zeiler' must be a whole number of maps from 2, got 'many'"),
        ("modern", {"size": (7, 7)}, "'modern' needs images of at least 8 x 8 pixels, got 7 x 7"),
        ("modern:width=1", {}, "width of network 'modern' must be a whole number of maps from 2, got 1"),
        ("lenet", {"size": (15, 15)}, "'lenet' needs images of at least 16 x 16 pixels, got 15 x 15"),
        ("lenet", {"num_classes": 1}, "at least 2 classes"),
        ("lenet", {"pooling_word": "max:return_indices=True"}, "pooling 'max:return_indices=True' does not work"),
        ("lenet", {"pooling_word": "max|max:dilation=1|average"}, "has words for 3 places, there are 2"),
        ("math:pi", {}, "network 'math:pi' must be a function that makes a module, got float"),
        ("math:tau", {}, "must be a function"),
        ("networks_of_others:plain:dept=3", {}, "did you mean depth"),
        ("networks_of_others:nothing", {}, "module networks_of_others has no 'nothing'"),
        ("networks_of_others:functional", {}, "'networks_of_others:functional' has no max pooling layer"),
        ("networks_of_others:words", {}, "must be a function that makes a module, got str"),
        ("networks_of_others:broken", {}, "does not work with images of 1 x 28 x 28: mat1 and mat2"),
        ("networks_of_others:unnamed", {}, "needs kind: write networks_of_others:unnamed:kind="),
        ("networks_of_others:headless", {}, r"must give \(N, 10\) for N images, got \(1, 8, 1, 1\)"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(word, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        build(word, **changes)
    assert "\n" not in str(caught.value)


WORDS = [*pooling.available(), "networks_of_others:Noisy", "networks_of_others:Gated"]
NETWORKS = ["lenet:width=4", "modern:width=2", "zeiler:width=4", "small"]
NETWORKS += ["networks_of_others:skipping", "networks_of_others:lazy", "networks_of_others:plain:depth=3"]


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_starts_from_the_seed_and_equal_whatever_the_pooling(network):
    """But for the weights of the poolings themselves, which some have."""

    def start(word, seed=3):
        torch.manual_seed(torch.randint(1000, ()).item())  # whatever was drawn before must not matter
        net = build(network, channels=3, size=(16, 16), pooling_word=word, seed=seed)
        return digest(networks.common_parameters(net))

    assert len({start(word) for word in WORDS}) == 1
    assert start("max", 4) != start("max", 3)


def test_weights_of_a_pooling_come_from_the_seed_and_shift_no_others():
    def gates(seed):
        net = build("lenet", pooling_word="networks_of_others:Gated", seed=seed)
        return [layer.logits.weight.detach().clone() for layer in (net.pool1, net.pool2)]

    again, other = gates(5), gates(6)
    assert all(torch.equal(a, b) for a, b in zip(gates(5), again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(again, other, strict=True))
    gated, plain = (build("lenet", pooling_word=w, seed=5) for w in ("networks_of_others:Gated", "max"))
    assert torch.equal(gated.full.weight, plain.full.weight)


def test_what_poolings_have_in_common_is_all_but_their_own_weights():
    plain, gated = (build("lenet", pooling_word=word) for word in ("max", "gated"))
    common = networks.common_parameters(gated)
    assert common.keys() == dict(plain.named_parameters()).keys()
    assert gated.pool1.mask is not None
    assert len(list(gated.parameters())) == len(common) + 2


@pytest.mark.parametrize("word", pooling.available())
def test_every_pooling_starts_from_the_seed_alone(word):
    def whole():
        torch.rand(torch.randint(9, ()).item())  # whatever was drawn before must not matter
        return digest(dict(build("small", size=(8, 8), pooling_word=word, seed=5).state_dict()))

    assert whole() == whole()


def test_places_are_counted_as_an_image_meets_them_not_as_they_are_listed_or_called():
    word = "average|networks_of_others:Noisy|stochastic"
    net = build("networks_of_others:skipping", channels=3, size=(16, 16), pooling_word=word)
    found = networks.pooling_layers(net, torch.zeros(1, 3, 16, 16))
    assert [name for name, _, _ in found] == ["stem.reduce", "blocks.0.down", "late"]
    assert [type(layer).__name__ for _, layer, _ in found] == ["AvgPool2d", "Noisy", "StochasticPool2d"]
    assert [channels for _, _, channels in found] == [8, 8, 16]
    assert isinstance(net.head[0], nn.AdaptiveAvgPool2d)  # the network's own
    assert next(m for m in net.modules() if isinstance(m, nn.Conv2d)).weight.grad is None
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_a_pooling_inside_a_pooling_is_no_place_and_modes_are_kept():
    net = build("lenet", pooling_word="networks_of_others:blurred")
    net.full.eval()
    found = networks.pooling_layers(net, torch.zeros(1, 1, 28, 28))
    assert [name for name, _, _ in found] == ["pool1", "pool2"]
    assert net.training
    assert not net.full.training


def test_sizes_of_the_pooling_s_own_reach_the_first_full_layer():
    net = build("zeiler:width=4", channels=3, size=(32, 32), pooling_word="max:ceil_mode=True")
    assert net.classes.in_features == 4 * 4 * 4
    assert build("zeiler:width=4", channels=3, size=(32, 32)).classes.in_features == 4 * 3 * 3


def test_a_network_of_one_s_own_has_a_name_a_recipe_and_a_smallest_image(monkeypatch):
    import networks_of_others as others

    for registry in registries():
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    recipe = networks.Recipe(lr=0.3, schedule="cosine")
    networks.register("mine", others.plain, recipe=recipe, smallest=12)
    assert "mine" in networks.available()
    assert RunConfig(network="mine:depth=2", lr=0.1).recipe(1, (28, 28)) == dataclasses.replace(recipe, lr=0.1)
    assert str(networks.resolve("mine")) == "mine:depth=1"
    with pytest.raises(InputError, match="'mine' needs images of at least 12 x 12"):
        build("mine", size=(8, 8))
    with pytest.raises(InputError, match="there is a network called 'mine' already"):
        networks.register("mine", others.lazy)
    with pytest.raises(InputError, match="'auto' chooses among the networks"):
        networks.register("auto", others.lazy)


def test_a_registered_network_may_draw_its_own_weights():
    net = build("networks_of_others:ENTRY", channels=1)
    assert (net[0].weight == 7.0).all()
