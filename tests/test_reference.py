"""The oracle itself, where torch or numpy already knows the answer."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import reference
from samples import blobs

MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
WINDOWS = list(itertools.product((2, 3), (1, 3), (0, 1), (1, 2), (False, True)))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_group_a_channel_scored_by_itself_is_max_pooling(dims):
    size = {1: (2, 9), 2: (2, 7, 6), 3: (1, 5, 6, 5)}[dims]
    x = torch.randint(0, 4, (1, *size), generator=torch.Generator().manual_seed(0)).float()  # with ties
    for window in WINDOWS:
        values, indices = MAX_POOL[dims](x, *window, return_indices=True)
        got = reference.multipartite_pool(x, x, *window)
        assert torch.equal(got[0], values)
        assert torch.equal(got[1], indices)


def test_all_channels_of_a_group_come_from_one_pixel():
    x = torch.randn(2, 6, 4, 4, generator=torch.Generator().manual_seed(0))
    values, indices = reference.multipartite_pool(x, x[:, [0, 5]], (2, 4))
    assert values.shape == indices.shape == (2, 6, 2, 1)
    assert torch.equal(indices[:, :3], indices[:, :1].expand(-1, 3, -1, -1))
    assert torch.equal(values, x.flatten(2).gather(2, indices.flatten(2)).reshape(values.shape))
    assert torch.equal(values[:, [0, 5]], F.max_pool2d(x[:, [0, 5]], (2, 4)))


def test_statistics_are_those_of_numpy():
    X, y = blobs(0, 40, 3, 2)
    count, mean, Sw, Sb = reference.statistics(X, y, 2)
    parts = [X[y == j] for j in range(2)]
    np.testing.assert_allclose(count, [len(part) for part in parts])
    np.testing.assert_allclose(mean, [part.mean(0) for part in parts])
    np.testing.assert_allclose(Sw, sum(np.cov(part.T, ddof=0) * len(part) for part in parts) / 40)
    np.testing.assert_allclose(Sb, sum(np.outer(m - X.mean(0), m - X.mean(0)) for m in mean) / 2)
