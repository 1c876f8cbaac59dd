"""``multipartite bench``: what the layer costs, as ratios to max pooling."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from multipartite.cli._table import show
from multipartite.cli.options import Json
from multipartite.errors import InputError

__all__ = ["register"]

_AGAIN = 2  # times: on a machine that others share a row may take 25% longer in one run, but not in three


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite bench --quick")(bench)


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and rounds: about a minute.")] = False,
    as_json: Json = False,
    threads: Annotated[int | None, typer.Option(min=1, help="torch threads; as torch chooses by default.")] = None,
    growth: Annotated[bool, typer.Option("--growth", help="How cost grows, instead of the cases.")] = False,
    check: Annotated[
        Path | None, typer.Option(help="Compare with this record and exit with 1 where something got slower.")
    ] = None,
) -> None:
    """Time pooling layers and networks: medians of interleaved rounds in one process, ratios to max pooling."""
    import torch

    if check is not None and not check.is_file():
        raise InputError(f"there is no record at {check}: write one with multipartite bench --json > {check}")
    if threads is not None:
        torch.set_num_threads(threads)
    results = _results(quick=quick, growth=growth)
    if as_json:
        print(json.dumps(results, indent=1))
    else:
        facts = results["machine"]
        kernel = "with" if facts["kernel"] else "without"
        where = f"{facts['versions']['platform']}, torch {facts['versions']['torch']}"
        print(f"{facts['threads']} threads, {kernel} the compiled kernel, {where}")
        for part in ("layers", "networks", "growth"):
            if results.get(part):
                show([_rounded(row) for row in results[part]])
    if check is not None:
        _check(results, json.loads(check.read_text()), lambda: _results(quick=quick, growth=growth))


def _results(*, quick: bool, growth: bool) -> dict[str, Any]:
    import torch

    from multipartite.bench import layers, networks
    from multipartite.bench.growth import SWEEPS, measure_growth
    from multipartite.experiments.run.store import versions
    from multipartite.pooling import native

    facts = {"threads": torch.get_num_threads(), "kernel": native.available(), "versions": versions()}
    results: dict[str, Any] = {"machine": facts}
    seconds = 0.5 if quick else 3.0
    if growth:
        results["growth"] = [row for sweep in SWEEPS for row in measure_growth(sweep, seconds=seconds)]
        return results
    cases = ["paper", "deep"] if quick else list(layers.CASES)
    results["layers"] = [
        row
        for name in cases
        for last in (False, True)
        for row in layers.measure(layers.CASES[name], channels_last=last, seconds=seconds, others=not quick)
    ]
    results["networks"] = [
        row
        for network in (["lenet"] if quick else networks.NETWORKS)
        for row in networks.measure(network, seconds=10 * seconds)
    ]
    return results


def _check(now: dict[str, Any], before: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> None:
    """Exit with 1 where something got slower: what seems so is measured again, and told where it is so every time."""
    from multipartite.bench.guard import slower

    def found(results: dict[str, Any]) -> dict[str, str]:
        parts = (slower(results[part], before.get(part, [])) for part in ("layers", "networks"))
        return {name: line for part in parts for name, line in part.items()}

    said = found(now)
    for _ in range(_AGAIN):
        if said:
            print(f"{len(said)} seem slower: measuring again", file=sys.stderr)
            once_more = found(measure())
            said = {name: once_more[name] for name in said if name in once_more}
    for name, line in said.items():
        print(f"slower: {name}: {line}", file=sys.stderr)
    if said:
        raise SystemExit(1)
    print("nothing got slower by more than 25%", file=sys.stderr)


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
