"""The context that hands labels over: it nests, and neither threads nor exceptions upset it."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import multipartite as mp
import reference
from multipartite.errors import InputError
from multipartite.labels import current_labels, to_resolution
from windows import bounded


def test_contexts_nest_and_the_inner_one_wins():
    with mp.supervise([1]):
        with mp.supervise(torch.tensor([2, 3])):
            assert current_labels()[0].tolist() == [2, 3]
            with mp.supervise(None):
                assert current_labels() is None
        assert current_labels()[0].tolist() == [1]
    assert current_labels() is None


def test_labels_are_gone_after_an_exception():
    with pytest.raises(KeyError), mp.supervise([1]):
        raise KeyError
    assert current_labels() is None


def test_threads_do_not_see_each_others_labels():
    seen, barrier = {}, threading.Barrier(2)

    def work(label):
        with mp.supervise([label]):
            barrier.wait(10)  # both are inside now
            seen[label] = current_labels()[0].tolist()

    with mp.supervise([0]):
        threads = [threading.Thread(target=work, args=(label,)) for label in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert current_labels()[0].tolist() == [0]
    assert seen == {1: [1], 2: [2]}


def test_labels_leave_the_autograd_graph():
    with mp.supervise(torch.ones(2, 3, requires_grad=True)):
        assert not current_labels()[0].requires_grad


def test_what_is_no_tensor_is_refused_and_nothing_stays():
    with (
        pytest.raises(InputError, match="labels must be a tensor, an array or a list of numbers"),
        mp.supervise(["cat"]),
    ):
        pass
    assert current_labels() is None


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.data())
@bounded
def test_pixels_take_the_label_of_their_nearest_neighbour(size, data):
    to = torch.Size([data.draw(st.integers(1, 9)) for _ in size])
    labels = torch.randint(7, (2, *size), generator=torch.Generator().manual_seed(sum(size)))
    expected = F.interpolate(labels[:, None].double(), tuple(to), mode="nearest-exact")[:, 0].long()
    assert torch.equal(to_resolution(labels, to), expected)


def test_labels_without_pixels_are_refused():
    with pytest.raises(InputError, match="labels a pixel must cover the image, got shape"):
        to_resolution(torch.zeros(2, 0, 3, dtype=torch.int64), torch.Size([2, 3]))


def test_labels_a_pixel_count_pixels_for_their_classes():
    x = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.randint(4, (2, 8, 8), generator=torch.Generator().manual_seed(1))
    labels[labels == 3] = -100
    layer = mp.MultipartitePool2d.printed(2, num_classes=3, momentum=0.0)
    with mp.supervise(labels):
        layer(x)
    count, mean, Sw, _ = reference.statistics(x.numpy(), to_resolution(labels, x.shape[2:]).numpy(), 3)
    torch.testing.assert_close(layer.statistics.count, torch.from_numpy(count))
    torch.testing.assert_close(layer.statistics.mean, torch.from_numpy(mean))
    torch.testing.assert_close(layer.statistics.within[0], torch.from_numpy(Sw))
