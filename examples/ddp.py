"""Train a converted network in several processes; every process ends with the same factor.

    torchrun --nproc-per-node 2 examples/ddp.py

The data are made up: each class has a pattern of its own, in noise. The layers exchange their statistics once a
refit; nothing is written for that here but the `supervise` context.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import multipartite as mp

CLASSES = 4


def patterns(n: int, seed: int) -> TensorDataset:
    y = torch.arange(n) % CLASSES
    shapes = torch.randn(CLASSES, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(n, 1, 12, 12, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(shapes[y] + noise, y)


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, CLASSES))
    return mp.convert(model, CLASSES, assignment="stochastic")


def spread(tensor: Tensor) -> float:
    """How far the processes are apart: 0 if they hold the same bits."""
    low, high = tensor.clone(), tensor.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    return float((high - low).abs().max())


def main() -> None:
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    data = patterns(512, seed=1)
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(network())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            with mp.supervise(labels):
                loss = F.cross_entropy(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    apart = spread(model.module[2].factor)
    if apart:
        raise RuntimeError(f"the factors of {world} processes are {apart} apart")
    images, labels = patterns(256, seed=2).tensors
    error = (model.module.eval()(images).argmax(1) != labels).float().mean()
    if dist.get_rank() == 0:
        print(f"the same factor in {world} processes; error on new data {error:.1%}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
