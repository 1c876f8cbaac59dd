"""One name for every pooling."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from windows import LAYERS, STOCHASTIC, activations

import multipartite as mp
from multipartite.errors import InputError
from multipartite.pooling import available, create, parse

TORCH = {"average": (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d), "max": (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)}


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", available())
def test_a_network_is_written_once_for_all_poolings(name, dims):
    pool = create(name, 3, 2, 1, num_classes=4, dims=dims)
    kind = {"multipartite": LAYERS[dims], "stochastic": STOCHASTIC[dims]}.get(name) or TORCH[name][dims - 1]
    assert type(pool) is kind
    x = activations(2, 4, *[7] * dims, nonnegative=True)
    with mp.supervise(torch.tensor([0, 3])):
        assert pool(x).shape == (2, 4, *[4] * dims)


def test_options_come_in_the_name_or_as_keywords_and_keywords_win():
    pool = create("multipartite:groups=4,assignment=stochastic,temperature=inf", 2, num_classes=3, groups=2)
    assert (pool.groups, pool.assignment, pool.temperature, pool.num_classes) == (2, "stochastic", math.inf, 3)
    assert create("max:ceil_mode=True", 2, num_classes=3).ceil_mode is True


def test_words_are_read_as_literals():
    assert parse("max") == ("max", {})
    assert parse("multipartite: groups = 4 , criterion=kl,max_rows=None") == (
        "multipartite",
        {"groups": 4, "criterion": "kl", "max_rows": None},
    )


@pytest.mark.parametrize(
    ("word", "options", "message"),
    [
        ("maxx", {}, "unknown pooling 'maxx': did you mean max\\? known: average, max, multipartite, stochastic"),
        (
            "multipartite:group=2",
            {},
            "unknown option of pooling 'multipartite': 'group': did you mean groups\\? known: .*criterion",
        ),
        ("average", {"groups": 2}, "unknown option of pooling 'average': 'groups'.*known: .*ceil_mode"),
        ("multipartite:groups", {}, "read name:option=value,..., got 'groups'"),
        ("max", {"dims": 4}, "dims must be 1, 2 or 3, got 4"),
    ],
)
def test_bad_words_are_refused(word, options, message):
    with pytest.raises(InputError, match=message):
        create(word, 2, num_classes=3, **options)
