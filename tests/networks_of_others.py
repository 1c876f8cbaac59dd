"""Networks and poolings as others write them: branches, lazy layers, names of their own."""

import torch
import torch.nn.functional as F
from torch import nn

from multipartite.experiments.run.networks import Network


def plain(channels, num_classes, depth=1):
    layers = []
    for i in range(depth):
        layers += [nn.Conv2d(channels if i == 0 else 8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, num_classes))


class Block(nn.Module):
    def __init__(self, channels, down):
        super().__init__()
        self.down = nn.MaxPool2d(3, 2, padding=1) if down else nn.Identity()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        x = self.down(x)
        return F.relu(x + self.norm(self.conv(x)))


class Skipping(nn.Module):
    """A residual network whose layers are listed in another order than they are used."""

    def __init__(self, channels, num_classes):
        super().__init__()
        self.late = nn.MaxPool2d(2)
        self.unused = nn.MaxPool2d(2)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, num_classes))
        self.blocks = nn.ModuleList([Block(8, True), Block(8, False)])
        self.stem = nn.ModuleDict({"conv": nn.Conv2d(channels, 8, 3, padding=1), "reduce": nn.MaxPool2d(2)})
        self.widen = nn.Conv2d(8, 16, 1)

    def forward(self, x):
        x = self.stem["reduce"](F.relu(self.stem["conv"](x)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.late(self.widen(x)))


def skipping(channels, num_classes, size):
    assert len(size) == 2
    return Skipping(channels, num_classes)


def lazy(num_classes):
    pools = [nn.LazyConv2d(6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.LazyConv2d(5, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*pools, nn.Flatten(), nn.LazyLinear(num_classes))


class Functional(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(F.max_pool2d(x, 2), 1).flatten(1).expand(-1, 10)


def functional():
    return Functional()


def words():
    return "no network"


def broken(channels, num_classes):
    return nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3, num_classes))


def unnamed(channels, num_classes, kind):
    return plain(channels, num_classes)


def headless(channels):
    return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1))


def sevens(layers, seed):
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.weight, 7.0)


ENTRY = Network(plain, initialise=sevens)


class Noisy(nn.Module):
    """Average pooling that draws even in evaluation."""

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size, stride, padding)

    def forward(self, x):
        return self.pool(x + 0.01 * torch.rand_like(x))


class Gated(nn.Module):
    """A pooling with weights of its own, made when it first meets an image."""

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.window_of = (kernel_size, stride, padding)
        self.logits = nn.LazyConv2d(1, 1)

    def forward(self, x):
        share = self.logits(x).sigmoid()
        return F.avg_pool2d(x * share, *self.window_of)


def blurred(kernel_size, stride=None, padding=0):
    return nn.Sequential(nn.MaxPool2d(2, 1, padding), nn.ZeroPad2d((0, 1, 0, 1)), nn.AvgPool2d(kernel_size, stride))
