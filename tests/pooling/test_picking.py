"""Picking pixels: values, layouts, and a gradient that is written once where no pixel is picked twice."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, jacfwd, jacrev, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from multipartite.instance_ranking import is_channels_last
from multipartite.pooling import choose
from multipartite.pooling.choose import pick
from windows import LAYOUTS, activations, bounded, lay_out, printed_pool, problems


@pytest.fixture
def every_size(monkeypatch):
    """Let tables of any size count as large."""
    monkeypatch.setattr(choose, "_LARGE", 0)


@given(problems(most_channels=3), st.integers(0, 1000))
@bounded
def test_pick_takes_all_channels_of_a_group_from_one_pixel(problem, seed):
    x, groups, _ = problem
    L, width = x[0, 0].numel(), x.shape[1] // groups
    indices = torch.randint(L, (len(x), groups, 4), generator=torch.Generator().manual_seed(seed))
    out = pick(x, indices)
    flat = x.flatten(2)
    for i, channel, o in torch.cartesian_prod(*map(torch.arange, out.shape)).tolist():
        assert out[i, channel, o] == flat[i, channel, indices[i, channel // width, o]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pick_keeps_channels_last(layout):
    x = lay_out(activations(2, 4, 6, 6), layout)
    out = pick(x, torch.zeros(2, 2, 3, 3, dtype=torch.int64))
    assert is_channels_last(x) == (layout == "channels last")
    assert is_channels_last(out) == is_channels_last(x)


# torch's forward mode compiles some of its own formulas by a way that it calls deprecated
forward_mode = pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")


def distinct_case(groups=2, layout="channels last"):
    x = lay_out(activations(2, 4, 6, 6).double(), layout)
    indices = torch.stack([torch.randperm(36)[:9] for _ in range(2 * groups)]).reshape(2, groups, 3, 3)
    return x, indices


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_gradient_of_distinct_picks_is_that_of_any_picks(layout, groups, every_size):
    x, indices = distinct_case(groups, layout)
    weight = torch.randn(2, 4, 3, 3, dtype=torch.float64)
    found = []
    for distinct in (False, True):
        leaf = x.detach().requires_grad_()
        out = pick(leaf, indices, distinct=distinct)
        (out * weight).sum().backward()
        found.append((out, leaf.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@forward_mode
def test_distinct_picks_differentiate_twice_and_forward(every_size):
    x, indices = distinct_case()
    x.requires_grad_()
    for check in (gradcheck, gradgradcheck):
        assert check(lambda x: pick(x.square(), indices, distinct=True), (x,))
    assert gradcheck(lambda x: pick(x.square(), indices, distinct=True), (x,), check_forward_ad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), torch.ones_like(x))
        assert (forward_ad.unpack_dual(pick(dual, indices, distinct=True)).tangent == 1).all()


@forward_mode
@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_distinct_picks_have_a_jacobian_and_gradients_sample_by_sample(jacobian, every_size):
    x, indices = distinct_case()
    wanted = jacobian(lambda x: pick(x, indices))(x)
    assert torch.equal(jacobian(lambda x: pick(x, indices, distinct=True))(x), wanted)

    def loss(image, index):
        image = image[None].contiguous(memory_format=torch.channels_last)
        return pick(image, index[None], distinct=True).square().sum()

    each = vmap(grad(loss))(x, indices)
    whole = grad(lambda x: pick(x, indices).square().sum())(x)
    assert torch.equal(each, whole)


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.seen.add(operation.overloadpacket.__name__)
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize(("stride", "sums"), [(3, False), (2, True)])
def test_gradients_are_added_up_only_where_windows_overlap(stride, sums, every_size):
    x = lay_out(activations(2, 4, 9, 9), "channels last").requires_grad_()
    out = printed_pool(x, None, 3, stride)
    with Operations() as operations:
        out.sum().backward()
    assert bool(operations.seen & {"index_add", "index_add_"}) == sums
    assert is_channels_last(x.grad)
