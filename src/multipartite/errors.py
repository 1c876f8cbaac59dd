"""What users are told: one exception for bad input, what was meant, and warnings at the line that matters."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

__all__ = ["InputError", "MultipartiteWarning", "counted", "sentence", "suggest", "unknown", "warn"]

# Between a user's line and ours: those who call what they were given
_PASSED_OVER = frozenset({"multipartite", "torch", "sklearn", "joblib", "lightning", "accelerate", "transformers"})


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


class MultipartiteWarning(UserWarning):
    """What this package warns of; the command line says it in one sentence."""


def warn(message: str, category: type[Warning] = MultipartiteWarning) -> None:
    """Warn at the line of the user's that led here.

    That is the innermost call which is neither in this package nor in a library that calls it for the user, as torch
    calls a layer. Where there is none, it is the outermost.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("nothing was learned")
    >>> caught[0].message
    MultipartiteWarning('nothing was learned')
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})  # which tells what was said already
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=registry,
    )


def counted(count: int, thing: str) -> str:
    """Say how many there are.

    Examples
    --------
    >>> counted(1, "epoch"), counted(20, "epoch")
    ('1 epoch', '20 epochs')
    """
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
