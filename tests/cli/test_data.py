import json
import re
import shlex

import pytest

from data_files import Server, lay_out, official, register
from multipartite import cli

COLUMNS = ["name", "images", "classes", "train", "test", "files", "summary"]


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process; gives the exit status, the output and the errors."""

    def run(line):
        monkeypatch.setattr("sys.argv", shlex.split(line))
        monkeypatch.setattr(cli, "app", cli.typer.Typer(**OPTIONS))
        try:
            cli.main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        return status, *capsys.readouterr()

    return run


OPTIONS = {"no_args_is_help": True, "add_completion": False, "rich_markup_mode": None}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIPARTITE_DATA", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


def test_list_is_tab_separated_when_piped(run, folder, monkeypatch):
    lay_out("cifar10", folder, monkeypatch)
    status, output, _ = run("multipartite data list")
    rows = [line.split("\t") for line in output.splitlines()]
    assert status == 0
    assert rows[0] == COLUMNS
    assert [row[0] for row in rows[1:4]] == ["digits", "mnist", "fashion-mnist"]
    files = {row[0]: row[5] for row in rows[1:]}
    assert files["digits"] == "built in"
    assert files["mnist"] == "missing"
    assert files["cifar10"] == "there"


def test_list_is_a_table_in_a_terminal(run, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    _, output, _ = run("multipartite data list")
    assert "\t" not in output
    assert re.search(r"cifar100\s+3x32x32\s+100\s+50000\s+10000\s+missing", output)


def test_list_as_json(run):
    rows = json.loads(run("multipartite data list --json")[1])
    assert list(rows[0]) == COLUMNS
    assert {row["name"]: row["classes"] for row in rows}["cifar100"] == 100


def test_get_downloads_and_then_only_checks(run, folder, monkeypatch):
    blobs = official("mnist")
    with Server({path.rpartition("/")[2]: blob for path, blob in blobs.items()}) as server:
        register("mnist", blobs, monkeypatch, mirrors=(server.url,))
        first, again = run("multipartite data get mnist"), run("multipartite data get mnist digits")
        assert len(server.asked) == 4
    assert first == (0, f"mnist: 4 files right, 4 of them new, under {folder}\n", "")
    assert again[1].splitlines() == [
        f"mnist: 4 files right, 0 of them new, under {folder}",
        "digits: built in, there is nothing to get",
    ]


def test_a_made_data_set_has_the_files_of_what_it_is_made_from(run, folder, monkeypatch):
    def state():
        rows = json.loads(run("multipartite data list --json")[1])
        return {row["name"]: row["files"] for row in rows}["background-mnist"]

    lay_out("mnist", folder, monkeypatch)
    assert state() == "missing"
    blobs = official("cifar10")
    with Server({path.rpartition("/")[2]: blob for path, blob in blobs.items()}) as server:
        register("cifar10", blobs, monkeypatch, mirrors=(server.url,), archive=None)
        got = run("multipartite data get background-mnist")
    assert got == (0, f"background-mnist: 10 files right, 6 of them new, under {folder}\n", "")
    assert state() == "there"
    rows = json.loads(run("multipartite data where background-mnist --json")[1])
    assert {row["state"] for row in rows} == {"there"}
    assert len(rows) == 10


def test_get_refuses_an_altered_file(run, folder, monkeypatch):
    lay_out("svhn", folder, monkeypatch)
    (folder / "svhn/test_32x32.mat").write_bytes(b"x")
    status, output, error = run("multipartite data get svhn")
    assert (status, output) == (2, "")
    assert error.startswith(f"multipartite: {folder}/svhn/test_32x32.mat is truncated or altered")
    assert error.count("\n") == 1


def test_an_unknown_name_stops_before_any_download(run, folder):
    status, _, error = run("multipartite data get svhn cifer10")
    assert status == 2
    assert "unknown data set 'cifer10': did you mean cifar10" in error
    assert list(folder.iterdir()) == []


def test_where_names_the_folder(run, folder, tmp_path):
    assert run("multipartite data where") == (0, f"{folder}\n", "")
    assert run("multipartite data where --data-dir /other")[1] == "/other\n"
    assert json.loads(run("multipartite data where --json")[1]) == {"folder": str(folder)}


def test_where_names_the_files_of_a_data_set(run, folder, monkeypatch):
    source = lay_out("svhn", folder, monkeypatch)
    (folder / "svhn/test_32x32.mat").unlink()
    rows = json.loads(run("multipartite data where svhn --json")[1])
    assert [row["state"] for row in rows] == ["there", "missing"]
    assert [row["file"] for row in rows] == [str(folder / path) for path in source.files]
    lines = run("multipartite data where svhn")[1].splitlines()
    assert lines[0].split("\t") == ["file", "state", "sha256"]
    assert run("multipartite data where digits")[1] == "digits: built in, it has no files\n"
    assert json.loads(run("multipartite data where digits --json")[1]) == []


@pytest.mark.parametrize("command", ["data", "data list", "data get", "data where"])
def test_the_example_of_the_help_works(run, command):
    status, output, _ = run(f"multipartite {command} --help")
    (example,) = re.findall(r"Example: (multipartite .*)", output)
    assert status == 0
    assert example.startswith(f"multipartite {command}")
    assert run(example)[0] == 0
