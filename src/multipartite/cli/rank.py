"""``multipartite rank``: which columns of a table tell the classes apart."""

from __future__ import annotations

import difflib
import sys
import textwrap
import zlib
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipartite.cli import options, say
from multipartite.cli._table import show
from multipartite.errors import InputError, suggest

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

__all__ = ["register"]

_PICTURES = (".png", ".pdf", ".svg")
_PIPE = Path("-")
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_NAMED = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command()(rank)


class Missing(str, Enum):
    """What to do with rows that lack a number or a class."""

    error = "error"
    drop = "drop"


def rank(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A .csv, .tsv (also .gz) or .parquet file, a row an instance; - reads a pipe."
        ),
    ],
    target: Annotated[str, typer.Option(help="Column with the class of every row.")],
    criterion: Annotated[str, typer.Option(help="kl, ttest, bhattacharyya, information, roc or wilcoxon.")] = "kl",
    top: Annotated[int, typer.Option(min=1, help="How many columns to show.")] = 20,
    correlation_weight: Annotated[
        float, typer.Option(help="0 to 1: hold back columns that correlate with better ones.")
    ] = 0.0,
    distance_weight: Annotated[
        float, typer.Option(help="Hold back columns within about this many columns of better ones.")
    ] = 0.0,
    variance_floor: Annotated[
        float, typer.Option(help="0 to 1: the least ratio of variances that kl and bhattacharyya believe; 0 as MATLAB.")
    ] = 0.6,
    separator: Annotated[
        str | None, typer.Option(help="Between columns, such as ';' or tab; by default what the name of FILE says.")
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="Rows that lack a number or their class: an error, or dropped.")
    ] = Missing.error,
    plot: Annotated[Path | None, typer.Option(help="Draw the scores to this .png, .pdf or .svg file.")] = None,
    ignore_text: Annotated[bool, typer.Option("--ignore-text", help="Leave columns of text out.")] = False,
    as_json: options.Json = False,
) -> None:
    """Rank the columns of a table by how well they tell the classes apart (Eq. 2 of the paper).

    Prints a table in a terminal, tab-separated values where the output is piped. The score is that of the column
    on its own; the weights change the order alone.

    Example: multipartite rank iris.csv --target species --top 3
    """
    if plot is not None:
        _check_picture(plot)
    table = _read(file, separator)
    name = "standard input" if file == _PIPE else str(file)
    if target not in table.columns:
        raise InputError(f"{name} has no column {target!r} to use as target: {_nearest(target, table)}")
    if len(table) == 0:
        raise InputError(f"{name} has a line of headers and no rows")
    features = _numbers(table.drop(columns=target), name, ignore_text=ignore_text)

    from multipartite._validation import check_classes
    from multipartite.ranking import rank_features

    X, y = features.to_numpy(dtype=float, na_value=float("nan")), table[target]
    kept = _complete(X, y, [str(column) for column in features.columns], name, missing)
    labels = y[kept].to_numpy()
    check_classes(labels, f"--target {target}")
    order, scores = rank_features(
        X[kept],
        labels,
        criterion,
        correlation_weight=correlation_weight,
        distance_weight=distance_weight,
        top=min(top, X.shape[1]),
        variance_floor=variance_floor,
    )
    rows = [
        {"rank": place, "column": str(features.columns[j]), "score": float(scores[j])}
        for place, j in enumerate(order, 1)
    ]
    if plot is not None:
        _draw(rows, f"{criterion}, summed over the classes of {target}", plot)
    show(rows, as_json=as_json)


def _read(file: Path, separator: str | None) -> pd.DataFrame:
    """Read a table as the suffix of its name says, with or without a suffix of compression before it."""
    import pandas as pd

    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if separator is None:
        separator = "," if file == _PIPE else _SEPARATORS.get(suffix)
    elif suffix == ".parquet":
        raise InputError(f"--separator is for text: {file} has none")
    if separator is None and suffix != ".parquet":
        raise InputError(f"FILE must end in .csv, .tsv or .parquet, or come with a --separator, got {file}")
    if file != _PIPE and not file.exists():
        raise InputError(f"there is no file {file}")
    try:
        if suffix == ".parquet":
            table = pd.read_parquet(file)
        else:
            source = sys.stdin.buffer if file == _PIPE else file
            table = pd.read_csv(source, sep=_NAMED.get(str(separator), str(separator)))
    except (ValueError, OSError, EOFError, zlib.error) as error:  # what pandas and pyarrow say of a broken file
        raise InputError(f"cannot read {file}: {str(error).splitlines()[0]}") from error
    table.columns = table.columns.map(str)
    return table


