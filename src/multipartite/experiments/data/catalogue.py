"""The catalogue: from a name to a data set, for what comes with the project, for a folder, and for everybody's own.

Nothing here imports torch until images are loaded: a mistyped name is answered at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from multipartite.errors import InputError, unknown
from multipartite.experiments.data.made import MADE
from multipartite.experiments.data.official import OFFICIAL
from multipartite.experiments.data.source import Parts, Source, cure, data_folder, missing, read_checked
from multipartite.registry import Registry, refer

if TYPE_CHECKING:
    from multipartite.experiments.data.dataset import Dataset

__all__ = ["CATALOGUE", "Loader", "available", "check_name", "find", "load", "origins", "register"]

Loader: TypeAlias = "Callable[[Path, int], Dataset]"  # from the data folder and a seed

CATALOGUE: Registry[Source | Loader] = Registry("data set", {source.name: source for source in (*OFFICIAL, *MADE)})


def available() -> list[str]:
    """Names of the data sets.

    Examples
    --------
    >>> available()[:3]
    ['digits', 'mnist', 'fashion-mnist']
    """
    return list(CATALOGUE)


def register(name: str, source: Source | Loader) -> None:
    """Add a data set of one's own, by the name that it is then loaded and trained with.

    Parameters
    ----------
    name : str
        A new name.
    source : Source or callable
        What its files are and how they are read; or a function of the data folder and a seed that returns a
        :class:`~multipartite.experiments.data.Dataset`.

    Examples
    --------
    >>> def evens(folder, seed):
    ...     digits = load("digits")
    ...     keep = [digits.train.labels % 2 == 0, digits.test.labels % 2 == 0]
    ...     return replace(digits, name="evens", train=digits.train.take(keep[0]), test=digits.test.take(keep[1]))
    >>> register("evens", evens)
    >>> load("evens")
    Dataset evens: 10 classes, images 1x8x8, 713 train, 0 validation, 178 test
    """
    CATALOGUE.add(name, replace(source, name=name) if isinstance(source, Source) else source)


def find(name: str) -> Source | Loader:
    """Look a data set up by its name, or as ``package.module:attribute``; an unknown name is an error.

    Examples
    --------
    >>> find("mnist").shape
    (1, 28, 28)
    """
    if ":" not in name:
        return CATALOGUE[name]
    made = refer(name, "data set", CATALOGUE)
    if not isinstance(made, Source) and not callable(made):
        raise InputError(
            f"data set {name!r} must be a Source or a function that gives a Dataset, got {type(made).__name__}"
        )
    return made


def origins(source: Source) -> list[Source]:
    """Give the data sets whose files a source needs: itself, or what it is made from.

    Examples
    --------
    >>> [origin.name for origin in origins(find("cluttered-mnist"))]
    ['mnist']
    """
    return [origin for made in _ingredients(source).values() for origin in origins(made)] or [source]


def check_name(name: str | os.PathLike[str]) -> None:
    """Refuse a name that :func:`load` would refuse; torch is not imported for it.

    Examples
    --------
    >>> check_name("mnits")
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: unknown data set 'mnits': did you mean mnist? known: digits, mnist, ...
    """
    _resolve(name)


def load(
    name: str | os.PathLike[str],
    data_dir: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    seed: int = 0,
    skip_unreadable: bool = False,
) -> Dataset:
    """Load a data set by name, or a folder of one's own images.

    Parameters
    ----------
    name : str or path
        A name of :func:`~multipartite.experiments.data.available`, a folder with one sub-folder a class, or
        ``package.module:attribute``, what :func:`~multipartite.experiments.data.register` takes.
    data_dir : str or path, optional
        Where the files are, or go; else ``MULTIPARTITE_DATA``, else the user's cache.
    download : bool
        Whether missing files are downloaded; else they are an error.
    seed : int
        Settles what chance decides of the images: what is made of others, and the test part of a folder. Leave it
        alone when runs of several seeds are compared: they should see the same images.
    skip_unreadable : bool
        Whether images of a folder that cannot be read are left out with a warning; else they are an error.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load("digits")
    Dataset digits: 10 classes, images 1x8x8, 1437 train, 0 validation, 360 test
    """
    if seed < 0:
        raise InputError(f"seed must be zero or more, got {seed}")
    found = _resolve(name)
    if isinstance(found, Path):
        from multipartite.experiments.data.folder import load_folder

        return load_folder(found, seed=seed, skip_unreadable=skip_unreadable)
    from multipartite.experiments.data.dataset import Dataset, Split

    if not isinstance(found, Source):
        data = found(data_folder(data_dir), seed)
        if not isinstance(data, Dataset):
            raise InputError(f"the function behind data set {name!r} must return a Dataset, got {type(data).__name__}")
        return data
    needed = [origin for origin in origins(found) if origin.files]
    folder = data_folder(data_dir) if needed else Path()
    for origin in needed:
        if absent := missing(origin, folder):
            if not download:
                raise InputError(
                    f"data set {found.name} needs {folder / absent[0]}, which is not there; run: {cure(found, folder)}"
                )
            from multipartite.experiments.data.download import get

            get(origin, folder)
    train_images, train_labels, test_images, test_labels = _arrays(found, folder, seed)
    return Dataset(
        name=found.name,
        train=Split.of(train_images, train_labels),
        test=Split.of(test_images, test_labels),
        class_names=found.class_names,
        flips=found.flips,
    )


def _resolve(name: str | os.PathLike[str]) -> Source | Loader | Path:
    """Give the entry that a name stands for, or the folder."""
    text = os.fspath(name)
    if text not in CATALOGUE and (folder := Path(text).expanduser()).is_dir():
        return folder
    if text not in CATALOGUE and ":" not in text:
        raise unknown("data set", text, [*available(), "a folder with one sub-folder of images a class"])
    return find(text)


def _arrays(source: Source, folder: Path, seed: int) -> Parts:
    """Read a data set, and first those that it is made from, out of checked files."""
    if source.made_from:
        return source.read({name: _arrays(made, folder, seed) for name, made in _ingredients(source).items()}, seed)
    return source.read(read_checked(source, folder), seed)


def _ingredients(source: Source) -> dict[str, Source]:
    """Give the data sets that a source is made from, by name."""
    found = {}
    for name in source.made_from:
        made = find(name)
        if not isinstance(made, Source):
            raise InputError(f"data set {source.name} must be made from data sets with a Source, {name} is a function")
        found[name] = made
    return found
