"""``multipartite data``: which data sets there are, where their files lie, and getting them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from multipartite.cli._table import show
from multipartite.cli.options import DataDir, Json

if TYPE_CHECKING:
    from multipartite.experiments.data.source import Source

__all__ = ["register"]

data = typer.Typer(
    help="List the data sets, download them, say where they lie.\n\nExample: multipartite data list",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Attach the command and its sub-commands."""
    app.add_typer(data, name="data")


@data.command("list")
def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets and whether their files are there.

    Example: multipartite data list
    """
    from multipartite.experiments.data.catalogue import CATALOGUE, origins
    from multipartite.experiments.data.source import Source, data_folder, missing

    folder = data_folder(data_dir)
    rows = []
    for source in CATALOGUE.values():
        if not isinstance(source, Source):
            continue  # a function of somebody's own: what it gives is known once it has run
        files = [path for origin in origins(source) for path in origin.files]
        absent = any(missing(origin, folder) for origin in origins(source))
        rows.append(
            {
                "name": source.name,
                "images": "x".join(map(str, source.shape)),
                "classes": len(source.class_names),
                "train": source.sizes[0],
                "test": source.sizes[1],
                "files": "missing" if absent else "there" if files else "built in",
                "summary": source.summary,
            }
        )
    show(rows, as_json=as_json)


@data.command()
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets of `multipartite data list`.")],
    data_dir: DataDir = None,
) -> None:
    """Download data sets and check every file by its SHA-256; what is there is only checked.

    Example: multipartite data get digits
    """
    from multipartite.experiments.data.download import get as download
    from multipartite.experiments.data.source import data_folder, read_checked

    wanted = {name: _origins(name) for name in names}  # a wrong name is found before anything is downloaded
    folder = data_folder(data_dir)
    for name, origins in wanted.items():
        came = [path for origin in origins for path in download(origin, folder)]
        files = [path for origin in origins for path in read_checked(origin, folder)]
        if not files:
            typer.echo(f"{name}: built in, there is nothing to get")
        else:
            typer.echo(f"{name}: {len(files)} files right, {len(came)} of them new, under {folder}")


@data.command()
def where(
    name: Annotated[str | None, typer.Argument(help="A data set; without it, the data folder.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Say where data sets are looked for, or where each file of one is.

    Example: multipartite data where mnist
    """
    from multipartite.experiments.data.source import data_folder

    folder = data_folder(data_dir)
    if name is None:
        typer.echo(json.dumps({"folder": str(folder)}) if as_json else str(folder))
        return
    rows = [
        {
            "file": str(folder / path),
            "state": "there" if (folder / path).is_file() else "missing",
            "sha256": sha256,
        }
        for origin in _origins(name)
        for path, sha256 in origin.files.items()
    ]
    if not rows and not as_json:
        typer.echo(f"{name}: built in, it has no files")
    else:
        show(rows, as_json=as_json)


def _origins(name: str) -> list[Source]:
    """Give the data sets whose files the named one needs; a function of somebody's own has none that we know of."""
    from multipartite.experiments.data.catalogue import find, origins
    from multipartite.experiments.data.source import Source

    found = find(name)
    return origins(found) if isinstance(found, Source) else []
