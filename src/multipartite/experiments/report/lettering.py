"""Letters of any script in pictures: fonts of this machine that have them, or else a plain word in their place."""

from __future__ import annotations

import contextlib
import functools
import logging
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator

__all__ = ["columns", "fonts_for", "lettering"]

# Tried first, so that names in Chinese, Japanese and Korean look of a piece; after them whatever is there.
_COMMON = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC", "Source Han Sans SC",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Microsoft YaHei", "SimHei", "PingFang SC", "Heiti SC",
    "Hiragino Sans", "Yu Gothic", "Malgun Gothic", "Apple SD Gothic Neo", "Arial Unicode MS",
)  # fmt: skip


@contextlib.contextmanager
def lettering(texts: Iterable[str]) -> Iterator[Callable[..., str]]:
    """Let matplotlib, inside, draw with fonts that have the letters of `texts`.

    Parameters
    ----------
    texts : iterable of str
        What is going to be drawn.

    Yields
    ------
    callable
        ``legible(text, otherwise)`` gives the text, or `otherwise` where no font of this machine can draw it; without
        `otherwise`, the text with a question mark for each letter that is not to be had. A warning says so.

    Examples
    --------
    >>> with lettering(["cat", "dog"]) as legible:
    ...     legible("cat", "class 0")
    'cat'
    """
    from matplotlib import rc_context

    families, missing = fonts_for(texts)
    if missing:
        letters = ", ".join(sorted(missing)[:5]) + (", ..." if len(missing) > 5 else "")
        warnings.warn(
            f"no font on this machine can draw {letters}: names that have them are shown by other words; "
            "install a font that does, such as Noto Sans CJK",
            stacklevel=4,
        )
    with rc_context({"font.family": families}):
        yield functools.partial(_legible, missing)


def _legible(missing: frozenset[str], text: str, otherwise: str | None = None) -> str:
    if not missing & set(text):
        return text
    return "".join("?" if letter in missing else letter for letter in text) if otherwise is None else otherwise


def columns(text: str) -> int:
    """Count the columns that a text fills: letters of Chinese, Japanese and Korean fill two.

    Examples
    --------
    >>> columns("cat"), columns("猫")
    (3, 2)
    """
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def fonts_for(texts: Iterable[str]) -> tuple[list[str], frozenset[str]]:
    """Find fonts for all letters of `texts`: the usual one, and those that have what it lacks.

    Returns
    -------
    families : list of str
        For ``font.family``: matplotlib looks a letter up in one after the other.
    missing : frozenset of str
        Letters that no font has.

    Examples
    --------
    >>> fonts_for(["plain words"])
    (['sans-serif'], frozenset())
    """
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, fontManager

    families = list(rcParams["font.family"])
    missing = {letter for text in texts for letter in text if letter.isprintable() and not letter.isspace()}
    missing -= _letters(str(fontManager.findfont(FontProperties())))
    for family, path in _candidates() if missing else ():
        if found := missing & _letters(path):
            families.append(family)
            missing -= found
            # Most of these come in one weight; matplotlib would say so for every text that wants another.
            logging.getLogger("matplotlib.font_manager").addFilter(_no_word_on_weights)
        if not missing:
            break
    return families, frozenset(missing)


def _no_word_on_weights(record: logging.LogRecord) -> bool:
    return "Failed to find font weight" not in record.getMessage()


def _candidates() -> Iterator[tuple[str, str]]:
    """Give family and file of the fonts that matplotlib knows, then of those that came since it looked."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.name: str(font.fname) for font in fontManager.ttflist if not font.name.startswith("Last Resort")}
    for family in sorted(known, key=lambda name: _COMMON.index(name) if name in _COMMON else len(_COMMON)):
        yield family, known[family]
    listed = {str(font.fname) for font in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - listed):
        with contextlib.suppress(OSError, RuntimeError):  # not every file that looks like a font is one
            before = len(fontManager.ttflist)
            fontManager.addfont(path)
            yield fontManager.ttflist[before].name, path


@functools.cache
def _letters(path: str) -> frozenset[str]:
    """Letters that a font file has."""
    from matplotlib.font_manager import get_font

    try:
        return frozenset(map(chr, get_font(path).get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()
