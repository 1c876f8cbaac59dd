"""Learning in training: each batch once, by its labels, and nothing from what cannot be learned from."""

from __future__ import annotations

import linecache
import math
import threading

import pytest
import torch
from scipy.stats import ttest_1samp
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.checkpoint import checkpoint

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.projection import supervised_projection
from multipartite.statistics import ClassStatistics
from windows import labelled, printed2d, same, snapshot, taught


def layer_of(**options):
    return printed2d(2, **{"num_classes": 3, "dtype": torch.float64, "max_rows": None, "learn_every": 1} | options)


def statistics_of(x, labels, classes=3, **options):
    return ClassStatistics(classes, x.shape[1], **options).update(x, labels)


def assert_statistics(layer, expected):
    for name in ("count", "mean", "scatter"):
        torch.testing.assert_close(getattr(layer.statistics, name), getattr(expected, name))


# What labels may be


def test_indices_count_every_pixel_for_the_class_of_its_image():
    x, labels = labelled()
    layer = layer_of()
    with mp.supervise(labels):
        layer(x)
    count, mean, Sw, Sb = (torch.from_numpy(a) for a in reference.statistics(x.numpy(), labels.numpy(), 3))
    torch.testing.assert_close(layer.statistics.count, count)
    torch.testing.assert_close(layer.statistics.mean, mean)
    torch.testing.assert_close(layer.statistics.within[0], Sw)
    torch.testing.assert_close(layer.statistics.between[0], Sb)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32, torch.bool])
def test_one_hot_labels_are_indices(dtype):
    x, labels = labelled()
    one, two = layer_of(), layer_of()
    with mp.supervise(labels):
        expected = one(x)
    with mp.supervise(torch.nn.functional.one_hot(labels, 3).to(dtype)):
        torch.testing.assert_close(two(x), expected)
    assert_statistics(two, one.statistics)


def test_mixup_counts_a_row_for_each_class_by_its_weight():
    x, labels = labelled()
    hot = torch.nn.functional.one_hot(labels, 3).double()
    mixed = 0.7 * hot + 0.3 * hot.flip(0)
    layer = layer_of()
    with mp.supervise(mixed):
        layer(x)
    count, mean, Sw, _ = (torch.from_numpy(a) for a in reference.statistics(x.numpy(), mixed.numpy(), 3))
    torch.testing.assert_close(layer.statistics.count, count)
    torch.testing.assert_close(layer.statistics.mean, mean)
    torch.testing.assert_close(layer.statistics.within[0], Sw)


def test_ignored_images_count_nowhere():
    x, labels = labelled()
    labels = labels.clone()
    labels[::4] = -100
    layer = layer_of()
    with mp.supervise(labels):
        layer(x)
    assert_statistics(layer, statistics_of(x[labels >= 0], labels[labels >= 0]))


@pytest.mark.parametrize("max_rows", [None, 60])
def test_labels_a_pixel_come_at_the_resolution_of_the_input(max_rows):
    x, _ = labelled(size=6)
    labels = torch.randint(3, (12, 6, 6), generator=torch.Generator().manual_seed(0))
    x[:, 0] = labels  # so that a pixel shows whose label it was given
    layer, expected = layer_of(max_rows=max_rows), layer_of(max_rows=max_rows)
    with mp.supervise(labels.repeat_interleave(2, 1).repeat_interleave(2, 2)):
        layer(x)
    with mp.supervise(labels):
        expected(x)
    assert_statistics(layer, expected.statistics)
    rows = {None: 12 * 36, 60: 12 * 3}[max_rows]  # at most 5 pixels an image, and every 11th is one of them
    assert layer.statistics.total == rows
    torch.testing.assert_close(layer.statistics.mean[:, 0], torch.arange(3.0, dtype=torch.float64))
    if max_rows is None:
        assert_statistics(layer, statistics_of(x, labels))


def test_at_most_max_rows_pixels_are_looked_at_and_others_each_time():
    x, labels = labelled(size=10)
    layer = layer_of(max_rows=120, momentum=0.0)
    with mp.supervise(labels):
        layer(x)
        first = layer.statistics.mean.clone()
        seen = layer.statistics.total.item()
        layer(x)
    assert 100 <= seen <= 120
    assert 200 <= layer.statistics.total <= 240
    assert not torch.allclose(layer.statistics.mean, first)


