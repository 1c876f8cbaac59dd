"""Random windows and activations that the tests of the pooling layers share."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from hypothesis import assume, settings
from hypothesis import strategies as st

import multipartite as mp
from multipartite.functional import multipartite_pool

MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
UNPOOL = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}
LAYERS = {1: mp.MultipartitePool1d, 2: mp.MultipartitePool2d, 3: mp.MultipartitePool3d}
STOCHASTIC = {1: mp.StochasticPool1d, 2: mp.StochasticPool2d, 3: mp.StochasticPool3d}
LAYOUTS = ["contiguous", "channels last", "every other", "transposed"]

PRINTED = {"gather": None, "assignment": "hard"}  # Alg. 3 to the letter, which options may vary
printed2d = partial(mp.MultipartitePool2d, **PRINTED)
printed_pool = partial(multipartite_pool, **PRINTED)

bounded = settings(max_examples=40, deadline=None, derandomize=True)


class Problem(NamedTuple):
    """Activations (N, C, *spatial), and a window as ``F.max_pool2d`` is given it."""

    x: torch.Tensor
    groups: int
    window: dict

    @property
    def dims(self):
        return self.x.ndim - 2


def lay_out(x, layout):
    """Give the same numbers another order in memory."""
    if layout == "channels last":
        return x.movedim(1, -1).contiguous().movedim(-1, 1)
    if layout == "every other":
        return x.repeat_interleave(2, -1)[..., ::2]
    if layout == "transposed":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    return x


def activations(*shape, seed=0, dtype=torch.float64, nonnegative=False):
    """Normal numbers with a seed, or what a ReLU leaves of them."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (x.clamp_min(0) if nonnegative else x).to(dtype)


@st.composite
def problems(draw, *, dims=None, nonnegative=False, dtype=torch.float64, most_channels=2):
    """A window of 1 to 3 dimensions that fits random activations, in a random memory layout."""
    n = draw(st.sampled_from([1, 2, 3])) if dims is None else dims
    largest = {1: 9, 2: 7, 3: 5}[n]
    ceil_mode = draw(st.booleans())
    spatial, kernel, stride, padding, dilation = [], [], [], [], []
    for _ in range(n):
        k, s, e = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        p = draw(st.integers(0, k // 2))
        length = draw(st.integers(max(1, e * (k - 1) + 1 - 2 * p), largest))
        # torch itself has no answer for a window that lies in the padding alone
        assume(all(any(0 <= w + e * i < length for i in range(k)) for w in range(-p, length)))
        for sizes, size in zip((spatial, kernel, stride, padding, dilation), (length, k, s, p, e), strict=True):
            sizes.append(size)
    groups, width = draw(st.integers(1, 3)), draw(st.integers(1, most_channels))
    shape = (draw(st.integers(1, 3)), groups * width, *spatial)
    x = activations(*shape, seed=draw(st.integers(0, 10**6)), dtype=dtype, nonnegative=nonnegative)
    sizes = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    window = {name: tuple(size) for name, size in sizes.items()} | {"ceil_mode": ceil_mode}
    return Problem(lay_out(x, draw(st.sampled_from(LAYOUTS))), groups, window)


def taught(dims=2, channels=6, classes=3, kernel_size=2, *, seed=0, size=6, batches=1, **options):
    """A layer that has seen labelled batches, in evaluation mode; the printed one unless options say otherwise."""
    options = PRINTED | options
    layer = LAYERS[dims](kernel_size, num_classes=classes, dtype=torch.float64, **options)
    for step in range(batches):
        x, labels = labelled(dims, channels, classes, seed=seed + step, size=size)
        with mp.supervise(labels):
            layer(x)
    return layer.eval()


def labelled(dims=2, channels=6, classes=3, *, seed=0, size=6, images=12):
    """Activations whose classes differ in their mean, and their labels."""
    labels = torch.arange(images) % classes
    means = activations(classes, channels, seed=1000 + seed)
    x = activations(images, channels, *[size] * dims, seed=seed) + means[labels].reshape(images, channels, *[1] * dims)
    return x, labels


def snapshot(layer):
    """Everything that a layer remembers, copied."""
    buffers = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    return layer.num_channels, layer.steps, layer.informed, buffers


def same(one, two):
    """Whether two snapshots are equal to the bit."""
    return (
        one[:3] == two[:3]
        and one[3].keys() == two[3].keys()
        and all(torch.equal(one[3][name], two[3][name]) for name in one[3])
    )
