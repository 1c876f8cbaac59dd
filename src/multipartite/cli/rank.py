"""``multipartite rank``: which columns of a table tell the classes apart."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipartite.cli._table import show
from multipartite.errors import InputError, suggest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["register"]

_PICTURES = (".png", ".pdf", ".svg")


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command()(rank)


def rank(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .csv or .parquet file, a row an instance.")],
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
    plot: Annotated[Path | None, typer.Option(help="Draw the scores to this .png, .pdf or .svg file.")] = None,
    ignore_text: Annotated[bool, typer.Option("--ignore-text", help="Leave columns of text out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rank the columns of a table by how well they tell the classes apart (Eq. 2 of the paper).

    Prints a table in a terminal, tab-separated values where the output is piped. The score is that of the column
    on its own; the weights change the order alone.

    Example: multipartite rank iris.csv --target species --top 3
    """
    if plot is not None:
        _check_picture(plot)
    table = _read(file)
    if target not in table.columns:
        raise InputError(f"{file} has no column {target!r} to use as target: {_nearest(target, table)}")
    if missing := int(table[target].isna().sum()):
        raise InputError(f"{file} lacks the {target} of {missing} of its {len(table)} rows: drop these rows")
    features = _numbers(table.drop(columns=target), file, ignore_text=ignore_text)

    from multipartite._validation import check_finite
    from multipartite.ranking import rank_features

    X = features.to_numpy(dtype=float, na_value=float("nan"), copy=True)
    check_finite(X, list(features.columns))
    order, scores = rank_features(
        X,
        table[target].to_numpy(),
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


def _read(file: Path) -> pd.DataFrame:
    import pandas as pd

    readers: dict[str, Callable[[Path], pd.DataFrame]] = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    if file.suffix not in readers:
        raise InputError(f"FILE must end in {' or '.join(readers)}, got {file}")
    if not file.is_file():
        raise InputError(f"there is no file {file}")
    try:
        table = readers[file.suffix](file)
    except (ValueError, OSError) as error:  # what pandas and pyarrow say of a broken file
        raise InputError(f"cannot read {file}: {str(error).splitlines()[0]}") from error
    table.columns = table.columns.map(str)
    return table


def _nearest(target: str, table: pd.DataFrame) -> str:
    names = list(table.columns)
    if len(names) > 20:  # all of them would be no help
        names = difflib.get_close_matches(target, names, n=5, cutoff=0.0)
    return suggest(target, names)


def _numbers(table: pd.DataFrame, file: Path, *, ignore_text: bool) -> pd.DataFrame:
    """Columns of numbers; the others are an error, or left out if that is wished."""
    numbers = table.select_dtypes(["number", "bool"])
    text = [str(name) for name in table.columns if name not in numbers.columns]
    if text and not ignore_text:
        listed = ", ".join(text[:5]) + (f" and {len(text) - 5} more" if len(text) > 5 else "")
        raise InputError(f"{file} has columns that are not numbers: {listed}; leave them out with --ignore-text")
    if numbers.shape[1] == 0:
        raise InputError(f"{file} has no column of numbers to rank besides the target")
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
    figure.savefig(plot, dpi=150)
