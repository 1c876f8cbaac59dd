"""Words: how a layer or a network is asked for in one line, ``name:option=value,...``; read once, written one way.

Nothing here imports torch, so that a mistyped word is answered at once.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from multipartite.errors import InputError

__all__ = ["Places", "Word"]


@dataclass(frozen=True)
class Word:
    """A name, or a reference ``package.module:attribute``, with options in alphabetical order.

    Examples
    --------
    >>> word = Word.parse("multipartite:groups=4,assignment=stochastic,temperature=inf")
    >>> word.name, dict(word.options)
    ('multipartite', {'assignment': 'stochastic', 'groups': 4, 'temperature': inf})
    >>> str(word)
    'multipartite:assignment=stochastic,groups=4,temperature=inf'
    >>> Word.parse("my.layers:Pool:power=3").name
    'my.layers:Pool'
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, **options: Any) -> Word:
        """Put a word together."""
        return cls(name, tuple(sorted(options.items())))

    @classmethod
    def parse(cls, text: str) -> Word:
        """Read a word; values are Python literals, or else words."""
        if "|" in text:
            raise InputError(f"one word is wanted here, not one a place, got {text!r}")
        name, _, rest = text.strip().partition(":")
        attribute, _, more = rest.partition(":")
        if attribute and "=" not in attribute and "," not in attribute:  # a reference to somebody's own
            name, rest = f"{name}:{attribute.strip()}", more
        options: dict[str, Any] = {}
        for item in filter(None, rest.split(",")):
            key, equals, value = item.partition("=")
            if not equals:
                raise InputError(f"options read name:option=value,..., got {item!r} in {text!r}")
            if key.strip() in options:
                raise InputError(f"option {key.strip()!r} is given twice in {text!r}")
            options[key.strip()] = _literal(value.strip())
        return cls.of(name, **options)

    @property
    def slug(self) -> str:
        """The word as a part of a path."""
        return _slug(str(self))

    def __str__(self) -> str:
        return f"{self.name}:{','.join(f'{k}={v}' for k, v in self.options)}" if self.options else self.name


@dataclass(frozen=True)
class Places:
    """Which pooling goes into which place of a network: one word for all, or ``word|word|...``, one a place.

    Examples
    --------
    >>> places = Places.parse("max|multipartite:focus=0.5,assignment=lines")
    >>> str(places), str(places.at(0, of=2))
    ('max|multipartite:assignment=lines,focus=0.5', 'max')
    >>> str(Places.parse("max").at(2, of=3))
    'max'
    """

    words: tuple[Word, ...]

    @classmethod
    def parse(cls, text: str) -> Places:
        """Read the words of all places."""
        words = tuple(Word.parse(part) for part in text.split("|"))
        if not all(word.name for word in words):
            raise InputError(f"a pooling has a name in every place, word|word|..., got {text!r}")
        return cls(words[:1] if len(set(words)) == 1 else words)

    @classmethod
    def split(cls, text: str) -> tuple[Places, ...]:
        """Split a list at its commas, but not at those between the options of one word.

        Examples
        --------
        >>> [str(places) for places in Places.split("max,multipartite:groups=2,temperature=inf,average")]
        ['max', 'multipartite:groups=2,temperature=inf', 'average']
        """
        found: list[str] = []
        for item in filter(None, (item.strip() for item in text.split(","))):
            if found and ":" in found[-1] and "=" in item and ":" not in item.partition("=")[0]:
                found[-1] += f",{item}"
            else:
                found.append(item)
        return tuple(map(cls.parse, found))

    def at(self, place: int, *, of: int) -> Word:
        """Give the word of one of the `of` places of a network."""
        if len(self.words) not in (1, of):
            raise InputError(f"{str(self)!r} has words for {len(self.words)} places, there are {of}")
        return self.words[place if len(self.words) > 1 else 0]

    @property
    def slug(self) -> str:
        """The words as a part of a path."""
        return _slug(str(self))

    def __str__(self) -> str:
        return "|".join(map(str, self.words))


def _slug(text: str) -> str:
    return re.sub(r"[^\w.=+-]+", "-", text.replace("|", "+"))


def _literal(value: str) -> Any:
    if value in ("inf", "-inf", "nan"):
        return float(value)
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
