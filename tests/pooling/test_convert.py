import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import multipartite as mp
from multipartite.errors import InputError
from multipartite.pooling.adaptive import AdaptivePool

LAYERS = {1: mp.MultipartitePool1d, 2: mp.MultipartitePool2d, 3: mp.MultipartitePool3d}


def net():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.ModuleDict({"mean": nn.AvgPool2d(2), "part": nn.AdaptiveAvgPool2d(2), "head": nn.AdaptiveAvgPool2d(1)}),
    )


def kinds(model):
    return {name: type(m).__name__ for name, m in model.named_modules() if "Pool" in type(m).__name__}


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(
    "window",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "dilation": 2, "return_indices": True},
    ],
)
def test_the_window_is_kept(dims, window):
    old = getattr(nn, f"MaxPool{dims}d")(**window)
    new = mp.convert(nn.Sequential(old), 3, groups=2, gather=None, assignment="hard")[0]
    assert type(new) is LAYERS[dims]
    x = torch.rand(2, 2, *[9, 8, 7][:dims])
    with mp.supervise(None), pytest.warns(UserWarning, match="no labels"):
        got, wanted = new(x), old(x)
    torch.testing.assert_close(got, wanted)  # groups of one channel: max pooling


def test_mode_device_and_dtype_are_kept():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2)).double().eval()
    pool = mp.convert(model, 3)[1]
    assert not pool.training
    pool.allocate(4)
    assert pool.factor.dtype == torch.float64
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2))
    pool = mp.convert(model, 3)[1]
    pool.allocate(4)
    assert pool.factor.is_meta


def test_a_shared_layer_stays_shared():
    pool = nn.MaxPool2d(2)
    model = nn.ModuleDict({"a": nn.Sequential(pool), "b": pool})
    plan = mp.convert(model, 3, dry_run=True)
    assert plan[0].names == ("a.0", "b")
    assert model["b"] is pool
    mp.convert(model, 3)
    assert type(model["b"]) is mp.MultipartitePool2d
    assert model["a"][0] is model["b"]
    mp.revert(model)
    assert model["a"][0] is model["b"] is pool


def test_average_and_adaptive_stay_unless_asked_for():
    model = mp.convert(net(), 3)
    assert kinds(model) == {
        "2": "MultipartitePool2d",
        "3.mean": "AvgPool2d",
        "3.part": "AdaptiveAvgPool2d",
        "3.head": "AdaptiveAvgPool2d",
    }


@pytest.mark.parametrize(
    ("only", "skip", "changed"),
    [
        (nn.AvgPool2d, None, {"3.mean"}),
        ("3.mean", None, {"3.mean"}),
        ("3", None, {"3.mean", "3.part"}),
        ("3.*", None, {"3.mean", "3.part"}),
        ("*", None, {"2", "3.mean", "3.part"}),
        (["2", "3.head"], None, {"2", "3.head"}),
        (nn.AdaptiveAvgPool2d, None, {"3.part", "3.head"}),
        (nn.AdaptiveAvgPool2d, ["3.head"], {"3.part"}),
        ("*", nn.AvgPool2d, {"2", "3.part"}),
    ],
)
def test_only_and_skip_choose(only, skip, changed):
    model = net()
    before = kinds(model)
    after = kinds(mp.convert(model, 3, "stochastic", only=only, skip=skip))
    assert {name for name in before if after[name] != before[name]} == changed


def test_a_dry_run_lists_and_changes_nothing():
    model = net()
    before = kinds(model)
    plan = mp.convert(model, 3, only="3", dry_run=True)
    assert [item.names[0] for item in plan if item.new is not None] == ["3.mean", "3.part"]
    lines = repr(plan).splitlines()
    assert len(lines) == 4
    assert lines[0].endswith("stays: `only` does not name it")
    assert lines[1].startswith("3.mean: AvgPool2d(kernel_size=2, stride=2, padding=0) -> MultipartitePool2d(")
    assert "its full name or its class" in lines[-1]
    assert kinds(model) == before
    assert repr(mp.convert(nn.Linear(2, 2), 3, dry_run=True)) == "no pooling layers"


def test_adaptive_pooling_divides_evenly_or_says_so():
    options = {"groups": 4, "assignment": "hard"}
    model = mp.convert(nn.Sequential(nn.AdaptiveMaxPool2d((2, None))), 3, only=nn.AdaptiveMaxPool2d, **options)
    assert isinstance(model[0], AdaptivePool)
    x = torch.rand(2, 4, 6, 5)
    model.eval()
    with pytest.warns(UserWarning, match="no labels yet"):
        torch.testing.assert_close(model(x), nn.AdaptiveMaxPool2d((2, None))(x))
    torch.testing.assert_close(model(x[..., :4, :]), nn.AdaptiveMaxPool2d((2, None))(x[..., :4, :]))
    with pytest.raises(InputError, match=r"to \(2, 6\) needs .* multiples of that, got \(5, 6\)"):
        model(torch.rand(2, 4, 5, 6))


@pytest.mark.parametrize("pooling", ["max", "average"])
def test_adaptive_pooling_of_torch_is_torchs(pooling):
    model = mp.convert(net(), 3, pooling, only="3.part")
    assert kinds(model)["3.part"] == {"max": "AdaptiveMaxPool2d", "average": "AdaptiveAvgPool2d"}[pooling]
    assert model[3]["part"].output_size == 2


