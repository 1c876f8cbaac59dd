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


def main(record: Path, picture: Path) -> None:
    rows = json.loads(record.read_text())["growth"]
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    for axis, (sweep, title) in zip(axes, TITLES.items(), strict=True):
        mine = [row for row in rows if row["sweep"] == sweep]
        for key, label, colour in (("max_ms", "max", "0.5"), ("multipartite_ms", "multipartite", "tab:red")):
            axis.plot([row["at"] for row in mine], [row[key] for row in mine], "o-", color=colour, label=label)
        axis.set(title=title, xscale="log", yscale="log")
        axis.set_xticks([row["at"] for row in mine], [f"{row['at']:,}" for row in mine], rotation=45)
        axis.minorticks_off()
    axes[0].set_ylabel("evaluation, ms")
    axes[0].legend(frameon=False)
    figure.savefig(picture, dpi=100)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
