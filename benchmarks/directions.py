"""How many directions of a score decide the picks on real activations: CIFAR-100, a network of today.

    python benchmarks/directions.py [--images 5000] [--epochs 3] [--width 32]

The network is trained with full-rank scores (``rank=None``). Then the columns of every factor are turned so that the
leading ones carry most of the score, as ``rank="auto"`` does, and in the cells of the gathered maps of 200 images that
were held out it is counted how often the first k columns pick the pixel that all of them pick. CIFAR-100 is looked for
under MULTIPARTITE_DATA. One thread, about two minutes.
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


def agreement(layer: SupervisedLayer, x: Tensor) -> Tensor:
    """Share of the cells in which the first k columns pick what all of them do, for every k."""
    assert layer.statistics is not None
    layer.refit()
    folded = layer.fold()
    assert folded is not None
    exact, r = folded.factor.double(), folded.factor.shape[-1]
    turned = leading(layer.statistics, folded._replace(factor=exact), r - 1).factor  # its last column is left out
    y = gather(x, layer.window, "max").double()
    N, _, H, W = y.shape
    y = y[:, :, : H // 2 * 2, : W // 2 * 2]
    whole = torch.einsum("nchw,cr->nhwr", y, exact[0]).square().sum(-1, keepdim=True)
    parts = torch.einsum("nchw,cr->nhwr", y, turned[0]).square().cumsum(-1)
    scores = torch.cat([parts[..., :-1], whole], -1)  # [N, H, W, r]
    cells = scores.reshape(N, H // 2, 2, W // 2, 2, r).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, r)
    picks = cells.argmax(1)
    return (picks == picks[:, -1:]).double().mean(0)


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
        agree = agreement(layer, maps[name])
        low = (agree < 0.99).nonzero()
        needed = int(low[-1]) + 2 if len(low) else 1
        shown = ", ".join(f"{k}: {agree[k - 1]:.1%}" for k in (1, 4, 16, 32, 64, 96) if k < len(agree))
        print(f"{name}: {layer.num_channels} channels, {len(agree)} directions, {needed} needed for 99%; {shown}")


if __name__ == "__main__":
    main()
