"""Bad input is one exception, whose message helps."""

import inspect
import warnings

import pytest
from torch import nn

from multipartite.errors import InputError, suggest, unknown, warn


def test_is_a_value_error():
    with pytest.raises(ValueError, match="why"):
        raise InputError("why")


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("stochstic", ["max", "stochastic"], "did you mean stochastic? known: max, stochastic"),
        ("xyz", ["max", "stochastic"], "known: max, stochastic"),
        ("bat", ["cat", "hat"], "did you mean hat or cat? known: cat, hat"),
        ("max", [], "known: none"),
        ("max", iter(["maxi"]), "did you mean maxi? known: maxi"),
    ],
)
def test_suggests_the_nearest_names(name, known, message):
    assert suggest(name, known) == message


def test_unknown_options_name_what_came():
    error = unknown("pooling", "maxx", ["max"])
    assert isinstance(error, InputError)
    assert str(error) == "unknown pooling 'maxx': did you mean max? known: max"
    assert str(unknown("pooling", None, ["max"])) == "unknown pooling None: known: max"


def inside(module, text):
    """A function as if it were defined in a module of that name."""
    space = {"__name__": module, "warn": warn, "nn": nn}
    exec(text, space)
    return space


def line_of(text):
    """Number of the line of the calling test that holds `text`."""
    frame = inspect.currentframe().f_back
    lines, first = inspect.getsourcelines(frame.f_code)
    return next(first + i for i, line in enumerate(lines) if text in line)


def test_warnings_point_at_the_line_of_the_user_through_those_who_call_for_them():
    ours = inside(
        "multipartite.pooling.layer",
        "class Layer(nn.Module):\n    def forward(self, x):\n        warn('no labels')\n        return x",
    )
    model = nn.Sequential(nn.Sequential(ours["Layer"]()))
    with pytest.warns(UserWarning, match="no labels") as caught:
        model(1)
    assert (caught[0].filename, caught[0].lineno) == (__file__, line_of("model(1)"))


def test_warnings_of_a_kind_point_at_the_innermost_line_that_is_not_ours():
    ours = inside("multipartite.ranking", "def f():\n    warn('odd', DeprecationWarning)\n\ndef g():\n    f()")
    theirs = inside("theirs", "def h(g):\n    g()")
    with pytest.warns(DeprecationWarning, match="odd") as caught:
        theirs["h"](ours["g"])
    assert (caught[0].filename, caught[0].lineno) == ("<string>", 2)


def test_the_same_line_is_warned_of_once_by_default(recwarn):
    warnings.simplefilter("default")
    for _ in range(3):
        inside("multipartite.ranking", "def f():\n    warn('often')")["f"]()
    assert len(recwarn) == 1
