"""Looking inside: picks add up to what is handed on, places on the image are right, and lines are those that stay."""

import pytest
import torch
from torch import nn

from multipartite import convert, supervise
from multipartite.errors import InputError
from multipartite.experiments.report.explanation import look
from multipartite.experiments.run import networks
from multipartite.pooling.choose import draw_lines

WORDS = [
    "max",
    "average",
    "stochastic",
    "multipartite-printed",
    "multipartite",
    "multipartite:groups=2",
    "multipartite:assignment=stochastic,gather=None",
    "multipartite:assignment=lines,focus=0.5",
    "multipartite:assignment=lines,focus=0.5,gather=None",
    "multipartite:assignment=hard,gather=average",
]


def trained(word, network="lenet:width=4", size=28):
    net = networks.build(network, channels=1, size=(size, size), num_classes=3, pooling_word=word)
    return taught(net, size)


def taught(net, size=28):
    with torch.random.fork_rng(devices=[]), supervise(torch.arange(30) % 3):
        torch.manual_seed(0)
        net(torch.randn(30, 1, size, size))
    return net.eval()


def image(seed, size=28):
    return torch.randn(1, 1, size, size, generator=torch.Generator().manual_seed(seed))


def inputs(net, x, names):
    """What the layers get."""
    seen = {}
    hooks = [
        net.get_submodule(name).register_forward_pre_hook(lambda _, given, name=name: seen.setdefault(name, given[0]))
        for name in names
    ]
    net(x)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("network", ["lenet:width=4", "zeiler:width=4"])
@pytest.mark.parametrize("word", WORDS)
def test_picks_add_up_to_the_pooled_map(word, network):
    net, x = trained(word, network), image(1)
    logits, looks = look(net, x)
    torch.testing.assert_close(logits, net(x))
    assert [each.layer for each in looks] == [f"pool{i + 1}" for i in range(len(looks))]
    before = inputs(net, x, [each.layer for each in looks])
    for each in looks:
        layer, given = net.get_submodule(each.layer), before[each.layer]
        torch.testing.assert_close(each.picks.values.sum(), layer(given).sum(), rtol=1e-4, atol=1e-4)
        size = tuple(given.shape[2:])
        gathered = layer.window.gathered_size(size) if getattr(layer, "gather", None) else size
        assert each.score.values.shape == gathered
        assert each.picks.values.shape == size
        assert each.score.values.min() >= 0
        assert each.score.values.max() <= 1


def test_the_paper_s_pooling_picks_one_pixel_a_window_and_it_is_the_best():
    first = look(trained("multipartite-printed"), image(2))[1][0]
    assert (first.kind, first.steps) == ("score", "gather nothing, choose hard")
    windows = first.picks.values.unfold(0, 2, 2).unfold(1, 2, 2).flatten(2)  # [12, 12, 4]
    scores = first.score.values.unfold(0, 2, 2).unfold(1, 2, 2).flatten(2)
    picked = windows > 0
    assert picked.sum(2).max() == 1
    some = picked.any(2)
    assert torch.equal(windows.argmax(2)[some], scores.argmax(2)[some])


