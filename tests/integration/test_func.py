"""torch.func, activation checkpoints and averaged weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

import multipartite as mp

ASSIGNMENTS = ["hard", "soft", "stochastic", "lines"]


def batch(step=0, n=9, dtype=torch.float32):
    y = torch.arange(n) % 3
    x = torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(step), dtype=dtype)
    return x + y[:, None, None, None], y


def taught(**options):
    torch.manual_seed(0)
    pool = mp.MultipartitePool2d(2, num_classes=3, num_channels=4, refit_every=1, **options)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), pool).double()
    x, y = batch(dtype=torch.float64)
    with mp.supervise(y):
        model(x)
    return model


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_vmap_over_a_frozen_layer(assignment, groups):
    model = mp.freeze(taught(assignment=assignment, groups=groups)).eval()
    x = torch.randn(3, 5, 1, 8, 8, dtype=torch.float64)
    wanted = torch.stack([model(part) for part in x])
    torch.testing.assert_close(vmap(model)(x), wanted)
    torch.testing.assert_close(vmap(vmap(model))(x), wanted)  # image by image, unbatched


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_jacrev_is_the_jacobian(assignment):
    pool = mp.freeze(taught(assignment=assignment)).eval()[2]
    x = torch.randn(4, 4, 4, dtype=torch.float64)
    wanted = torch.autograd.functional.jacobian(pool, x)
    torch.testing.assert_close(jacrev(pool)(x), wanted)
    assert wanted.abs().sum() > 0


def test_gradients_sample_by_sample():
    model = mp.freeze(taught(assignment="soft")).eval()
    parameters = dict(model.named_parameters())
    x, _ = batch(dtype=torch.float64)

    def loss(parameters, image):
        return functional_call(model, parameters, (image[None],)).square().sum()

    each = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    whole = grad(lambda p: functional_call(model, p, (x,)).square().sum())(parameters)
    for name in parameters:
        torch.testing.assert_close(each[name].sum(0), whole[name])


@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_forward_learns_once(assignment, reentrant):
    x, y = batch(1, dtype=torch.float64)
    plain, saving = taught(assignment=assignment), taught(assignment=assignment)
    with mp.supervise(y):
        plain(x).square().sum().backward()
        checkpoint(saving, x.clone().requires_grad_(), use_reentrant=reentrant).square().sum().backward()
    assert int(saving[2].updates) == int(plain[2].updates) == 2
    for one, other in zip(saving.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    for one, other in zip(saving.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(one, other)


def test_averaged_weights_and_statistics():
    model = taught()
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5), use_buffers=True)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    means = [model[2].statistics.mean.clone()]
    averaged.update_parameters(model)
    for step in range(1, 4):
        x, y = batch(step, dtype=torch.float64)
        with mp.supervise(y):
            F.mse_loss(model(x).mean((1, 2, 3)), y.double()).backward()
        optimiser.step()
        averaged.update_parameters(model)
        means.append(0.5 * means[-1] + 0.5 * model[2].statistics.mean)
    pool = averaged.module[2]
    torch.testing.assert_close(pool.statistics.mean, means[-1])
    pool.refit()  # directions do not average: they follow from the averaged statistics
    again = mp.MultipartitePool2d(2, num_classes=3, num_channels=4).double()
    again.load_state_dict(pool.state_dict())
    again.refit()
    torch.testing.assert_close(pool.factor @ pool.factor.mT, again.factor @ again.factor.mT)
    assert not torch.allclose(pool.factor, model[2].factor)


def test_averaged_weights_are_fitted_as_batch_norm_is_updated():
    model = taught()
    averaged = AveragedModel(model)
    averaged.update_parameters(model)
    batches = [batch(step, dtype=torch.float64) for step in range(2)]
    mp.fit(averaged, batches)
    wanted = mp.fit(taught(), batches)
    torch.testing.assert_close(averaged.module[2].factor, wanted[2].factor)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_two_forwards_one_backward(assignment):
    """A refit between a forward and its backward does not disturb the gradient."""
    model = taught(assignment=assignment)
    (x1, y1), (x2, y2) = batch(1, dtype=torch.float64), batch(2, dtype=torch.float64)
    with mp.supervise(y1):
        first = model(x1).sum()
    with mp.supervise(y2):
        second = model(x2).sum()
    (first + second).backward()
    assert model[0].weight.grad.isfinite().all()


OPTIONS = [{}, {"assignment": "lines", "focus": 0.5}, {"gather": None, "assignment": "hard"}, {"gather": "average"}]


@pytest.mark.parametrize("options", OPTIONS)
def test_torch_fx_takes_a_layer_as_a_leaf(options):
    model = taught(**options).eval()
    traced = torch.fx.symbolic_trace(model)
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == ["0", "1", "2"]
    x, _ = batch(1, dtype=torch.float64)
    torch.testing.assert_close(traced(x), model(x))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("options", OPTIONS)
def test_torch_jit_traces_a_frozen_layer_for_one_size(options):
    model = mp.freeze(taught(**options)).eval()
    x, _ = batch(1, dtype=torch.float64)
    with torch.no_grad():
        traced = torch.jit.trace(model, x)
    other, _ = batch(2, dtype=torch.float64)
    torch.testing.assert_close(traced(other), model(other))
