"""Draw figures/two-steps.png: what gathering and choosing make of a photograph that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image
from torch import Tensor

from multipartite.functional import gather, score_map
from multipartite.pooling.choose import draw, draw_lines, pick
from multipartite.pooling.window import Window

FOLDER = Path(__file__).parent / "figures"
WINDOW = Window.of(3, 4, 1, dims=2)
FOCUS = 0.7


def photograph(side: int = 64) -> Tensor:
    """Read a flower in grey, (1, 1, side, side), in 0 to 1."""
    pixels = torch.from_numpy(load_sample_image("flower.jpg").copy()).float().mean(-1)[None, None] / 255
    return F.interpolate(pixels[..., 20:380, 130:490], (side, side), mode="area")


def responses(image: Tensor) -> Tensor:
    """Filter it for edges in eight directions, with a ReLU, (1, 8, side, side)."""
    angle = torch.arange(8) * torch.pi / 4
    y, x = torch.meshgrid(torch.arange(-2.0, 3), torch.arange(-2.0, 3), indexing="ij")
    along = angle.cos()[:, None, None] * x + angle.sin()[:, None, None] * y
    filters = along * torch.exp(-(x**2 + y**2) / 3)
    return F.conv2d(F.pad(image, (2, 2, 2, 2), mode="replicate"), filters[:, None]).relu()


def main() -> None:
    """Draw the picture."""
    torch.manual_seed(0)
    image = photograph()
    x = responses(image)
    y = gather(x, WINDOW, "max")
    score = score_map(y, None)
    size, cells = tuple(y.shape[2:]), WINDOW.cells
    out = cells.out_size(size)
    chosen = {
        "one pixel a cell, by score": draw(score, cells),
        f"lines, focus {FOCUS}": draw_lines(score, out, FOCUS),
    }
    figure = Figure(figsize=(13, 5.6), layout="constrained", facecolor="white")
    axes = figure.subplots(2, 4)
    _show(axes[0, 0], image[0, 0], "the image")
    _show(axes[1, 0], x.sum(1)[0], "edges in eight directions (sum)", "magma")
    _show(axes[0, 1], y.sum(1)[0], "gather: the maximum of 3 x 3, at stride 1", "magma")
    _show(axes[1, 1], score[0, 0].sqrt(), "score of every pixel (here: energy)", "magma")
    for column, (title, flat) in enumerate(chosen.items(), start=2):
        above, below = axes[0, column], axes[1, column]
        _show(above, image[0, 0], f"choose: {title}", alpha=0.6)
        rows, columns = flat[0, 0] // size[1], flat[0, 0] % size[1]
        if "lines" in title:
            above.hlines(rows[:, 0], -0.5, size[1] - 0.5, color="#e4572e", linewidth=0.8)
            above.vlines(columns[0], -0.5, size[0] - 0.5, color="#e4572e", linewidth=0.8)
        else:
            above.scatter(columns, rows, s=7, color="#e4572e", linewidths=0)
        _show(below, pick(y, flat).sum(1)[0], f"what stays: {out[0]} x {out[1]}", "magma")
    figure.savefig(FOLDER / "two-steps.png", dpi=110, metadata={"Software": None})


def _show(axes: Axes, picture: Tensor, title: str, cmap: str = "gray", alpha: float = 1.0) -> None:
    axes.imshow(picture.numpy(), cmap=cmap, alpha=alpha)
    axes.set_title(title, fontsize=10)
    axes.set(xticks=[], yticks=[])


if __name__ == "__main__":
    main()
