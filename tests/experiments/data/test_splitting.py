import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipartite.errors import InputError
from multipartite.experiments.data import stratified


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=200), st.data())
def test_a_choice_divides_the_rows_and_keeps_every_class(labels, data):
    labels = torch.tensor(labels)
    classes = labels.unique()
    if len(classes) == len(labels):
        return
    count = data.draw(st.integers(len(classes), len(labels) - 1))
    chosen, rest = stratified(labels, count, seed=data.draw(st.integers(0, 9)))
    assert sorted([*chosen.tolist(), *rest.tolist()]) == list(range(len(labels)))
    assert len(chosen) == count
    assert labels[chosen].unique().equal(classes)
    assert chosen.tolist() == sorted(chosen.tolist())


def test_shares_are_proportional():
    labels = torch.tensor([0] * 600 + [1] * 300 + [2] * 100)
    chosen, _ = stratified(labels, 50)
    assert labels[chosen].bincount().tolist() == [30, 15, 5]


def test_a_rare_class_keeps_one_and_the_sum_stays():
    labels = torch.tensor([0] * 997 + [1, 2, 3])
    chosen, _ = stratified(labels, 10)
    assert labels[chosen].bincount().tolist() == [7, 1, 1, 1]


def test_remainders_go_to_those_who_lose_most_by_rounding():
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)  # exact shares 3.5, 2.1, 1.4
    chosen, _ = stratified(labels, 7)
    assert labels[chosen].bincount().tolist() == [4, 2, 1]


def test_the_seed_alone_decides():
    labels = torch.from_numpy(np.arange(500) % 5)
    first, again, other = (stratified(labels, 50, seed)[0] for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_the_choice_is_random_within_a_class():
    labels = torch.zeros(1000, dtype=torch.int64)
    chosen, _ = stratified(labels, 500)
    assert 400 < chosen.double().mean() < 600


@pytest.mark.parametrize("count", [-1, 0, 1, 6, 7])
def test_impossible_counts_are_refused(count):
    with pytest.raises(InputError, match=f"from 2 to 5 of them, got {count}"):
        stratified(torch.tensor([0, 0, 0, 1, 1, 1]), count)