@pytest.mark.parametrize("spatial", [(10, 10), (7,), (24, 24), (3, 4, 5), (1, 1), (2,)])
@pytest.mark.parametrize("max_rows", [1, 8, 40, 130])
def test_every_pixel_is_as_likely_to_be_looked_at(spatial, max_rows):
    layer = layer_of(max_rows=max_rows)
    seen = torch.zeros(math.prod(spatial))
    for layer.steps in range(4000):
        chosen = seen[layer._places(4, torch.Size(spatial), 1)]
        assert 1 <= len(chosen) <= max(1, max_rows // 4)
        chosen += 1
    chance = seen / 4000
    spread = (chance.mean() * (1 - chance.mean()) / 4000).sqrt()
    assert ((chance - chance.mean()).abs() <= 4.5 * spread).all()


def test_the_pixels_looked_at_lie_in_all_columns():
    layer = layer_of(max_rows=100 * 24)
    places = torch.arange(24 * 24)[layer._places(100, torch.Size((24, 24)), 1)]
    columns = set((places % 24).tolist())
    assert len(columns) >= 23


# When a layer learns


def test_statistics_forget_and_the_factor_is_refitted_every_so_often():
    layer = layer_of(momentum=0.1, refit_every=3)
    expected, refits = ClassStatistics(3, 6), []
    for step in range(8):
        x, labels = labelled(seed=step)
        with mp.supervise(labels):
            before = None if layer.factor is None else layer.factor.clone()
            layer(x)
        expected.decay(0.1).merge(statistics_of(x, labels))
        assert_statistics(layer, expected)
        if before is None or not torch.equal(before, layer.factor):
            refits.append(step)
            folded = mp.instance_ranking.fold(expected, supervised_projection(expected), "kl").factor
            torch.testing.assert_close(layer.factor @ layer.factor.mT, folded @ folded.mT)
    assert refits == [0, 3, 6]
    assert layer.updates == layer.steps == 8


def test_a_batch_stands_for_those_that_were_passed_over():
    layer = layer_of(momentum=0.1, learn_every=3, refit_every=5)
    expected = ClassStatistics(3, 6)
    turns = {0: 1, 3: 3, 5: 2, 6: 1, 9: 3, 10: 1, 12: 2}  # every third and every one with a refit
    for step in range(14):
        x, labels = labelled(seed=step)
        with mp.supervise(labels):
            layer(x)
        if step in turns:
            expected.decay(1 - 0.9 ** turns[step]).merge(statistics_of(x, labels))
        assert_statistics(layer, expected)
    assert layer.updates == layer.steps == 14


def test_a_batch_that_stands_for_five_shows_five_times_the_pixels():
    x, labels = labelled(size=10)  # 1200 pixels
    layer = layer_of(max_rows=100, momentum=0.0, learn_every=5, refit_every=50)
    seen = []
    with mp.supervise(labels):
        for _ in range(6):
            layer(x)
            seen.append(layer.statistics.total.item())
    assert 80 <= seen[0] <= 100
    assert seen[:5] == seen[:1] * 5
    assert 380 <= seen[5] - seen[4] <= 500


def test_a_layer_that_is_resumed_passes_over_the_same_batches():
    whole, first, second = (layer_of(learn_every=3, refit_every=4, max_rows=100) for _ in range(3))

    def train(layer, steps):
        for step in steps:
            x, labels = labelled(seed=step)
            with mp.supervise(labels):
                layer(x)

    train(whole, range(9))
    train(first, range(4))
    second.load_state_dict(first.state_dict())
    train(second, range(4, 9))
    assert same(snapshot(second), snapshot(whole))


@pytest.mark.parametrize("batched", ["index", "one-hot", "a pixel"])
def test_a_batch_that_is_passed_over_counts_however_its_labels_come(batched):
    """Class indices go a short way, others a long one."""
    layer, plain = layer_of(learn_every=3, refit_every=4), layer_of(learn_every=3, refit_every=4)
    for step in range(7):
        x, labels = labelled(seed=step)
        given = {
            "index": labels,
            "one-hot": torch.nn.functional.one_hot(labels, 3),
            "a pixel": labels[:, None, None].expand(-1, *x.shape[2:]),
        }[batched]
        with mp.supervise(labels):
            plain(x)
        with mp.supervise(given):
            layer(x)
        assert layer.updates == layer.steps == plain.updates == plain.steps == step + 1
    assert_statistics(layer, plain.statistics)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda labels: labels[:-1], "labels must be as many as images"),
        (lambda labels: labels + 1, r"labels must lie in \[0, 3\)"),
    ],
)
def test_wrong_labels_are_refused_in_a_batch_that_is_passed_over(given, message):
    layer = layer_of(learn_every=5)
    x, labels = labelled()
    with mp.supervise(labels):
        layer(x)
    with mp.supervise(given(labels)), pytest.raises(InputError, match=message):
        layer(x)
    assert layer.updates == layer.steps == 1


def test_a_batch_of_which_all_is_ignored_does_not_count():
    layer = layer_of(learn_every=5)
    x, labels = labelled()
    for given in (labels, torch.full_like(labels, -100), labels):
        with mp.supervise(given):
            layer(x)
    assert layer.updates == layer.steps == 2


