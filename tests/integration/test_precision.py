"""Mixed precision: half activations in and out, statistics and factor in full precision."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import multipartite as mp

HALVES = [torch.bfloat16, torch.float16]


def batch(step=0, n=12):
    y = torch.arange(n) % 3
    x = torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(step))
    return x + y[:, None, None, None], y


def network(assignment):
    torch.manual_seed(0)
    pool = mp.MultipartitePool2d(2, num_classes=3, refit_every=2, assignment=assignment)
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(54, 3))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("assignment", ["hard", "soft", "stochastic", "lines"])
def test_training_and_evaluation_under_autocast(dtype, assignment):
    model = network(assignment)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        x, y = batch()
        with mp.supervise(y), torch.autocast("cpu", dtype):
            pooled = model[:3](x)
            loss = F.cross_entropy(model[3:](pooled).float(), y)
        assert pooled.dtype == dtype
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    pool = model[2]
    assert losses[-1] < 0.7 * losses[0]
    assert pool.factor.dtype == torch.float32
    assert pool.statistics.mean.dtype == torch.float64
    assert pool.factor.isfinite().all()
    x, _ = batch(1)
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype):
        half = model(x).float()
    torch.testing.assert_close(half, model(x).detach(), rtol=0.05, atol=0.15 if assignment != "hard" else 0.6)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_scores_are_those_of_the_same_numbers_in_float32(dtype):
    pool = mp.MultipartitePool2d.printed(2, num_classes=3, num_channels=4)
    y = torch.arange(12) % 3
    x = (torch.randn(12, 4, 8, 8) + y[:, None, None, None]).to(dtype)
    with mp.supervise(y):
        pool(x.float())
    pool.eval()
    with torch.autocast("cpu", dtype):
        got = pool(x)
    assert got.dtype == dtype
    assert torch.equal(got.float(), pool(x.float()))


@pytest.mark.parametrize("dtype", HALVES)
def test_statistics_do_not_overflow_in_half(dtype):
    """Squares of 1000 are beyond float16."""
    pool = mp.MultipartitePool2d.printed(2, num_classes=3, num_channels=4)
    y = torch.arange(12) % 3
    x = (300 * torch.randn(12, 4, 8, 8) + 1000 * y[:, None, None, None]).to(dtype)
    with mp.supervise(y), torch.autocast("cpu", dtype):
        pool(x)
    exact = mp.ClassStatistics(3, 4).update(x.double(), y)
    torch.testing.assert_close(
        pool.statistics.scatter, exact.scatter, rtol=1e-3, atol=1e-3 * float(exact.scatter.max())
    )
    assert pool.factor.isfinite().all()


@pytest.mark.parametrize("dtype", HALVES)
def test_a_model_cast_to_half_keeps_its_factor(dtype):
    model = network("hard")
    x, y = batch()
    with mp.supervise(y):
        model(x)
    before = model[2].factor.clone()
    model.to(dtype).eval()
    assert model[2].factor.dtype == torch.float32
    assert torch.equal(model[2].factor, before)
    assert model(x.to(dtype)).dtype == dtype
