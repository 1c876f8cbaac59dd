"""Networks: shapes over sizes and poolings, and weights that depend on the seed alone."""

import pytest
import torch
from torch import nn

from multipartite import pooling
from multipartite.errors import InputError
from multipartite.experiments.run import networks
from multipartite.experiments.run.checkpoint import digest


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


@pytest.mark.parametrize("network", ["lenet", "zeiler:width=4"])
def test_initial_weights_depend_on_the_seed_and_not_on_the_pooling(network):
    def weights(word, seed):
        torch.manual_seed(torch.randint(1000, ()).item())  # whatever was drawn before must not matter
        return digest(dict(build(network, pooling_word=word, seed=seed).named_parameters()))

    assert len({weights(word, 3) for word in pooling.available()}) == 1
    assert weights("max", 3) != weights("max", 4)


def test_building_leaves_the_caller_s_random_numbers_alone():
    before = torch.get_rng_state()
    build()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("channels", "size", "name"),
    [(1, (28, 28), "lenet"), (3, (32, 32), "zeiler"), (1, (8, 8), "small"), (3, (9, 30), "small")],
)
def test_auto_chooses_by_the_images(channels, size, name):
    assert networks.parse("auto", channels, size)[0] == name


@pytest.mark.parametrize(
    ("word", "changes", "message"),
    [
        ("lenett", {}, "unknown network 'lenett': did you mean lenet"),
        ("zeiler:wide=3", {}, "unknown option of network 'zeiler': 'wide'.*width"),
        ("zeiler:width=many", {}, "width of network 'zeiler' must be a whole number of maps from 2, got 'many'"),
        ("lenet", {"size": (15, 15)}, "'lenet' needs images of at least 16 x 16 pixels, got 15 x 15"),
        ("lenet", {"num_classes": 1}, "at least 2 classes"),
        ("lenet", {"pooling_word": "max:return_indices=True"}, "pooling 'max:return_indices=True' does not work"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(word, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        build(word, **changes)
    assert "\n" not in str(caught.value)
