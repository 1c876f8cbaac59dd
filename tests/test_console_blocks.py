"""Every command that README and docs show: its options and names are known, and it runs, with less to do.

The console blocks of all pages are found here. A block is run in a folder of its own, its commands in their order, in
this process where no shell is needed. What is left to a person is `by_hand`, and nothing else.
"""

import functools
import gzip
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import distributed
import numpy as np
import pytest
import typer
from PIL import Image
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from command_line import run_words, shrink_bench
from multipartite import cli
from multipartite.experiments.compare import make_grid
from multipartite.experiments.data.catalogue import CATALOGUE, origins
from multipartite.experiments.data.source import data_folder, missing
from multipartite.experiments.run.config import RunConfig

ROOT = Path(__file__).parent.parent
SHELL = "|*$<>&;"  # what needs one
SMALLER = {  # what is added, where: of options that are given twice, the last one counts
    r"multipartite compare ": "--seeds 1 --epochs 1 --limit 200 --jobs 1",
    r"multipartite train ": "--epochs 1 --limit 200",
    r"multipartite tune ": "--epochs 3 --limit 200 --budget 0.1 --jobs 1",
    r"(compare|train) cifar10": "--network zeiler:width=8",
    r"compare cifar100": "--limit 2000",  # of a hundred classes, validation wants as many images
    r"--cluster": "--poolings max,average",
}
SERVER = ["--host", "127.0.0.1", "--no-dashboard"]


class Block(NamedTuple):
    """The lines of a console block, and the modules that its page shows before."""

    page: str
    number: int
    lines: tuple[str, ...]
    modules: dict[str, str]

    @property
    def commands(self):
        """Commands without prompt and comment."""
        return [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in self.lines]


def read_blocks(page, text):
    """Find the console blocks of a page."""
    found, modules = [], {}
    for fence in re.finditer(r"^```(console|python)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        kind, body = fence.groups()
        if kind == "console":
            found.append(Block(page, text[: fence.start()].count("\n") + 1, tuple(body.splitlines()), dict(modules)))
        elif name := re.match(r"# (\w+\.py)\n", body):
            modules[name[1]] = body
    return found


PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}
BLOCKS = [block for page in sorted(PAGES) for block in read_blocks(page, PAGES[page])]


def by_hand(command):
    """Whether a command sets up an environment (the tests run in one) or needs several machines."""
    return command.split()[0] in {"make", "pip", "torchrun"}


def words_of(command):
    """What the program is told, wherever in the line it stands."""
    return shlex.split(re.split(r"(?:^|\s)(?:multipartite|\$\(which multipartite\))\s", command, maxsplit=1)[1])


COMMANDS = [command for block in BLOCKS for command in block.commands if "multipartite" in command]


@pytest.fixture(scope="module")
def belongings(tmp_path_factory):
    """What the commands speak of: a table, images, the results."""
    place = tmp_path_factory.mktemp("belongings")
    flowers = load_iris(as_frame=True).frame.rename(columns={"target": "species"})
    flowers.to_csv(place / "flowers.csv", index=False)
    (place / "flowers.tsv.gz").write_bytes(gzip.compress(flowers.to_csv(sep="\t", index=False).encode()))
    random = np.random.default_rng(0)
    for name in ("left", "right"):
        (place / "my-images" / name).mkdir(parents=True)
        for i in range(150):
            Image.fromarray(random.integers(0, 255, (16, 16), np.uint8)).save(place / "my-images" / name / f"{i}.png")
    return [*place.iterdir(), ROOT / "results"]


@pytest.fixture
def folder(tmp_path, monkeypatch, belongings):
    """A working folder with all of them."""
    monkeypatch.chdir(tmp_path)
    for path in belongings:
        Path(path.name).symlink_to(path)
    return tmp_path


# The rules


def test_the_blocks_of_every_page_are_found():
    assert {block.page for block in BLOCKS} == {page for page, text in PAGES.items() if "```console" in text}
    assert len(BLOCKS) == sum(text.count("```console") for text in PAGES.values()) >= 10
    assert all(line.startswith("$ ") for block in BLOCKS for line in block.lines)


