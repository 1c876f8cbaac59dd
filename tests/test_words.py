"""Words: read once, written one way."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipartite.errors import InputError
from multipartite.words import Places, Word


def test_values_are_literals_or_words():
    assert Word.parse("max") == Word("max")
    word = Word.parse("multipartite: groups = 4 , criterion=kl,max_rows=None,temperature=inf")
    assert dict(word.options) == {"groups": 4, "criterion": "kl", "max_rows": None, "temperature": math.inf}


def test_two_spellings_of_one_setting_are_one_word():
    one, two = (Word.parse(f"multipartite:{o}") for o in ("temperature=2,groups=2", "groups=2,temperature=2"))
    assert one == two
    assert (str(one), one.slug) == ("multipartite:groups=2,temperature=2", "multipartite-groups=2-temperature=2")


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
VALUES = st.one_of(st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False), NAMES)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=4))
def test_what_is_written_is_read_back(name, options):
    word = Word.of(name, **{key: None if value in ("inf", "nan") else value for key, value in options.items()})
    assert Word.parse(str(word)) == word


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_is_read_back(value):
    assert Word.parse(str(Word.of("multipartite", temperature=value))).options == (("temperature", value),)


def test_a_reference_may_carry_options():
    assert Word.parse("my.layers:Pool") == Word("my.layers:Pool")
    assert Word.parse("layers:Pool:power=3,size=2") == Word.of("layers:Pool", power=3, size=2)


def test_an_option_needs_a_value():
    with pytest.raises(InputError, match=r"read name:option=value,..., got 'groups' in 'a:b=1,groups'"):
        Word.parse("a:b=1,groups")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max", ("max",)),
        (" max , average,", ("max", "average")),
        ("multipartite:groups=2,temperature=inf,max", ("multipartite:groups=2,temperature=inf", "max")),
        ("multipartite:groups=2,multipartite:groups=4", ("multipartite:groups=2", "multipartite:groups=4")),
        ("a:x=1,y=2|max,b|c:z=3,w=4", ("a:x=1,y=2|max", "b|c:w=4,z=3")),
        ("max,groups=2", ("max", "groups=2")),
        ("", ()),
    ],
)
def test_commas_part_poolings_but_not_options(text, expected):
    assert tuple(map(str, Places.split(text))) == expected


def test_one_word_serves_all_places_and_several_one_each():
    several = Places.parse("max|a:x=1|b")
    assert [str(several.at(i, of=3)) for i in range(3)] == ["max", "a:x=1", "b"]
    assert several.slug == "max+a-x=1+b"
    assert str(Places.parse("max|max")) == "max"
    with pytest.raises(InputError, match="has words for 3 places, there are 2"):
        several.at(0, of=2)
    with pytest.raises(InputError, match="one word is wanted here, not one a place"):
        Word.parse("max|average")
    with pytest.raises(InputError, match="option 'x' is given twice"):
        Word.parse("a:x=1,x=2")
    with pytest.raises(InputError, match="a name in every place"):
        Places.parse("max||average")
