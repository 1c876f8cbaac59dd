"""Draw samples of the data sets that are made of others, below the digits they are made of; needs MULTIPARTITE_DATA."""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from multipartite.errors import InputError
from multipartite.experiments.data import Dataset, load
from multipartite.experiments.data.made import MADE

FOLDER = Path(__file__).parent / "figures"


def main() -> None:
    """Draw one picture a data set, of the first training image of every class."""
    try:
        digits = load("mnist", download=False)
        for source in MADE:
            draw(digits, load(source.name, download=False)).savefig(FOLDER / f"{source.name}.png", dpi=110)
    except InputError as error:
        print(f"samples of the made data sets are not drawn: {error}", file=sys.stderr)


def draw(digits: Dataset, made: Dataset) -> Figure:
    """Draw a row of digits above what became of them."""
    rows = [int((digits.train.labels == digit).nonzero()[0]) for digit in range(digits.num_classes)]
    figure = Figure(figsize=(10, 2.1), layout="constrained")
    for line, data in zip(figure.subplots(2, len(rows)), (digits, made), strict=True):
        for axes, row in zip(line, rows, strict=True):
            axes.imshow(data.train.images[row, 0].numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
        line[0].set_ylabel(data.name.replace("-", "-\n"), rotation=0, ha="right", va="center")
    return figure


if __name__ == "__main__":
    main()