def test_what_is_left_to_a_person_is_no_command_of_ours():
    assert by_hand("pip install '.[experiments]'")
    assert by_hand("torchrun --nnodes 2 $(which multipartite) train digits")
    for command in ("multipartite data list", "zcat a.gz | multipartite rank -", "multipartite train ./pip"):
        assert not by_hand(command)
    assert {c.split()[0] for c in COMMANDS if by_hand(c)} == {"torchrun"}
    assert sum(not by_hand(c) for c in COMMANDS) >= 20


def test_comments_are_no_part_of_a_command_and_pipes_are():
    (block,) = read_blocks("a.md", "x\n```console\n$ zcat a | multipartite rank - --top 3   # why\n```\n")
    assert (block.number, block.commands) == (2, ["zcat a | multipartite rank - --top 3"])
    assert words_of(block.commands[0]) == ["rank", "-", "--top", "3"]


# What they show


@pytest.fixture
def parse(monkeypatch):
    """Parse words as the command line does; gives the arguments of the command, which is not run."""
    app = typer.Typer()
    cli.register(app)
    told = []
    groups = [app, *(group.typer_instance for group in app.registered_groups)]
    for command in (command for group in groups for command in group.registered_commands):
        deaf = functools.wraps(command.callback)(lambda **arguments: told.append(arguments))
        monkeypatch.setattr(command, "callback", deaf)

    def parse(words):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        return told[-1]

    return parse


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_options_and_names_are_known(parse, folder, command):
    modules = {name for block in BLOCKS for name in block.modules}
    told = parse(words_of(command))
    if told.get("dataset") and not any(f"{Path(name).stem}:" in command for name in modules):
        choices = {name: told[name] for name in ("dataset", "network")}
        if "poolings" in told:
            make_grid(**choices, poolings=told["poolings"])
        else:
            RunConfig(**choices, pooling=told["pooling"])


def test_an_unknown_option_is_found(parse):
    with pytest.raises(AssertionError, match="No such option"):
        parse(["train", "digits", "--pool", "max"])


def absent(block):
    """Data sets that a block names and that are not there."""
    words = {word for command in block.commands for word in command.split() if word in CATALOGUE}
    wanted = [CATALOGUE[word] for word in sorted(words)]
    return [s.name for s in wanted if any(missing(origin, data_folder(None)) for origin in origins(s))]


def smaller(command):
    """The same command with less to do; a run that goes on is left as it is."""
    if "--resume" in command:
        return command
    return " ".join([command, *(options for pattern, options in SMALLER.items() if re.search(pattern, command))])


def run(command, *, alone):
    """Run a command line, in this process where that is the same; gives its status and what it said."""
    if not (alone or "--devices" in command or set(command) & set(SHELL)):
        status, _, said = run_words(*words_of(command))
        return status, said
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    line = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(line, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr


@pytest.fixture
def here(folder):
    """Start servers in the background; gives how a line reads on this machine, with a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    started = []

    def here(command):
        command = command.replace("HOST:8786", address).replace("/shared/", f"{folder}/shared/")
        if not command.startswith("dask "):
            return command
        words = [*command.split(), *SERVER, *(["--port", address.split(":")[1]] if "scheduler" in command else [])]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen([sys.executable, "-m", *words], **quiet))
        if "worker" in command:
            with distributed.Client(f"tcp://{address}", timeout=60) as client:
                client.wait_for_workers(1, timeout=60)
        return None

    yield here
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=[f"{block.page}:{block.number}" for block in BLOCKS])
def test_what_a_block_shows_runs(block, folder, here, monkeypatch):
    if lacking := absent(block):
        pytest.skip(f"there is no {', '.join(lacking)}: set MULTIPARTITE_DATA")
    for name, text in block.modules.items():
        Path(name).write_text(text)
    shrink_bench(monkeypatch)
    for command in block.commands:
        if not by_hand(command) and (line := here(smaller(command))):
            status, said = run(line, alone=bool(block.modules))  # the script itself must find modules here
            assert status == 0, f"{command}: {said}"
