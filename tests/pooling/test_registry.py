"""One name for every pooling."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import multipartite as mp
from multipartite.errors import InputError
from multipartite.pooling import available, create
from multipartite.pooling.registry import POOLINGS
from windows import LAYERS, STOCHASTIC, activations

RIVALS = {"blur": "Blur", "fractional": "Fractional", "gated": "Gated", "lip": "LIP", "lp": "LP", "mixed": "Mixed"}
RIVALS |= {"s3": "S3", "softpool": "Soft", "strided": "Strided"}
TORCH = {"average": (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d), "max": (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)}


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", available())
def test_a_network_is_written_once_for_all_poolings(name, dims):
    pool = create(name, 3, 2, 1, num_classes=4, dims=dims)
    ours = {"multipartite": LAYERS, "multipartite-printed": LAYERS, "stochastic": STOCHASTIC}
    ours |= {rival: {dims: getattr(mp, f"{stem}Pool{dims}d")} for rival, stem in RIVALS.items()}
    kind = ours[name][dims] if name in ours else TORCH[name][dims - 1]
    assert type(pool) is kind
    x = activations(2, 4, *[7] * dims, nonnegative=True)
    with mp.supervise(torch.tensor([0, 3])):
        assert pool(x).shape == (2, 4, *[4] * dims)


def test_options_come_in_the_name_or_as_keywords_and_keywords_win():
    pool = create("multipartite:groups=4,assignment=stochastic,temperature=inf", 2, num_classes=3, groups=2)
    assert (pool.groups, pool.assignment, pool.temperature, pool.num_classes) == (2, "stochastic", math.inf, 3)
    assert create("max:ceil_mode=True", 2, num_classes=3).ceil_mode is True


@pytest.mark.parametrize(
    ("word", "options", "message"),
    [
        (
            "maxx",
            {},
            "unknown pooling 'maxx': did you mean max\\? known: average, .*max, .*multipartite, .*stochastic",
        ),
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


def flat(kernel_size, stride=None, padding=0, *, num_classes, power=1.0):
    """A pooling of somebody's own, for two dimensions, by reference: test_registry:flat."""
    return nn.LPPool2d(power * num_classes, kernel_size, stride)


def test_somebody_elses_pooling_may_enter_by_name_or_by_reference():
    mp.pooling.register("theirs", {1: nn.MaxPool1d, 2: nn.AvgPool2d})
    assert type(create("theirs", 2, num_classes=3)) is nn.AvgPool2d
    assert type(create("theirs:ceil_mode=True", 2, num_classes=3, dims=1)) is nn.MaxPool1d
    with pytest.raises(InputError, match="pooling 'theirs' exists in 1 or 2 dimensions, not in 3"):
        create("theirs", 2, num_classes=3, dims=3)
    POOLINGS.remove("theirs")
    made = create(f"{__name__}:flat:power=2", 2, num_classes=3)
    assert (type(made), made.norm_type) == (nn.LPPool2d, 6)
    with pytest.raises(InputError, match="exists in 2 dimensions, not in 1"):
        create(f"{__name__}:flat", 2, num_classes=3, dims=1)


def test_a_name_belongs_to_one_pooling_and_is_a_plain_word():
    with pytest.raises(InputError, match="there is a pooling called 'max' already"):
        mp.pooling.register("max", nn.AvgPool2d)
    with pytest.raises(InputError, match="must be free of"):
        mp.pooling.register("a:b", nn.AvgPool2d)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("no.such.module:Pool", "cannot be imported: No module named 'no'"),
        ("math:Pool", "is not there: module math has no 'Pool'"),
        ("math:pi", "must be a class or function that makes a layer, got float"),
    ],
)
def test_references_that_lead_nowhere_are_refused(word, message):
    with pytest.raises(InputError, match=message):
        create(word, 2, num_classes=3)


def test_the_printed_algorithm_has_a_name_of_its_own():
    pool = create("multipartite-printed:groups=2,criterion=ttest", 2, num_classes=3)
    assert (pool.gather, pool.assignment, pool.groups, pool.criterion) == (None, "hard", 2, "ttest")
    with pytest.raises(InputError, match="the printed algorithm has no choice of gather: use MultipartitePool2d"):
        create("multipartite-printed:gather=max", 2, num_classes=3)
    with pytest.raises(
        InputError, match="unknown option of pooling 'multipartite-printed': 'group': did you mean groups"
    ):
        create("multipartite-printed:group=2", 2, num_classes=3)
