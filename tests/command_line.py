"""Run the command line inside the test process, where torch is imported already."""

import contextlib
import io
import re
import shlex
import sys
from unittest import mock

from multipartite import cli
from multipartite.bench import layers, networks


def run_words(*words):
    """Exit status, standard output and standard error of ``multipartite words...``."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        mock.patch.object(sys, "argv", ["multipartite", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
    return status, out.getvalue(), err.getvalue()


def run_example(command):
    """Run the example in the help of a command."""
    _, text, _ = run_words(command, "--help")
    example = re.search(r"Example:\s+multipartite\s+(.*)\Z", text, re.DOTALL).group(1)
    return run_words(*shlex.split(example))


def shrink_bench(monkeypatch):
    """Leave ``multipartite bench`` as it is, on cases that take no time."""
    case = layers.Case((2, 4, 6, 6), 2, 2, 3)
    monkeypatch.setattr(layers, "CASES", dict.fromkeys(("paper", "deep"), case))
    monkeypatch.setattr(networks, "measure", lambda network, seconds: iter([]))
