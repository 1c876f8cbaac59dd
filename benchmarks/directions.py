"""How many directions of a score decide the picks on real activations: CIFAR-100, a network of today.

    python benchmarks/directions.py [--images 5000] [--epochs 3] [--width 32]

The network is trained with full-rank scores (``rank=None``). Then the columns of every factor are turned so that the
leading ones carry most of the score, as ``rank="auto"`` does, and in the cells of the gathered maps of 200 images that
were held out it is counted how often the first k columns pick the pixel that all of them pick: the best one, and the
one that is drawn by the same random number, where the mean of the columns left out stands for them. CIFAR-100 is looked
for under MULTIPARTITE_DATA. One thread, about two minutes.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import multipartite as mp
from multipartite.experiments.data import Dataset, load
from multipartite.experiments.run.networks import build
from multipartite.instance_ranking import leading
from multipartite.pooling.gather import gather
from multipartite.pooling.learning import SupervisedLayer

HELD_OUT, LOOKED_AT, BATCH = 1000, 200, 100


def train(net: nn.Module, data: Dataset, epochs: int) -> None:
    """Train with SGD, plainly."""
    sgd = torch.optim.SGD(net.parameters(), 0.05, 0.9, weight_decay=5e-4)
    for _ in range(epochs):
        for rows in torch.randperm(len(data.train)).split(BATCH):
            labels = data.train.labels[rows]
            with mp.supervise(labels):
                objective = F.cross_entropy(net(data.normalise(data.train.images[rows])), labels)
            sgd.zero_grad()
            objective.backward()
            sgd.step()


def cells_of(layer: SupervisedLayer, x: Tensor) -> Tensor:
    """Scores of the gathered map of x by the first k columns, for every k: [cells, 4, r]."""
    assert layer.statistics is not None
    assert layer.gather is not None
    layer.refit()
    folded = layer.fold()
    assert folded is not None
    exact, r = folded.factor.double(), folded.factor.shape[-1]
    turned = leading(layer.statistics, folded._replace(factor=exact), r - 1).factor  # its last column is left out
    y = gather(x, layer.window, layer.gather).double()
    N, _, H, W = y.shape
    y = y[:, :, : H // 2 * 2, : W // 2 * 2]
    whole = torch.einsum("nchw,cr->nhwr", y, exact[0]).square().sum(-1, keepdim=True)
    parts = torch.einsum("nchw,cr->nhwr", y, turned[0]).square().cumsum(-1)
    scores = torch.cat([parts[..., :-1], whole], -1)  # [N, H, W, r]
    return scores.reshape(N, H // 2, 2, W // 2, 2, r).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, r)


def best_agree(scores: Tensor) -> Tensor:
    """Share of the cells whose best pixel is the same by the first k columns as by all, [r]."""
    picks = scores.argmax(1)
    return (picks == picks[:, -1:]).double().mean(0)


def draws_agree(scores: Tensor) -> Tensor:
    """Share of the draws, by scores that the mean of what is left out is added to, that are the same, [r]."""
    scores = scores + (scores[..., -1:] - scores).mean((0, 1))
    ends = (scores / scores.sum(1, keepdim=True)).cumsum(1)  # of the interval of random numbers that pick a pixel
    starts = torch.cat([torch.zeros_like(ends[:, :1]), ends[:, :-1]], 1)
    common = torch.minimum(ends, ends[..., -1:]) - torch.maximum(starts, starts[..., -1:])
    return common.clamp_min(0).sum(1).mean(0)


def needed(agree: Tensor) -> int:
    """Columns from which on 99% agree."""
    low = (agree < 0.99).nonzero()
    return int(low[-1]) + 2 if len(low) else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("images", 5000), ("epochs", 3), ("width", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    total = asked.images + HELD_OUT
    data = load("cifar100", download=False).limit(total).with_validation(HELD_OUT / total)
    word = f"modern:width={asked.width}"
    net = build(word, channels=3, size=(32, 32), num_classes=100, pooling_word="multipartite:rank=None", seed=0)
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train(net, data, asked.epochs)
    maps: dict[str, Tensor] = {}
    pools = {name: layer for name, layer in net.named_modules() if isinstance(layer, SupervisedLayer)}
    for name, layer in pools.items():
        layer.register_forward_pre_hook(lambda _, given, name=name: maps.update({name: given[0]}))
    with torch.no_grad():
        net.eval()(data.normalise(data.validation.images[:LOOKED_AT]))
    for name, layer in pools.items():
        scores = cells_of(layer, maps[name])
        print(f"{name}: {layer.num_channels} channels, {scores.shape[-1]} directions")
        for what, agree in (("best pixels", best_agree(scores)), ("draws", draws_agree(scores))):
            shown = ", ".join(f"{k}: {agree[k - 1]:.1%}" for k in (1, 4, 16, 32, 48, 64, 96) if k < len(agree))
            print(f"  {what}: {needed(agree)} needed for 99%; {shown}")


if __name__ == "__main__":
    main()
