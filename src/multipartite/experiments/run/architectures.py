"""The networks that come with the package, written with max pooling; `networks.build` puts any other in its place.

A network is a function of ``channels`` and ``num_classes``, and of ``size`` (height, width) where it wants to know,
that returns a module. Further arguments are the options of its word.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from multipartite.errors import InputError

__all__ = ["initialise", "lenet", "modern", "small", "zeiler"]


def lenet(channels: int, num_classes: int, width: int = 20) -> nn.Sequential:
    """Build MatConvNet's network for MNIST, that of the paper's example, with a ReLU after every convolution.

    Examples
    --------
    >>> lenet(1, 10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    _check_width("lenet", width)
    maps = width * 5 // 2
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, width, 5),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2, 2),
            conv2=nn.Conv2d(width, maps, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2, 2),
            flatten=nn.Flatten(),
            full=nn.LazyLinear(500),
            relu=nn.ReLU(),
            classes=nn.Linear(500, num_classes),
        )
    )


def zeiler(channels: int, num_classes: int, width: int = 64) -> nn.Sequential:
    """Build the network of Zeiler and Fergus (2013), three convolutions with overlapping pools, no normalisation."""
    _check_width("zeiler", width)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i in (1, 2, 3):
        layers[f"conv{i}"] = nn.Conv2d(channels if i == 1 else width, width, 5, padding=2)
        layers[f"relu{i}"] = nn.ReLU()
        layers[f"pool{i}"] = nn.MaxPool2d(3, 2)
    layers |= {"flatten": nn.Flatten(), "classes": nn.LazyLinear(num_classes)}
    return nn.Sequential(layers)


def small(channels: int, num_classes: int, width: int = 32) -> nn.Sequential:
    """Build a network for images that are too small for the others."""
    _check_width("small", width)
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, width, 3, padding=1),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2, 2),
            conv2=nn.Conv2d(width, 2 * width, 3, padding=1),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2, 2),
            flatten=nn.Flatten(),
            classes=nn.LazyLinear(num_classes),
        )
    )


def modern(channels: int, num_classes: int, width: int = 32) -> nn.Sequential:
    """Build a network as people train them today: three stages of two 3x3 convolutions with batch norm, a global head.

    The stages have `width` maps, twice and four times as many, and a 2x2 pool after each.

    Examples
    --------
    >>> modern(3, 10, width=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    _check_width("modern", width)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, maps in enumerate((width, 2 * width, 4 * width), start=1):
        for half in ("a", "b"):
            layers[f"conv{stage}{half}"] = nn.Conv2d(channels, maps, 3, padding=1, bias=False)
            layers[f"norm{stage}{half}"] = nn.BatchNorm2d(maps)
            layers[f"relu{stage}{half}"] = nn.ReLU()
            channels = maps
        layers[f"pool{stage}"] = nn.MaxPool2d(2, 2)
    head = {"mean": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), "classes": nn.Linear(channels, num_classes)}
    return nn.Sequential(layers | head)


def _check_width(name: str, width: object) -> None:
    if not isinstance(width, int) or width < 2:
        raise InputError(f"width of network {name!r} must be a whole number of maps from 2, got {width!r}")


def initialise(layers: list[nn.Module], seed: int) -> None:
    """Draw the weights of the convolutions and linear layers with variance 1 / inputs, in their order.

    Examples
    --------
    >>> one, two = nn.Linear(3, 2), nn.Linear(3, 2)
    >>> initialise([one], 5), initialise([two], 5)
    (None, None)
    >>> bool((one.weight == two.weight).all())
    True
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
