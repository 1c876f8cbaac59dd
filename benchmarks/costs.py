"""What each pooling of the arena costs in a network, as in README's first table: ``python benchmarks/costs.py``.

The time of training and of evaluating the network with it, as a multiple of that with max pooling, each in its best
memory layout: medians of steps in turn in one process, 80 of training in a row; the quartiles in brackets.
"""

import argparse

import torch

from multipartite.bench.networks import NETWORKS, measure

ARENA = (
    "max",
    "stochastic",
    "s3",
    "blur",
    "multipartite-printed",
    "multipartite",
    "multipartite:criterion=energy",
    "multipartite:gather=max",
    "multipartite:assignment=lines,focus=0",
    "average",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", nargs="?", default="lenet", choices=NETWORKS)
    parser.add_argument("--seconds", type=float, default=120.0, help="about how long to time each of the two")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = list(measure(arguments.network, seconds=arguments.seconds, poolings=ARENA, memory=False))
    print("| pooling | " + " | ".join(f"{phase} | n" for phase in ("training", "evaluation")) + " |")
    print("|---|---|---|---|---|")
    for word in ARENA:
        cells = []
        for phase in ("training", "evaluation"):
            layouts = [row for row in rows if row["pooling"] == word and row["phase"] == phase]
            best = max(layouts, key=lambda row: row["speed_ratio"])
            median, low, high = (1 / best[f"speed_ratio{part}"] for part in ("", "_high", "_low"))
            cells += [f"{median:.2f} ({low:.2f} to {high:.2f})", str(best["n"])]
        print(f"| `{word}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
