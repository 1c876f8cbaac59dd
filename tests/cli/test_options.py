"""The options of the commands: what several share is written once, and what two take a third takes too."""

import collections
from typing import get_type_hints

import typer

from multipartite import cli
from multipartite.cli import options
from multipartite.cli.compare import compare
from multipartite.cli.train import train
from multipartite.cli.tune import tune


def callbacks(app):
    """Every function that is a command, those of groups too."""
    inside = (callback for group in app.registered_groups for callback in callbacks(group.typer_instance))
    return [*(command.callback for command in app.registered_commands), *inside]


def described(command):
    """What stands in the annotations of a command, by the name of the parameter."""
    hints = get_type_hints(command, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def test_an_option_that_commands_share_is_written_once():
    app = typer.Typer()
    cli.register(app)
    homes = collections.defaultdict(set)
    for command in callbacks(app):
        for name, option in described(command).items():
            homes[name, option.help].add(id(option))
    assert homes["as_json", options.Json.__metadata__[0].help]
    assert [name for (name, _), found in homes.items() if len(found) > 1] == []


def test_tune_trains_as_train_and_compare_do():
    shared = {name for name, option in described(train).items() if described(compare).get(name) is option}
    assert {"augment", "label_smoothing", "mixup", "skip_unreadable"} < shared
    assert {name: described(tune).get(name) for name in shared} == {name: described(train)[name] for name in shared}
