"""Looking inside: picks add up to what is handed on, and places on the image are right."""

import pytest
import torch
from torch import nn

from multipartite.experiments.report.explanation import look
from multipartite.experiments.run import networks
from multipartite.labels import supervise

WORDS = ["max", "average", "stochastic", "multipartite", "multipartite:groups=2", "multipartite:assignment=stochastic"]


def trained(word, network="lenet:width=4", size=28):
    net = networks.build(network, channels=1, size=(size, size), num_classes=3, pooling_word=word)
    with torch.random.fork_rng(devices=[]), supervise(torch.arange(30) % 3):
        torch.manual_seed(0)
        net(torch.randn(30, 1, size, size))
    return net.eval()


@pytest.mark.parametrize("network", ["lenet:width=4", "zeiler:width=4"])
@pytest.mark.parametrize("word", WORDS)
def test_picks_add_up_to_the_pooled_map(word, network):
    net = trained(word, network)
    x = torch.randn(1, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    logits, looks = look(net, x)
    torch.testing.assert_close(logits, net(x))
    for each in looks:
        before = nn.Sequential(*list(net)[: [name for name, _ in net.named_children()].index(each.layer)])(x)
        pooled = net.get_submodule(each.layer)(before)
        torch.testing.assert_close(each.picks.sum(), pooled.sum(), rtol=1e-4, atol=1e-4)
        assert each.score.shape == before.shape[2:]
        assert each.score.min() >= 0
        assert each.score.max() <= 1


def test_the_paper_s_pooling_picks_one_pixel_a_window_and_it_is_the_best():
    net = trained("multipartite")
    x = torch.randn(1, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    first = look(net, x)[1][0]
    assert first.kind == "score"
    windows = first.picks.unfold(0, 2, 2).unfold(1, 2, 2).flatten(2)  # [12, 12, 4]
    scores = first.score.unfold(0, 2, 2).unfold(1, 2, 2).flatten(2)
    picked = windows > 0
    assert picked.sum(2).max() == 1
    some = picked.any(2)
    assert torch.equal(windows.argmax(2)[some], scores.argmax(2)[some])


def test_places_on_the_image_are_the_centres_of_what_a_pixel_sees():
    net = trained("max")
    for each in look(net, torch.zeros(1, 1, 28, 28))[1]:
        index = [name for name, _ in net.named_children()].index(each.layer)
        x = torch.rand(1, 1, 28, 28, requires_grad=True)
        layers = [nn.AvgPool2d(2) if isinstance(m, nn.MaxPool2d) else m for m in list(net)[:index]]
        out = nn.Sequential(*[m for m in layers if not isinstance(m, nn.ReLU)])(x)
        (seen,) = torch.autograd.grad(out[0, :, 2, 3].sum(), x)
        rows, columns = seen[0, 0].nonzero().unbind(1)
        centre = [(place.min() + place.max()).item() / 2 for place in (rows, columns)]
        assert centre == [each.origin + 2 * each.pitch, each.origin + 3 * each.pitch]
