"""fit: one streamed pass settles every layer, front to back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import multipartite as mp
from multipartite.errors import InputError
from multipartite.statistics import ClassStatistics
from windows import activations, labelled, printed2d, printed_pool, same, snapshot


def pool(**options):
    return printed2d(2, **{"num_classes": 3, "dtype": torch.float64, "max_rows": None} | options)


def network(**options):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        pool(**options),
        nn.Dropout(0.5),
        nn.Conv2d(6, 4, 2),
        pool(**options),
    ).double()


X, LABELS = labelled(channels=2, size=10, images=24)
BATCHES = [(X[i : i + 8], LABELS[i : i + 8]) for i in range(0, 24, 8)]


def test_the_first_layer_sees_all_data_once_whatever_the_momentum():
    model = network(momentum=0.5)
    assert mp.fit(model, BATCHES) is model
    seen = model.eval()[:3](X)
    expected = ClassStatistics(3, 6).update(seen, LABELS)
    for name in ("count", "mean", "scatter"):
        torch.testing.assert_close(getattr(model[3].statistics, name), getattr(expected, name))
    assert model[3].updates == 3
    assert model[3].momentum == 0.5
    assert not model[3].fitting


def test_later_layers_see_earlier_ones_as_they_are_after_the_batch():
    model = network()
    mp.fit(model, BATCHES)
    replay = network().eval()
    expected = ClassStatistics(3, 4)
    first = ClassStatistics(3, 6)
    for x, labels in BATCHES:
        features = replay[:3](x)
        first.update(features, labels)
        factor = mp.instance_ranking.fold(first, mp.projection.supervised_projection(first)).factor
        pooled = printed_pool(features, factor, 2)
        expected.update(replay[5](pooled), labels)
    torch.testing.assert_close(model[6].statistics.mean, expected.mean)
    torch.testing.assert_close(model[6].statistics.scatter, expected.scatter)


def test_two_passes_let_the_second_layer_see_the_finished_first():
    one, two = mp.fit(network(), BATCHES), mp.fit(network(), BATCHES, passes=2)
    assert same(snapshot(one[3]), snapshot(two[3]))
    seen = two.eval()[:6](X)
    expected = ClassStatistics(3, 4).update(seen, LABELS)
    torch.testing.assert_close(two[6].statistics.mean, expected.mean)
    torch.testing.assert_close(two[6].statistics.scatter, expected.scatter)
    assert not torch.equal(one[6].statistics.mean, two[6].statistics.mean)
    assert two[6].updates == 3


class Backwards(nn.Module):
    """Runs its layers in another order than it names them."""

    def __init__(self):
        super().__init__()
        self.late, self.early, self.unused = pool(), pool(), pool()

    def forward(self, x):
        return self.late(self.early(x))


def test_passes_follow_the_order_in_which_layers_run():
    model = Backwards()
    with mp.supervise(torch.arange(2)):
        model.unused(activations(2, 2, 4, 4))
    kept = snapshot(model.unused)
    x, labels = labelled(channels=8, classes=3, size=12, images=24)
    mp.fit(model, [(x[i : i + 6], labels[i : i + 6]) for i in range(0, 24, 6)], passes=2)
    expected = ClassStatistics(3, 8).update(model.eval().early(x), labels)
    torch.testing.assert_close(model.late.statistics.mean, expected.mean)
    assert same(snapshot(model.unused), kept)  # what does not run is not forgotten


def test_modes_weights_and_statistics_of_other_layers_stay():
    model = network().train()
    model[1].eval()
    before = copy.deepcopy(model[1].state_dict())
    weights = [p.clone() for p in model.parameters()]
    mp.fit(model, BATCHES)
    assert [m.training for m in model] == [True, False, True, True, True, True, True]
    assert all(torch.equal(before[name], tensor) for name, tensor in model[1].state_dict().items())
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))


def test_a_generator_is_read_once_and_a_loader_as_well():
    streamed = mp.fit(network(), (batch for batch in BATCHES))
    loaded = mp.fit(network(), DataLoader(TensorDataset(X, LABELS), batch_size=8))
    assert same(snapshot(streamed[6]), snapshot(loaded[6]))


def test_fitting_again_starts_afresh_and_more_passes_than_layers_end_early():
    model = mp.fit(network(), BATCHES)
    once = snapshot(model[6])
    assert same(snapshot(mp.fit(model, BATCHES)[6]), once)
    reads = []

    class Loader:
        def __iter__(self):
            reads.append(1)
            return iter(BATCHES)

    mp.fit(network(), Loader(), passes=9)
    assert len(reads) == 2


def test_progress_is_shown_where_asked_for(capsys):
    mp.fit(network(), BATCHES, progress=True)
    captured = capsys.readouterr()
    assert "fit 1/1" in captured.out + captured.err
    mp.fit(network(), BATCHES, progress=False)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("batches", "options", "message"),
    [
        ([], {}, "the loader gave no batches"),
        (BATCHES, {"passes": 0}, "passes must be at least 1, got 0"),
        (iter(BATCHES), {"passes": 2}, "an iterator can be read once only: give a loader, or passes=1"),
        ([X], {}, r"batches must be \(input, labels\) or dicts .*, got Tensor"),
        ([*BATCHES, (X, LABELS + 1)], {}, r"labels must lie in \[0, 3\)"),
        ([*BATCHES, (X, LABELS[:3])], {}, "got 3 labels for a batch of 24"),
    ],
)
@pytest.mark.parametrize("settled", [True, False])
def test_bad_input_is_refused_and_everything_put_back(batches, options, message, settled):
    model = network()
    if settled:
        mp.fit(model, BATCHES[:1])
    model.train()
    before = [snapshot(model[i]) for i in (3, 6)]
    with pytest.raises(InputError, match=message):
        mp.fit(model, batches, **options)
    assert all(same(snapshot(model[i]), memory) for i, memory in zip((3, 6), before, strict=True))
    assert all(module.training for module in model.modules() if not isinstance(module, ClassStatistics))
    assert not model[3].fitting


def test_a_model_without_multipartite_layers_is_refused():
    with pytest.raises(InputError, match="no multipartite layers to fit"):
        mp.fit(nn.Sequential(nn.ReLU()), BATCHES)


class Named(nn.Module):
    """Takes its images by name, as models of Hugging Face do."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, pixel_values, scale=1.0):
        return self.net(pixel_values * scale)


@pytest.mark.parametrize("name", ["labels", "label", "target"])
def test_batches_may_be_dicts(name):
    batches = [{"pixel_values": x, name: y} for x, y in BATCHES]
    model = mp.fit(Named(), batches)
    assert same(snapshot(model.net[6]), snapshot(mp.fit(network(), BATCHES)[6]))


def test_functions_take_inputs_and_labels_out_of_a_batch():
    batches = [{"image": x, "truth": y} for x, y in BATCHES]
    model = mp.fit(network(), batches, inputs=lambda batch: batch["image"], labels=lambda batch: batch["truth"])
    assert same(snapshot(model[6]), snapshot(mp.fit(network(), BATCHES)[6]))
    with pytest.raises(InputError, match=r"dicts with one of labels, label, .* got dict with image, truth; give"):
        mp.fit(network(), batches)


def test_fitting_teaches_lines_how_far_to_trust_their_scores():
    model = network(gather="max", assignment="lines", focus="auto")
    assert model[3].trust is None
    mp.fit(model, BATCHES)
    for layer in (model[3], model[6]):
        assert layer.trust.shape == (1,)
        assert 0 < layer.trust < 1
