"""Draw how the cost of the layer grows: ``multipartite bench --growth --json > RECORD``, then this RECORD PICTURE."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TITLES = {
    "pixels": "pixels an image",
    "channels": "channels",
    "classes": "classes (64 channels)",
    "window": "side of the window",
}


STYLES = {  # of a pooling, in both layouts
    "max": "0.5",
    "multipartite-printed": "tab:blue",
    "multipartite": "tab:red",
    "multipartite:assignment=lines,focus=0.5": "tab:green",
}


def main(record: Path, picture: Path) -> None:
    rows = json.loads(record.read_text())["growth"]
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained", sharex="col", sharey="col")
    for line, layout in zip(axes, ("channels_last", "contiguous"), strict=True):
        for axis, (sweep, title) in zip(line, TITLES.items(), strict=True):
            for pooling, colour in STYLES.items():
                wanted = {"sweep": sweep, "layout": layout, "pooling": pooling}
                mine = [row for row in rows if wanted.items() <= row.items()]
                axis.plot([row["at"] for row in mine], [row["ms"] for row in mine], "o-", color=colour, label=pooling)
            axis.set(title=title, xscale="log", yscale="log")
            axis.set_xticks([row["at"] for row in mine], [f"{row['at']:,}" for row in mine], rotation=45)
            axis.minorticks_off()
        line[0].set_ylabel(f"{layout}\nevaluation, ms")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(picture, dpi=100)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