def test_revert_gives_back_the_very_layers():
    model = net()
    before = copy.deepcopy(model)
    layers = list(model.modules())
    mp.revert(mp.convert(model, 3, only=["*", "3.head"]).eval())
    assert list(model.modules()) == layers
    assert repr(model) == repr(before)
    assert not any(m.training for m in model.modules())
    with pytest.warns(UserWarning, match="found no layers that convert"):
        mp.revert(model)


def test_a_model_that_is_a_pooling_layer():
    old = nn.MaxPool2d(2)
    new = mp.convert(old, 3)
    assert type(new) is mp.MultipartitePool2d
    assert mp.revert(new) is old


def test_hooks_go_along_and_can_be_removed():
    model, seen = nn.Sequential(nn.MaxPool2d(2)), []
    handle = model[0].register_forward_hook(lambda *_: seen.append(1))
    mp.convert(model, 3, "stochastic")
    model(torch.rand(1, 1, 4, 4))
    handle.remove()
    model(torch.rand(1, 1, 4, 4))
    assert seen == [1]


def test_the_copy_of_a_converted_model_learns_alone_and_reverts():
    model = mp.convert(nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2)), 2)
    twin = copy.deepcopy(model)
    with mp.supervise(torch.tensor([0, 1])):
        twin(torch.rand(2, 1, 8, 8))
    assert twin[1].steps == 1
    assert model[1].steps == 0
    assert type(mp.revert(twin)[1]) is nn.MaxPool2d
    assert type(model[1]) is mp.MultipartitePool2d


class Odd(nn.MaxPool2d):
    def forward(self, x):
        return super().forward(x) + 1


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (nn.Linear(2, 2), "F.max_pool2d"),
        (nn.Sequential(Odd(2)), "F.max_pool2d"),
        (nn.Sequential(nn.AvgPool2d(2)), "of 1 pooling layers none was asked for"),
        (nn.Sequential(mp.MultipartitePool2d(2, num_classes=2)), "has multipartite layers already"),
    ],
)
def test_nothing_found_warns(model, hint):
    with pytest.warns(UserWarning, match=hint):
        assert mp.convert(model, 3) is model


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pooling": "multipartit"}, "did you mean multipartite"),
        ({"only": "3.meen"}, "unknown layer in only: '3.meen': did you mean 3.mean"),
        ({"skip": ["nothing*"]}, "unknown layer in skip: 'nothing.'.*known: 2, 3.mean"),
        ({"only": 3}, "only must hold names, patterns or module classes, got 3"),
        ({"only": [int]}, "only must hold"),
        ({"goups": 2}, "layer '2', MaxPool2d.*did you mean groups"),
        ({"assignment": "hart"}, "cannot become 'multipartite': unknown assignment 'hart'"),
    ],
)
def test_bad_input(arguments, message):
    model = net()
    before = kinds(model)
    with pytest.raises(InputError, match=message):
        mp.convert(model, 3, **arguments)
    assert kinds(model) == before


def test_what_one_layer_cannot_be_leaves_all_as_they_were():
    model = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2, return_indices=True))
    with pytest.raises(InputError, match=r"layer '1'.*cannot become 'stochastic'.*return_indices"):
        mp.convert(model, 3, "stochastic")
    assert all(type(m) is nn.MaxPool2d for m in model)


def plain():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU()), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip


def test_channels_are_known_where_the_layer_before_says_them():
    model = mp.convert(plain(), 3)
    assert [model[3].num_channels, model[5].num_channels] == [6, None]  # what a block gives is not looked into


@pytest.mark.parametrize("form", [lambda x: x, lambda x: (x,), lambda x: {"input": x}])
def test_an_example_tells_the_channels_of_every_layer(form):
    model, example = plain().train(), form(torch.rand(2, 1, 10, 10))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    mp.convert(model, 3, example=example)
    assert [model[3].num_channels, model[5].num_channels] == [6, 8]
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in before.items())
    assert all(module.training for module in model.modules())
    with pytest.warns(UserWarning, match="has seen no labels yet"):  # the dry run did not use the warning up
        model.eval()(torch.rand(2, 1, 10, 10))


def test_an_average_of_a_converted_model_follows_from_the_first_batch_on():
    model = mp.convert(plain(), 3, example=torch.rand(1, 1, 10, 10))
    averaged = AveragedModel(model, use_buffers=True)
    for step in range(2):
        with mp.supervise(torch.arange(6) % 3):
            model(torch.rand(6, 1, 10, 10, generator=torch.Generator().manual_seed(step)))
        averaged.update_parameters(model)
    assert averaged.module[3].statistics.total > 0
    assert torch.isfinite(averaged.module.eval()(torch.rand(2, 1, 10, 10))).all()


def test_every_layer_may_have_a_word_of_its_own():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.MaxPool2d(2), nn.AvgPool2d(2))
    uniform, focused = "multipartite:assignment=lines,focus=0", "multipartite:assignment=lines,focus=0.5"
    mp.convert(net, 3, f"{uniform}|{focused}")
    assert [net[i].focus for i in (1, 3)] == [0, 0.5]
    assert isinstance(net[4], nn.AvgPool2d)
    with mp.supervise(torch.tensor([0, 1])):
        assert net(torch.rand(2, 1, 20, 20)).shape == (2, 4, 1, 1)


def test_words_for_more_or_fewer_layers_than_there_are_change_nothing():
    net = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2))
    with pytest.raises(InputError, match="has words for 3 places, there are 2"):
        mp.convert(net, 3, "average|max|blur")
    assert all(type(layer) is nn.MaxPool2d for layer in net)