def test_a_fit_learns_from_every_batch():
    batches = [labelled(seed=step) for step in range(4)]
    layer = layer_of(learn_every=3)
    mp.fit(layer, batches)
    expected = ClassStatistics(3, 6)
    for x, labels in batches:
        expected.merge(statistics_of(x, labels))
    assert_statistics(layer, expected)


def test_evaluation_learns_nothing_and_says_nothing():
    layer = taught()
    before = snapshot(layer)
    with mp.supervise(labelled()[1]):
        layer(labelled(seed=3)[0])
    assert same(snapshot(layer), before)


def test_training_without_labels_learns_nothing_and_warns_once():
    layer = taught().train()
    before = snapshot(layer)
    with pytest.warns(UserWarning, match="got no labels in training and learns nothing: run the forward inside"):
        layer(labelled(seed=3)[0])
    layer(labelled(seed=3)[0])  # would raise if it warned again
    assert same(snapshot(layer), before)


def test_an_inner_context_wins_and_none_switches_off():
    x, labels = labelled()
    layer = layer_of()
    with mp.supervise((labels + 1) % 3):
        with mp.supervise(labels):
            layer(x)
        with mp.supervise(None), pytest.warns(UserWarning, match="got no labels"):
            layer(x)
    assert layer.updates == 1
    assert_statistics(layer, statistics_of(x, labels))


def test_no_grad_and_inference_mode_learn_alike():
    x, labels = labelled()
    layers = [layer_of(num_channels=6) for _ in range(3)]
    with mp.supervise(labels):
        layers[0](x)
        with torch.no_grad():
            layers[1](x)
        with torch.inference_mode():
            layers[2](x)
    for layer in layers[1:]:
        assert same(snapshot(layer), snapshot(layers[0]))


def test_accumulated_gradients_count_every_part_once():
    x, labels = labelled()
    layer = layer_of(momentum=0.0, refit_every=1)
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    for part in (slice(0, 4), slice(4, 12)):
        with mp.supervise(labels[part]):
            layer(x[part] * weight).sum().backward()
    assert layer.updates == 2
    assert_statistics(layer, statistics_of(x, labels))


def test_learning_is_off_the_autograd_graph():
    x, labels = labelled()
    layer = layer_of(assignment="soft")
    with mp.supervise(labels):
        layer(x.requires_grad_())
    assert not any(buffer.requires_grad for buffer in layer.buffers())
    assert list(layer.parameters()) == []


def test_threads_teach_their_own_layers_their_own_labels():
    x, labels = labelled()
    layers = [layer_of() for _ in range(3)]
    barrier = threading.Barrier(3)

    def work(turn):
        with mp.supervise((labels + turn) % 3):
            barrier.wait(10)
            layers[turn](x)

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for turn, layer in enumerate(layers):
        assert_statistics(layer, statistics_of(x, (labels + turn) % 3))


# Gradient checkpointing


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("assignment", ["hard", "soft", "stochastic", "lines"])
def test_a_recomputed_forward_counts_once_and_picks_the_same(reentrant, inside, assignment):
    torch.manual_seed(0)
    x, labels = labelled(channels=3)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), layer_of(assignment=assignment, refit_every=1), nn.ReLU()).double()
    plain = nn.Sequential(nn.Conv2d(3, 6, 3), layer_of(assignment=assignment, refit_every=1), nn.ReLU()).double()
    plain[0].load_state_dict(net[0].state_dict())
    drawn = []
    net[1].register_forward_hook(lambda module, args, out: drawn.append(out.detach().clone()))
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    for step in range(2):
        torch.manual_seed(step)
        with mp.supervise(labels):
            out = checkpoint(net, one, use_reentrant=reentrant)
            if inside:
                out.square().sum().backward()
        if not inside:
            out.square().sum().backward()
        torch.manual_seed(step)
        with mp.supervise(labels):
            plain(two).square().sum().backward()
    assert len(drawn) == 4  # twice forward, twice again
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[2], drawn[3])
    assert net[1].updates == 2
    assert same(snapshot(net[1]), snapshot(plain[1]))
    assert torch.equal(one.grad, two.grad)


# What cannot be learned from


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_batches_with_nan_are_refused_and_counted(bad):
    layer = taught(refit_every=1).train()
    before = snapshot(layer)
    x, labels = labelled(seed=2)
    x[3, 2, 1, 1] = bad
    for time in (1, 2):
        message = rf"refused a batch with NaN or infinite activations \({time} so far\)"
        with pytest.warns(UserWarning, match=message), mp.supervise(labels):
            layer(x)
    assert layer.refused == 2
    assert same(snapshot(layer), before)
    with mp.supervise(labels):
        layer(labelled(seed=2)[0])
    assert layer.updates == 2


