"""Bad input is one exception, whose message helps."""

import pytest

from multipartite.errors import InputError, suggest, unknown


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
