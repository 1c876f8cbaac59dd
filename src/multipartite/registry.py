"""Registries: every family of options is one, open to what others add, and to ``package.module:name`` unadded."""

from __future__ import annotations

import importlib
import operator
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from multipartite.errors import InputError, unknown

__all__ = ["Entries", "Registry", "added", "refer", "registries", "take_over"]

T = TypeVar("T")
Entries: TypeAlias = dict[str, dict[str, Any]]  # by kind and name

_REGISTRIES: dict[str, Registry[Any]] = {}
_WAITING: Entries = {}  # for registries whose modules are not imported yet


class Registry(Mapping[str, T], Generic[T]):
    """Entries by name; an unknown name is an error that suggests the nearest.

    Parameters
    ----------
    kind : str
        What an entry is, for messages: "pooling".
    entries : mapping of str to entry
        What is there from the start.

    Examples
    --------
    >>> colours = Registry("colour", {"red": 1})
    >>> colours.add("blue", 2)
    >>> colours["blue"], list(colours)
    (2, ['red', 'blue'])
    >>> colours["rad"]
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: unknown colour 'rad': did you mean red? known: red, blue
    """

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        self.kind = kind
        self._entries = {**entries, **_WAITING.pop(kind, {})}
        self._own = frozenset(entries)
        _REGISTRIES[kind] = self

    def add(self, name: str, entry: T) -> None:
        """Enter something under a name that nothing else has."""
        if not name or set(name) & set(":,|= "):
            raise InputError(f"the name of a {self.kind} must be free of ':', ',', '|', '=' and spaces, got {name!r}")
        if self._entries.get(name, entry) != entry:
            raise InputError(f"there is a {self.kind} called {name!r} already: choose another name")
        self._entries[name] = entry

    def remove(self, name: str) -> None:
        """Take an entry out again."""
        del self._entries[name]

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def registries() -> list[Registry[Any]]:
    """Give every registry that there is so far."""
    return list(_REGISTRIES.values())


def added() -> Entries:
    """Give what was added to all registries: a process that starts another hands it on.

    Examples
    --------
    >>> colours = Registry("colour", {"red": 1})
    >>> colours.add("blue", 2)
    >>> added()["colour"]
    {'blue': 2}
    """
    return {
        kind: {name: entry for name, entry in registry._entries.items() if name not in registry._own}
        for kind, registry in _REGISTRIES.items()
    }


def take_over(entries: Entries) -> None:
    """Enter what another process had :func:`added`.

    Examples
    --------
    >>> take_over({"tree": {"oak": 1}})
    >>> list(Registry("tree", {"elm": 0}))
    ['elm', 'oak']
    """
    for kind, found in entries.items():
        if kind in _REGISTRIES:
            _REGISTRIES[kind]._entries |= found
        else:
            _WAITING.setdefault(kind, {}).update(found)


def refer(reference: str, kind: str, known: Mapping[str, Any]) -> Any:
    """Import what ``package.module:attribute`` names, as a word may do instead of a registered name.

    Examples
    --------
    >>> refer("math:pi", "number", {})
    3.141592653589793
    """
    module, _, attribute = reference.partition(":")
    if module in known:
        raise InputError(f"options of a {kind} read name:option=value,..., got {attribute!r} in {reference!r}")
    if not module or not attribute:
        raise InputError(f"a {kind} of one's own reads package.module:attribute, got {reference!r}")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # a command does not look where one stands, as python does
    try:
        return operator.attrgetter(attribute)(importlib.import_module(module))
    except ImportError as error:
        raise InputError(f"{kind} {reference!r} cannot be imported: {error}") from error
    except AttributeError:
        raise InputError(f"{kind} {reference!r} is not there: module {module} has no {attribute!r}") from None