class Residual(nn.Module):
    """Skip connections, a shortcut with a stride, pooling layers deep inside and under names of their own."""

    def __init__(self, between):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 5)
        self.first = nn.ModuleDict({"conv": nn.Conv2d(4, 4, 3, padding=1), "shrink": nn.MaxPool2d(2)})
        self.main = nn.Sequential(nn.Conv2d(4, 4, 3, stride=2, padding=1), between(), nn.Conv2d(4, 4, 3, padding=1))
        self.shortcut = nn.Conv2d(4, 4, 1, stride=2)
        self.between = between()
        self.last = nn.MaxPool2d(3, 2, 1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.stem(x)
        x = self.first["shrink"](self.between(x + self.first["conv"](x)))
        x = self.last(self.between(self.main(x) + self.shortcut(x)))
        return self.head(x.mean((2, 3)))


def centre(net, layer, size):
    """Pixel in the middle of a layer's input, and the centre of what it sees of the image; no bends in the network."""
    x = torch.rand(1, 1, size, size, requires_grad=True)
    given = inputs(net, x, [layer])[layer]
    i, j = given.shape[2] // 2, given.shape[3] // 2 - 1
    (seen,) = torch.autograd.grad(given[0, :, i, j].sum(), x)
    return (i, j), [(place.min() + place.max()).item() / 2 for place in seen[0, 0].nonzero().unbind(1)]


def without_bends(net):
    for name, module in list(net.named_modules()):
        if isinstance(module, nn.MaxPool2d):
            net.set_submodule(name, nn.AvgPool2d(module.kernel_size, module.stride, module.padding))
        elif isinstance(module, nn.ReLU):
            net.set_submodule(name, nn.Identity())
    return net


@pytest.mark.parametrize("network", ["lenet:width=4", "zeiler:width=4", "with skip connections"])
def test_places_on_the_image_are_the_centres_of_what_a_pixel_sees(network):
    def made():
        return Residual(nn.ReLU).eval() if "skip" in network else trained("max", network, size=96)

    looks = look(made(), image(3, 96))[1]
    assert len(looks) >= 2
    for each in looks:
        pixel, seen = centre(without_bends(made()), each.layer, 96)
        assert seen == [each.picks.origin + each.picks.pitch * k for k in pixel], each.layer


def test_places_after_a_pooling_that_hides_its_window_follow_from_the_sizes():
    net = networks.build(
        "zeiler:width=4", channels=1, size=(32, 32), num_classes=3, pooling_word="networks_of_others:blurred"
    )
    looks = look(net.eval(), image(3, 32))[1]
    sides = [each.picks.values.shape[0] for each in looks]
    assert len(sides) == 3
    for each, side in zip(looks, sides, strict=True):
        assert each.picks.extent == pytest.approx((-0.5, 31.5, 31.5, -0.5)), side


@pytest.mark.parametrize("word", ["multipartite", "multipartite-printed", "multipartite:assignment=lines"])
def test_pooling_layers_are_found_wherever_they_are(word):
    net = taught(convert(Residual(nn.ReLU), 3, word))
    logits, looks = look(net, image(4))
    torch.testing.assert_close(logits, net(image(4)))
    assert [each.layer for each in looks] == ["first.shrink", "last"]
    assert {each.kind for each in looks} == {"score"}


def test_the_gathered_map_lies_at_the_centres_of_the_windows():
    printed, gathered = (look(trained(word), image(5))[1][0] for word in ("multipartite-printed", "multipartite"))
    assert (printed.score.origin, printed.score.pitch) == (2.0, 1.0)  # after a convolution of 5 x 5
    assert (gathered.score.origin, gathered.score.pitch) == (2.5, 1.0)  # the mean of a pixel and the next
    assert (gathered.picks.origin, gathered.picks.pitch) == (2.0, 1.0)
    assert gathered.score.extent == (2.0, 25.0, 25.0, 2.0)


def test_uniform_lines_are_the_middles_of_equal_strata():
    first = look(trained("multipartite:assignment=lines,focus=0,gather=None"), image(6))[1][0]
    assert len(first.rows) == len(first.columns) == 12
    assert first.rows == pytest.approx([2.0 + 0.5 + 2 * k for k in range(12)])  # of two pixels each, from pixel 2 on


def test_lines_lie_where_they_are_drawn_on_average():
    net = trained("multipartite:assignment=lines,focus=0.8,groups=2")
    first = look(net, image(7))[1][0]
    score = net.pool1.score(inputs(net, image(7), ["pool1"])["pool1"])  # [1, 2, 23, 23]
    many = score.expand(4000, -1, -1, -1)
    drawn = draw_lines(many, (12, 12), 0.8, generator=torch.Generator().manual_seed(0))  # [4000, 2, 12, 12]
    rows, columns = (drawn // 23)[..., 0].double().mean((0, 1)), (drawn % 23)[:, :, 0].double().mean((0, 1))
    assert first.rows == pytest.approx((2.5 + rows).tolist(), abs=0.15)
    assert first.columns == pytest.approx((2.5 + columns).tolist(), abs=0.15)
    assert list(first.rows) == sorted(first.rows)


def test_only_lines_have_rows_and_columns():
    for word in ("max", "multipartite", "multipartite-printed"):
        assert all(each.rows == each.columns == () for each in look(trained(word), image(8))[1])


def test_a_focus_that_was_learned_is_the_one_that_is_shown():
    net = trained("multipartite:assignment=lines,focus=auto")
    auto = look(net, image(9))[1][0]
    trust = float(net.pool1.trust[0])
    assert 0 < trust < 1
    net.pool1.focus = trust
    assert look(net, image(9))[1][0].rows == pytest.approx(auto.rows)
    net.pool1.focus = 0.0
    assert look(net, image(9))[1][0].rows != pytest.approx(auto.rows)


def test_a_network_without_pooling_layers_is_refused():
    with pytest.raises(InputError, match="no pooling layer to look at"):
        look(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), image(10))
