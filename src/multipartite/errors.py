"""One exception for bad input, and how its messages suggest what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["InputError", "sentence", "suggest", "unknown"]


class InputError(ValueError):
    """What a user gave cannot be used; the message says what, why and what to do.

    The command line prints it as one sentence and exits with status 2.
    """


def suggest(name: str, known: Iterable[str]) -> str:
    """Say which known names come nearest to `name`, or list them all.

    Examples
    --------
    >>> suggest("wilcoxn", ["kl", "roc", "wilcoxon"])
    'did you mean wilcoxon? known: kl, roc, wilcoxon'
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}known: {', '.join(known) or 'none'}"


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """Build the error for an option that is not in its registry.

    Examples
    --------
    >>> str(unknown("criterion", "kll", ["kl", "roc"]))
    "unknown criterion 'kll': did you mean kl? known: kl, roc"
    """
    return InputError(f"unknown {kind} {name!r}: {suggest(str(name), known)}")


def sentence(error: OSError) -> str:
    """Say what the system refused, without its number.

    Examples
    --------
    >>> sentence(PermissionError(13, "Permission denied", "out/report"))
    'out/report cannot be used (Permission denied)'
    """
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename} cannot be used ({reason})"
