"""Draw what max, average, stochastic and multipartite pooling keep of a real digit's feature map."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

import multipartite as mp
from multipartite.experiments.data import Dataset, load

PICTURE = Path(__file__).parent / "figures" / "kept.png"
CHANNELS, KERNEL = 2, 2
MARK = {"marker": "o", "s": 9, "c": "#e8554e", "linewidths": 0}


def features(data: Dataset) -> tuple[nn.Module, mp.MultipartitePool2d]:
    """Train a convolution with a multipartite layer behind it, for one pass over the data."""
    torch.manual_seed(0)
    pool = mp.MultipartitePool2d.printed(KERNEL, num_classes=data.num_classes, return_indices=True)
    front = nn.Sequential(nn.Conv2d(data.shape[0], 16, 5), nn.ReLU())
    head = nn.LazyLinear(data.num_classes)
    sgd = None
    for rows in torch.randperm(len(data.train)).split(50):
        labels = data.train.labels[rows]
        with mp.supervise(labels):
            pooled, _ = pool(front(data.normalise(data.train.images[rows])))
        objective = F.cross_entropy(head(pooled.flatten(1)), labels)
        if sgd is None:  # now that the head knows its input
            sgd = torch.optim.SGD([*front.parameters(), *head.parameters()], 0.05, 0.9)
        sgd.zero_grad()
        objective.backward()
        sgd.step()
    return front.eval(), pool.eval()


@torch.no_grad()
def main() -> None:
    """Draw one row a channel: the map, and what each pooling keeps of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist", help="data set that the digit comes from")
    parser.add_argument("--digit", type=int, default=3, help="which test image of it")
    asked = parser.parse_args()
    data = load(asked.data, download=False).limit(5000)
    with torch.enable_grad():
        front, pool = features(data)
    x = front(data.normalise(data.test.images[asked.digit : asked.digit + 1]))  # [1, 16, h, w]
    shown = x[0].flatten(1).var(1).argsort(descending=True)[:CHANNELS]
    torch.manual_seed(0)
    drawn = mp.StochasticPool2d(KERNEL)(x)
    columns: list[tuple[str, Tensor, Tensor | None]] = [
        ("max: the largest,\nchannel by channel", *F.max_pool2d(x, KERNEL, return_indices=True)),
        ("average: a blend of all", F.avg_pool2d(x, KERNEL), None),
        ("stochastic: a draw,\nchannel by channel", drawn, _found(x, drawn)),
        ("multipartite: one pixel,\nall channels of it", *pool(x)),
    ]
    figure = Figure(figsize=(13.5, 5), layout="constrained")
    axes = figure.subplots(CHANNELS, len(columns) + 2)
    for at in axes.flat:
        at.set(xticks=[], yticks=[])
        at.spines[:].set_color("#bbbbbb")
    axes[0, 0].imshow(data.test.images[asked.digit, 0], cmap="gray_r")
    axes[0, 0].set_title("a digit")
    axes[1, 0].imshow(pool.score(x)[0, 0], cmap="viridis")
    axes[1, 0].set_title("score of its pixels")
    for row, channel in enumerate(shown):
        top = float(x[0, channel].max())
        axes[row, 1].imshow(x[0, channel], cmap="gray_r", vmin=0, vmax=top)
        axes[row, 1].set_title(f"channel {int(channel)} of {x.shape[1]}")
        for at, (name, kept, indices) in zip(axes[row, 2:], columns, strict=True):
            _draw(at, kept[0, channel], None if indices is None else indices[0, channel], x, top)
            at.set_title(name if row == 0 else "")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=80)


def _draw(axes: Axes, kept: Tensor, indices: Tensor | None, x: Tensor, top: float) -> None:
    """Show the pooled map at the size of its input, with a dot on every pixel that was picked."""
    h, w = x.shape[2:]
    large = kept.repeat_interleave(KERNEL, 0).repeat_interleave(KERNEL, 1)
    axes.imshow(large, cmap="gray_r", vmin=0, vmax=top)
    if indices is not None:
        inked = indices[kept > 0]
        axes.scatter(inked % w, inked // w, **MARK)
    axes.set_xlim(-0.5, w - 0.5)
    axes.set_ylim(h - 0.5, -0.5)


def _found(x: Tensor, kept: Tensor) -> Tensor:
    """Where in its window each kept value stands, as flat indices."""
    large = kept.repeat_interleave(KERNEL, 2).repeat_interleave(KERNEL, 3)
    equal = (x[..., : large.shape[2], : large.shape[3]] == large).float()
    return F.max_pool2d(equal, KERNEL, return_indices=True)[1]


if __name__ == "__main__":
    main()