def _complete(X: npt.NDArray[Any], y: pd.Series[Any], columns: list[str], name: str, missing: Missing) -> Any:
    """Which rows lack nothing; the others are an error, or counted where they may be left out."""
    import numpy as np

    classless, broken = y.isna().to_numpy(), ~np.isfinite(X)
    kept = ~(classless | broken.any(axis=1))
    if kept.all():
        return kept
    found = []
    if classless.any():
        found.append(f"lacks the {y.name} of {classless.sum()} of its {len(y)} rows")
    if broken.any():
        holes = [columns[j] for j in np.flatnonzero(broken.any(axis=0))]
        listed = ", ".join(holes[:5]) + (f" and {len(holes) - 5} more" if len(holes) > 5 else "")
        plural = "s" if len(holes) > 1 else ""
        found.append(f"has NaN or inf in column{plural} {listed}, in {broken.any(axis=1).sum()} of its {len(y)} rows")
    sentence = f"{name} {' and '.join(found)}"
    if missing is Missing.error:
        raise InputError(f"{sentence}: leave them out with --missing drop")
    if not kept.any():
        raise InputError(f"{sentence}: no row is left")
    say(f"{sentence}; left out {(~kept).sum()}, {kept.sum()} remain")
    return kept


def _nearest(target: str, table: pd.DataFrame) -> str:
    names = list(table.columns)
    if len(names) == 1 and target in names[0]:  # all columns in one
        return f"its only column is {names[0]!r}; tell with --separator what stands between the columns"
    if len(names) > 20:  # all of them would be no help
        names = difflib.get_close_matches(target, names, n=5, cutoff=0.0)
    return suggest(target, names)


def _numbers(table: pd.DataFrame, name: str, *, ignore_text: bool) -> pd.DataFrame:
    """Columns of numbers; the others are an error, or left out if that is wished."""
    numbers = table.select_dtypes(["number", "bool"])
    text = [str(column) for column in table.columns if column not in numbers.columns]
    if text and not ignore_text:
        listed = ", ".join(text[:5]) + (f" and {len(text) - 5} more" if len(text) > 5 else "")
        raise InputError(f"{name} has columns that are not numbers: {listed}; leave them out with --ignore-text")
    if numbers.shape[1] == 0:
        raise InputError(f"{name} has no column of numbers to rank besides the target")
    return numbers


def _check_picture(plot: Path) -> None:
    if plot.suffix not in _PICTURES:
        raise InputError(f"--plot must end in {', '.join(_PICTURES)}, got {plot}")
    if not plot.parent.is_dir():
        raise InputError(f"--plot {plot}: there is no folder {plot.parent}")


def _draw(rows: list[dict[str, Any]], label: str, plot: Path) -> None:
    from matplotlib.figure import Figure

    from multipartite.experiments.report.lettering import columns, lettering

    names = [textwrap.shorten(row["column"], 60, placeholder="...") for row in rows]
    size = (6 + 0.05 * max(map(columns, names)), 1.2 + 0.28 * len(rows))
    with lettering([label, *names]) as legible:
        figure = Figure(figsize=size, layout="constrained")  # without pyplot: no display is needed
        axes = figure.subplots()
        axes.barh(range(len(rows)), [row["score"] for row in rows], color="#3b6ea5")
        axes.set_yticks(range(len(rows)), [legible(name) for name in names], parse_math=False)
        axes.invert_yaxis()
        axes.margins(y=0.02)
        axes.set_xlabel(legible(label), parse_math=False)
        axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(plot, dpi=150)
    except OSError as error:
        raise InputError(f"{plot} cannot be written ({error.strerror or error})") from error
