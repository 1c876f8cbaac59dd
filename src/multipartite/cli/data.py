"""``multipartite data``: which data sets there are, where their files lie, and getting them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from multipartite.cli._table import show

__all__ = ["register"]

data = typer.Typer(
    help="List the data sets, download them, say where they lie.\n\nExample: multipartite data list",
    no_args_is_help=True,
)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the files lie, or go; else MULTIPARTITE_DATA, else the user's cache."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Attach the command and its sub-commands."""
    app.add_typer(data, name="data")


@data.command("list")
def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets and whether their files are there.

    Example: multipartite data list
    """
    from multipartite.experiments.data.files import data_folder, missing
    from multipartite.experiments.data.registry import SOURCES

    folder = data_folder(data_dir)
    rows = [
        {
            "name": source.name,
            "images": "x".join(map(str, source.shape)),
            "classes": len(source.class_names),
            "train": source.sizes[0],
            "test": source.sizes[1],
            "files": "missing" if missing(source, folder) else "there" if source.files else "built in",
            "summary": source.summary,
        }
        for source in SOURCES.values()
    ]
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
    from multipartite.experiments.data.files import data_folder, read_checked
    from multipartite.experiments.data.registry import find

    sources = [find(name) for name in names]  # a wrong name is found before anything is downloaded
    folder = data_folder(data_dir)
    for source in sources:
        came = download(source, folder)
        read_checked(source, folder)
        if not source.files:
            typer.echo(f"{source.name}: built in, there is nothing to get")
        else:
            typer.echo(f"{source.name}: {len(source.files)} files right, {len(came)} of them new, under {folder}")


@data.command()
def where(
    name: Annotated[str | None, typer.Argument(help="A data set; without it, the data folder.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Say where data sets are looked for, or where each file of one is.

    Example: multipartite data where mnist
    """
    from multipartite.experiments.data.files import data_folder
    from multipartite.experiments.data.registry import find

    folder = data_folder(data_dir)
    if name is None:
        typer.echo(json.dumps({"folder": str(folder)}) if as_json else str(folder))
        return
    source = find(name)
    rows = [
        {
            "file": str(folder / path),
            "state": "there" if (folder / path).is_file() else "missing",
            "sha256": sha256,
        }
        for path, sha256 in source.files.items()
    ]
    if not rows and not as_json:
        typer.echo(f"{name}: built in, it has no files")
    else:
        show(rows, as_json=as_json)
