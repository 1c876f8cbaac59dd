"""The configuration: a stable key, a round trip, and bad values named."""

import dataclasses
import json

import pytest

from multipartite.errors import InputError
from multipartite.experiments.run.config import RunConfig


def test_json_round_trip_through_text():
    config = RunConfig("mnist", network="lenet", pooling="average", limit=500, lr=0.03, seed=7)
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_the_key_is_stable_across_processes_and_versions():
    assert RunConfig("digits").key == "96dcf3d35ba53fa7"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"pooling": "average"},
        {"limit": 99},
        {"lr": 0.5},
        {"epochs": 3},
        {"network": "small"},
        {"precision": "64-true"},
        {"skip_unreadable": True},
        {"augment": True},
        {"label_smoothing": 0.1},
        {"mixup": 0.2},
    ],
)
def test_the_key_changes_with_what_is_trained(change):
    assert dataclasses.replace(RunConfig(), **change).key != RunConfig().key


@pytest.mark.parametrize("change", [{"threads": 2}, {"data_dir": "there"}, {"accelerator": "cpu"}, {"devices": 2}])
def test_the_key_does_not_change_with_where_it_is_trained(change):
    assert dataclasses.replace(RunConfig(), **change).key == RunConfig().key


def test_the_order_of_a_pooling_s_options_does_not_change_the_key():
    one, two = "max:dilation=1,ceil_mode=True", "max:ceil_mode=True,dilation=1"
    assert RunConfig(pooling=one).key == RunConfig(pooling=two).key


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"validation": 1.0}, "validation must be a share from 0 to below 1, got 1.0"),
        ({"label_smoothing": 1.0}, "label_smoothing must be a share from 0 to below 1, got 1.0"),
        ({"mixup": -0.2}, "mixup must be at least 0, got -0.2"),
        ({"mixup": float("nan")}, "mixup must be at least 0, got nan"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"lr": float("nan")}, "lr must be above 0, got nan"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\)"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"schedule": "linar"}, "unknown schedule 'linar': did you mean linear"),
        ({"precision": "32"}, "unknown precision '32': known: 32-true"),
        ({"batch_size": 101, "devices": 2}, "must divide evenly among 2 devices"),
        ({"network": "zeilr"}, "did you mean zeiler"),
        ({"pooling": "mix"}, "unknown pooling 'mix'"),
        ({"pooling": "max:dilaton=2"}, "did you mean dilation"),
    ],
)
def test_bad_values_are_named(change, message):
    with pytest.raises(InputError, match=message):
        RunConfig(**change)


def test_an_entry_from_another_version_is_named():
    with pytest.raises(InputError, match="unknown entry of a run's configuration: 'warmup'"):
        RunConfig.from_json({"warmup": 3})


def test_a_run_with_somebody_s_own_pooling_is_read_without_it_and_not_trained():
    values = {**RunConfig().to_json(), "pooling": "swirl:turns=3", "network": "theirs.nets:build"}
    config = RunConfig.from_json(values)
    assert config.to_json() == values
    assert len(config.key) == 16
    with pytest.raises(InputError, match=r"network 'theirs\.nets:build'"):
        dataclasses.replace(config, seed=1)


def test_the_recipe_of_the_network_gives_way_to_what_is_set():
    recipe = RunConfig(network="lenet", lr=0.3).recipe(1, (28, 28))
    assert (recipe.lr, recipe.momentum) == (0.3, 0.9)
