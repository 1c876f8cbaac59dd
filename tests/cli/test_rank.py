"""`multipartite rank`: the same ranking as the function, told to people and to programs."""

import errno
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import warnings

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import multipartite as mp
from multipartite import cli
from multipartite.criteria import for_columns


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process; gives the exit status, the output and the errors."""

    def run(line):
        monkeypatch.setattr("sys.argv", shlex.split(line))
        monkeypatch.setattr(cli, "app", cli.typer.Typer(add_completion=False, rich_markup_mode=None))
        cli.app.callback()(lambda: None)
        try:
            cli.main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def iris(tmp_path, monkeypatch):
    """The flowers as a table, also as iris.csv and iris.parquet in the working folder."""
    monkeypatch.chdir(tmp_path)
    flowers = load_iris(as_frame=True)
    table = flowers.data.assign(species=flowers.target_names[flowers.target])
    table.to_csv("iris.csv", index=False)
    table.to_parquet("iris.parquet")
    return table


def test_piped_output_is_tab_separated_and_agrees_with_the_function(run, iris):
    status, output, _ = run("multipartite rank iris.csv --target species")
    rows = [line.split("\t") for line in output.splitlines()]
    X = iris.drop(columns="species")
    order, scores = mp.rank_features(X.to_numpy(copy=True), iris["species"].to_numpy())
    assert status == 0
    assert rows[0] == ["rank", "column", "score"]
    assert [row[1] for row in rows[1:]] == X.columns[order].tolist()
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], scores[order])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_json_obeys_every_option(run, iris, suffix):
    options = "--criterion bhattacharyya --top 2 --correlation-weight 1 --distance-weight 3 --variance-floor 0.3"
    _, output, _ = run(f"multipartite rank iris.{suffix} --target species --json {options}")
    X, y = iris.drop(columns="species").to_numpy(copy=True), iris["species"].to_numpy()
    chosen = {"correlation_weight": 1, "distance_weight": 3, "variance_floor": 0.3}
    order, scores = mp.rank_features(X, y, "bhattacharyya", top=2, **chosen)
    best, second = order
    expected = [(1, iris.columns[best], scores[best]), (2, iris.columns[second], scores[second])]
    expected = [(place, column, pytest.approx(score, rel=1e-12)) for place, column, score in expected]
    assert [tuple(row.values()) for row in json.loads(output)] == expected
    assert order.tolist() != mp.rank_features(X, y, "bhattacharyya", top=2).order.tolist()


def test_terminal_shows_a_table_and_takes_no_name_for_markup(run, iris, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    iris.rename(columns={"petal length (cm)": "[red]petal[/red]"}).to_csv("iris.csv", index=False)
    _, output, _ = run("multipartite rank iris.csv --target species --top 2 --variance-floor 0")
    assert "\t" not in output
    assert re.search(r"1\s+\[red\]petal\[/red\]\s+242\.1", output)


@pytest.mark.parametrize(
    ("name", "separator", "options"),
    [
        ("iris.tsv", "\t", ""),
        ("iris.TAB", "\t", ""),
        ("iris.csv.gz", ",", ""),
        ("iris.tsv.xz", "\t", ""),
        ("iris.csv", ";", "--separator ';'"),
        ("iris.txt", "\t", "--separator tab"),
        ("iris", "\t", r"--separator '\t'"),
    ],
)
def test_text_comes_with_any_separator_and_compression(run, iris, name, separator, options):
    wanted = run("multipartite rank iris.parquet --target species")
    iris.to_csv(name, index=False, sep=separator)
    assert wanted[0] == 0
    assert run(f"multipartite rank {name} --target species {options}") == wanted


def test_standard_input_is_a_table_too(iris, tmp_path):
    command = [sys.executable, "-c", "from multipartite.cli import main; main()", "rank", "--target", "species"]
    line, rows = [*command, "-"], (tmp_path / "iris.csv").read_bytes()
    answers = [
        subprocess.run(words, input=rows, capture_output=True, check=True) for words in (line, [*command, "iris.csv"])
    ]
    assert answers[0].stdout == answers[1].stdout
    assert answers[0].stdout.count(b"\n") == 5
    broken = subprocess.run(line, input=b"a,b\n1,2\n", capture_output=True, check=False)
    assert b"standard input has no column 'species'" in broken.stderr


def test_rows_that_lack_something_are_counted_and_dropped_when_asked(run, iris):
    holes = iris.copy()
    holes.iloc[[3, 4], 1] = np.nan
    holes.iloc[[4, 60], 2] = np.inf
    holes.loc[[4, 9], "species"] = None
    holes.to_csv("holes.csv", index=False)
    iris.drop(index=[3, 4, 9, 60]).to_csv("whole.csv", index=False)
    wanted = run("multipartite rank whole.csv --target species")
    status, output, errors = run("multipartite rank holes.csv --target species --missing drop")
    assert (status, output) == wanted[:2]
    assert errors == (
        "multipartite: holes.csv lacks the species of 2 of its 150 rows and has NaN or inf in columns "
        "sepal width (cm), petal length (cm), in 3 of its 150 rows; left out 4, 146 remain\n"
    )
    assert run("multipartite rank whole.csv --target species --missing drop") == wanted  # and no word


def test_plot_shows_a_bar_a_column(run, iris, tmp_path):
    assert run("multipartite rank iris.csv --target species --plot bars.png")[0] == 0
    assert run("multipartite rank iris.csv --target species --top 1 --plot one.svg")[0] == 0
    blue = np.abs(matplotlib.image.imread("bars.png")[..., :3] - [0x3B / 255, 0x6E / 255, 0xA5 / 255]).max(-1) < 0.01
    widths = blue.sum(1)
    starts = np.flatnonzero((widths[1:] > 0) & (widths[:-1] == 0))
    assert len(starts) == 4
    assert widths[starts + 5].tolist() == sorted(widths[starts + 5], reverse=True)
    assert b"<svg" in (tmp_path / "one.svg").read_bytes()


def test_a_plot_that_cannot_be_written_is_one_sentence(run, iris, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", refuse)
    status, _, error = run("multipartite rank iris.csv --target species --plot bars.png")
    assert status == 2
    assert error == "multipartite: bars.png cannot be written (No space left on device)\n"


def test_the_help_names_every_criterion(run):
    help_text = " ".join(run("multipartite rank --help")[1].split())
    *names, last = for_columns()
    assert f"{', '.join(names)} or {last}." in help_text


def test_plot_takes_names_in_any_script(run, iris):
    iris.rename(columns={"petal length (cm)": "\u82b1\u74e3\u957f"}).to_csv("iris.csv", index=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no font on this machine can draw")  # where none is installed
        status, _, error = run("multipartite rank iris.csv --target species --plot bars.png")
    assert (status, error) == (0, "")


def test_columns_of_text_are_left_out_when_asked(run, iris):
    iris.assign(colour="blue", fresh=True).to_csv("iris.csv", index=False)
    status, output, _ = run("multipartite rank iris.csv --target species --ignore-text")
    assert status == 0
    assert "colour" not in output
    assert "fresh" in output


def test_example_in_the_help_runs(run, iris):
    status, output, _ = run("multipartite rank --help")
    example = re.search(r"Example: (.+)", output)[1]
    assert status == 0
    status, output, _ = run(example)
    assert status == 0
    assert len(output.splitlines()) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("nowhere.csv --target species", "there is no file nowhere.csv"),
        (
            "iris.txt --target species",
            "FILE must end in .csv, .tsv or .parquet, or come with a --separator, got iris.txt",
        ),
        ("nowhere.txt --target species --separator tab", "there is no file nowhere.txt"),
        ("iris.parquet --target species --separator ';'", "--separator is for text: iris.parquet has none"),
        ("points.csv --target species", "tell with --separator what stands between the columns"),
        ("headers.csv --target species", "headers.csv has a line of headers and no rows"),
        ("holes.csv --target species --missing drop", "in 150 of its 150 rows: no row is left"),
        ("half.csv.gz --target species", "cannot read half.csv.gz: "),
        ("other.csv.gz --target species", "cannot read other.csv.gz: "),
        (
            "iris.csv --target 'petal width (cm)' --ignore-text",
            "--target petal width (cm) must be classes, got a continuous",
        ),
        ("iris.csv --target specis", "no column 'specis' to use as target: did you mean species?"),
        ("wide.csv --target feature7x", "did you mean feature7 or"),
        ("iris.csv --target species --criterion kll", "unknown criterion 'kll': did you mean kl? known: kl, "),
        ("text.csv --target species", "columns that are not numbers: colour, shape; leave them out with"),
        ("only.csv --target species --ignore-text", "no column of numbers to rank"),
        (
            "nan.csv --target species",
            "NaN or inf in column petal width (cm), in 1 of its 150 rows: leave them out with",
        ),
        (
            "gap.csv --target species",
            "gap.csv lacks the species of 2 of its 150 rows: leave them out with --missing drop",
        ),
        ("gap.parquet --target year", "gap.parquet lacks the year of 1 of its 3 rows"),
        ("one.csv --target species", "need at least two classes"),
        ("row.csv --target species", "need at least two rows"),
        ("empty.csv --target species", "cannot read empty.csv: No columns to parse"),
        ("broken.parquet --target species", "cannot read broken.parquet: "),
        ("iris.csv --target species --plot bars.gif", "--plot must end in .png, .pdf, .svg"),
        ("iris.csv --target species --plot nowhere/bars.png", "there is no folder nowhere"),
        ("iris.csv --target species --correlation-weight 2", "correlation_weight must lie in [0, 1]"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(run, iris, tmp_path, options, message):
    iris.assign(colour="blue", shape="round").to_csv("text.csv", index=False)
    iris[["species"]].assign(colour="blue").to_csv("only.csv", index=False)
    iris.assign(**{"petal width (cm)": [np.nan, *iris.iloc[1:, 3]]}).to_csv("nan.csv", index=False)
    iris.assign(species=[None, None, *iris.species[2:]]).to_csv("gap.csv", index=False)
    pd.DataFrame({"x": [1, 2, 3], "year": pd.array([1, 2, None], dtype="Int64")}).to_parquet("gap.parquet")
    iris[:20].to_csv("one.csv", index=False)
    iris[:1].to_csv("row.csv", index=False)
    pd.DataFrame(0, index=[0], columns=[f"feature{j}" for j in range(100)]).to_csv("wide.csv", index=False)
    iris.to_csv("points.csv", index=False, sep=";")
    iris[:0].to_csv("headers.csv", index=False)
    iris.assign(**{"petal width (cm)": np.nan}).to_csv("holes.csv", index=False)
    (tmp_path / "half.csv.gz").write_bytes(gzip.compress((tmp_path / "iris.csv").read_bytes())[:500])
    (tmp_path / "other.csv.gz").write_bytes((tmp_path / "iris.csv").read_bytes())
    (tmp_path / "empty.csv").touch()
    (tmp_path / "broken.parquet").write_bytes(b"not a table")
    before = set(tmp_path.iterdir())
    status, output, errors = run(f"multipartite rank {options}")
    assert status == 2
    assert output == ""
    assert errors.startswith("multipartite: ")
    assert message in errors
    assert errors.count("\n") == 1
    assert len(errors) < 250
    assert set(tmp_path.iterdir()) == before
