import pytest
import torch
from torch import nn

import multipartite as mp
from multipartite.errors import InputError


def taught(c=3, d=6, **options):
    torch.manual_seed(0)
    pool = mp.MultipartitePool2d(2, num_classes=c, **options)
    labels = torch.arange(4 * c) % c
    with mp.supervise(labels):
        pool(torch.rand(4 * c, d, 6, 6) + labels[:, None, None, None])
    return nn.Sequential(nn.Conv2d(3, d, 1), pool).eval()


@pytest.mark.parametrize("assignment", ["hard", "soft", "stochastic"])
@pytest.mark.parametrize("groups", [1, 3])
def test_a_frozen_layer_pools_as_before(assignment, groups):
    model = taught(assignment=assignment, groups=groups)
    x = torch.randn(2, 3, 8, 8)
    before = model(x)
    assert mp.freeze(model) is model
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    torch.testing.assert_close(mp.freeze(model)(x), before, rtol=0, atol=0)  # twice is once


@pytest.mark.parametrize(("c", "d", "groups"), [(3, 6, 1), (10, 6, 1), (3, 6, 2), (100, 4, 1)])
def test_the_state_is_no_larger_than_the_factor(c, d, groups):
    pool = mp.freeze(taught(c, d, groups=groups))[1]
    r = min(c - 1, d // groups)
    assert sum(t.numel() for t in pool.state_dict().values()) == d * r
    assert sum(t.numel() for t in pool.buffers()) == d * r


def test_the_state_with_information():
    pool = mp.freeze(taught(4, 6, criterion="information"))[1]
    assert sum(t.numel() for t in pool.state_dict().values()) == 6 * 4 + 2 * 4


@pytest.mark.parametrize("criterion", ["kl", "information"])
def test_a_frozen_state_round_trips(criterion, tmp_path):
    model = mp.freeze(taught(criterion=criterion))
    torch.save(model.state_dict(), tmp_path / "state.pt")
    other = nn.Sequential(nn.Conv2d(3, 6, 1), mp.MultipartitePool2d(2, num_classes=3, criterion=criterion)).eval()
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(other(x), model(x), rtol=0, atol=0)
    assert other[1].frozen
    assert other[1].informed


def test_a_frozen_layer_neither_learns_nor_is_fitted():
    model = mp.freeze(taught(assignment="hard"))
    x, y = torch.rand(6, 3, 8, 8), torch.arange(6) % 3
    before = model(x)
    with mp.supervise(y):
        torch.testing.assert_close(model.train()(x), before, rtol=0, atol=0)
    torch.testing.assert_close(model.train()(x), before, rtol=0, atol=0)  # without a word
    with pytest.raises(InputError, match="frozen"):
        mp.fit(model, [(x, y)])
    torch.testing.assert_close(model.eval()(x), before, rtol=0, atol=0)


def test_what_has_learned_nothing_cannot_be_frozen():
    with pytest.raises(InputError, match="no multipartite layers to freeze"):
        mp.freeze(nn.Linear(2, 2))
    for channels in (None, 4):
        model = nn.Sequential(mp.MultipartitePool2d(2, num_classes=3, num_channels=channels))
        with pytest.raises(InputError, match=r"layer '0' has learned nothing.*supervise.*fit"):
            mp.freeze(model)