def test_a_first_batch_that_is_refused_leaves_the_layer_ready():
    layer = layer_of()
    x, labels = labelled()
    with pytest.warns(UserWarning, match="refused"), mp.supervise(labels):
        layer(torch.full_like(x, float("nan")))
    assert layer.steps == 0
    with mp.supervise(labels):
        layer(x)
    assert layer.informed


@pytest.mark.parametrize("labels", [torch.full((12,), -100), torch.zeros(12, 3)])
def test_a_batch_without_labelled_rows_is_no_update(labels):
    layer = taught().train()
    before = snapshot(layer)
    with mp.supervise(labels):
        layer(labelled()[0])
    assert same(snapshot(layer), before)


# Does it separate?


def own_digit_among_others(seed=0):
    """Windows of four pixels, one of the image's own digit and three of others, each in channels of its own.

    The features are those of eight fixed random filters and a ReLU on scikit-learn's digits. Only the first eight
    channels depend on the label; if the labels are shuffled nothing tells the four kinds of pixels apart.
    """
    data = load_digits()
    generator = torch.Generator().manual_seed(seed)
    filters = torch.randn(8, 1, 3, 3, generator=generator, dtype=torch.float64)
    features = torch.conv2d(torch.tensor(data.images)[:, None], filters - filters.mean((1, 2, 3), keepdim=True)).relu()
    features = features[..., ::2, ::2]  # [n, 8, 3, 3]
    n = len(features)
    x = features.new_zeros(n, 4, 8, 3, 2, 3, 2)
    for kind, (row, column) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        of = torch.arange(n) if kind == 0 else torch.randperm(n, generator=generator)
        x[:, kind, :, :, row, :, column] = features[of]
    return x.reshape(n, 32, 6, 6), torch.tensor(data.target)


def advantage(layer, x):
    """By how much the first kind of pixels is picked more often than by chance, a number an image."""
    indices = layer.eval()(x)[1][:, 0]  # [n, 3, 3]
    own = (indices // 6 % 2 == 0) & (indices % 2 == 0)
    return own.double().mean((1, 2)) - 1 / 4


def test_labels_separate_and_shuffled_labels_do_not():
    x, labels = own_digit_among_others()
    train, test = slice(0, 800), slice(800, 1300)

    def learned_from(labels):
        layer = layer_of(num_classes=10, return_indices=True)
        with mp.supervise(labels):
            layer(x[train])
        return layer

    layer = learned_from(labels[train])
    gained = advantage(layer, x[test])
    assert ttest_1samp(gained, 0, alternative="greater").pvalue < 1e-6
    score = layer.score(x[test]).reshape(-1, 3, 2, 3, 2)
    rest = (score.sum((2, 4)) - score[:, :, 0, :, 0]) / 3
    assert ttest_1samp((score[:, :, 0, :, 0] - rest).mean((1, 2)), 0, alternative="greater").pvalue < 1e-6
    generator = torch.Generator().manual_seed(1)
    shuffled = [
        advantage(learned_from(labels[train][torch.randperm(800, generator=generator)]), x[test]).mean().item()
        for _ in range(12)
    ]
    assert gained.mean() > max(shuffled)
    assert ttest_1samp(shuffled, 0).pvalue > 0.05


def test_where_looking_would_wait_refused_batches_are_told_at_the_next_refit(monkeypatch):
    """As on an accelerator: nothing is read back between refits, and nothing that is not finite gets in."""
    monkeypatch.setattr("multipartite.pooling.learning._is_at_hand", lambda tensor: False)
    pool = printed2d(2, num_classes=2, num_channels=3, learn_every=1, refit_every=3)
    good, bad = torch.rand(4, 3, 4, 4), torch.full((4, 3, 4, 4), torch.nan)
    with mp.supervise(torch.tensor([0, 1, 0, 1])):
        pool(good)
        before = pool.statistics.mean.clone()
        pool(bad)
        assert pool.refused == 0
        torch.testing.assert_close(pool.statistics.mean, before)
        pool(good)
        with pytest.warns(UserWarning, match=r"refused a batch .*1 so far"):
            pool(good)
    assert pool.refused == 1
    assert torch.isfinite(pool.statistics.scatter).all()


def test_warnings_point_at_the_users_line():
    net = nn.Sequential(nn.Identity(), layer_of())
    x, labels = labelled()
    with pytest.warns(UserWarning, match="got no labels") as heard:
        net(x)
    with pytest.warns(UserWarning, match="refused a batch") as refused, mp.supervise(labels):
        net(x * math.nan)
    for warning in (heard[0], refused[0]):
        assert warning.filename == __file__
        assert "net(x" in linecache.getline(warning.filename, warning.lineno)
