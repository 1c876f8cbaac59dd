"""Write the tables of docs/performance.md from records of the bench.

::

    multipartite bench --threads 2 --json > record.json
    multipartite bench --threads 2 --growth --json > growth.json
    python benchmarks/tables.py record.json growth.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
SHORT = {
    "multipartite-printed": "printed",
    "multipartite": "draws",
    "multipartite:criterion=energy": "draws, energy",
    "multipartite:assignment=lines,focus=0.5": "lines",
    "multipartite:gather=max": "draws of maxima",
}
SWEEPS = {"pixels": "pixels an image", "channels": "channels", "classes": "classes", "window": "side of the window"}


def networks(rows: list[Row]) -> Iterator[str]:
    """Give a row a network, phase and pooling: images a second in its better layout, and the ratios in both."""
    yield "| network | | pooling | images/s | layout | ratio | in the other layout |"
    yield "|---|---|---|---:|---|---:|---:|"
    keys = dict.fromkeys((row["network"], row["phase"], row["pooling"]) for row in rows)
    for network, phase, pooling in keys:
        mine = [r for r in rows if (r["network"], r["phase"], r["pooling"]) == (network, phase, pooling)]
        best, other = sorted(mine, key=lambda row: -row["samples_per_second"])
        ratio = f"{best['speed_ratio']:.2f} ({best['speed_ratio_low']:.2f} to {best['speed_ratio_high']:.2f})"
        name, speed = f"`{pooling}`", f"{best['samples_per_second']:,.0f}"
        yield f"| {network} | {phase} | {name} | {speed} | {best['layout']} | {ratio} | {other['speed_ratio']:.2f} |"


def learning(rows: list[Row]) -> Iterator[str]:
    """Give the share of a training step that statistics and refits take."""
    yield "| network | pooling | contiguous | channels_last |"
    yield "|---|---|---:|---:|"
    shares = {(r["network"], r["pooling"], r["layout"]): r["learning_share"] for r in rows if r["phase"] == "training"}
    for network, pooling in dict.fromkeys(key[:2] for key in shares):
        both = [shares[network, pooling, layout] for layout in ("contiguous", "channels_last")]
        if max(both) > 0:
            yield f"| {network} | `{pooling}` | {both[0]:.1%} | {both[1]:.1%} |"


def layers(rows: list[Row], phase: str) -> Iterator[str]:
    """Give a row a case and layout: the time of max pooling, and the others against it."""
    names = list(dict.fromkeys(row["pooling"] for row in rows if row["phase"] == phase and row["pooling"] != "max"))
    yield f"| shape, kernel/stride, classes | layout | max, ms | {' | '.join(SHORT.get(n, n) for n in names)} |"
    yield f"|---|---|---:|{'---:|' * len(names)}"
    for case, layout in dict.fromkeys((row["case"], row["layout"]) for row in rows):
        mine = {r["pooling"]: r for r in rows if (r["case"], r["layout"], r["phase"]) == (case, layout, phase)}
        ratios = " | ".join(f"{mine[n]['ratio']:.2f}" if n in mine else "" for n in names)
        yield f"| {case} | {layout} | {mine['max']['ms']:.2f} | {ratios} |"


def growth(rows: list[Row], sweep: str) -> Iterator[str]:
    """Give a row a layout and pooling, a column a size."""
    mine = [row for row in rows if row["sweep"] == sweep]
    sizes = list(dict.fromkeys(row["at"] for row in mine))
    yield f"| {SWEEPS[sweep]} | | {' | '.join(f'{size:,}' for size in sizes)} |"
    yield f"|---|---|{'---:|' * len(sizes)}"
    for layout, pooling in dict.fromkeys((row["layout"], row["pooling"]) for row in mine):
        times = [f"{r['ms']:.2f}" for r in mine if (r["layout"], r["pooling"]) == (layout, pooling)]
        yield f"| {layout} | {SHORT.get(pooling, pooling)}, ms | {' | '.join(times)} |"


def main(*records: Path) -> None:
    for record in records:
        found = json.loads(record.read_text())
        tables = []
        if "networks" in found:
            tables += [networks(found["networks"]), learning(found["networks"])]
            phases = dict.fromkeys(row["phase"] for row in found["layers"])
            tables += [layers(found["layers"], phase) for phase in phases]
        if "growth" in found:
            tables += [growth(found["growth"], sweep) for sweep in SWEEPS]
        for table in tables:
            print(*table, sep="\n", end="\n\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
