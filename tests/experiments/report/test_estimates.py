import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from multipartite.experiments.report.estimates import Difference, difference, holm


def test_seeds_are_paired_by_number_and_not_by_place():
    found = difference({3: 1.0, 5: 2.0, 9: 0.0}, {5: 4.0, 3: 2.0})
    assert (found.mean, found.n) == (-1.5, 2)
    assert difference({1: 1.0}, {2: 1.0}) is None
    assert difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}).settled is False


def test_the_interval_and_the_probability_are_those_of_a_paired_t_test():
    ours, theirs = [4.0, 5.5, 4.4, 5.3], [5.0, 6.0, 5.5, 6.5]
    found = difference(dict(enumerate(ours)), dict(enumerate(theirs)))
    expected = stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p == pytest.approx(expected.pvalue)


@pytest.mark.parametrize(
    ("ours", "theirs", "doubt"),
    [
        ([5.0], [6.0], "one seed only"),
        ([5.0, 6.0], [6.5, 7.0], "two seeds only"),
        ([5.0, 6.11, 3.89], [6.11, 7.22, 5.0], "every seed has the same difference"),
        ([5.0, 6.0, 7.0], [5.0, 6.0, 7.0], "every seed has the same difference"),
    ],
)
def test_nothing_is_settled_in_doubt(ours, theirs, doubt):
    found = difference(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert found.doubt == doubt
    assert not found.settled
    assert found.p is None
    assert holm({"one": found}) == {}


def test_two_seeds_still_show_their_interval():
    assert difference({0: 5.0, 1: 6.0}, {0: 6.5, 1: 7.0}).interval == "-4.43 to +1.93"


def differences(values):
    return {str(i): difference(dict(enumerate(each)), dict.fromkeys(range(9), 0.0)) for i, each in enumerate(values)}


@given(
    st.lists(st.lists(st.integers(-20, 30), min_size=3, max_size=6, unique=True), min_size=1, max_size=7).map(
        lambda drawn: [[float(value) for value in each] for each in drawn]
    )
)
def test_holms_intervals_and_probabilities_agree_and_never_claim_more_than_the_plain_ones(values):
    plain = differences(values)
    corrected = holm(plain)
    assert corrected.keys() == plain.keys()
    for name, each in corrected.items():
        assert each.p >= plain[name].p
        assert each.low <= plain[name].low
        assert each.high >= plain[name].high
        assert each.settled == (each.p < 0.05)
    ranked = sorted(plain, key=lambda name: plain[name].p)
    bounds = [min(1.0, plain[name].p * (len(ranked) - i)) for i, name in enumerate(ranked)]
    assert [corrected[name].p for name in ranked] == pytest.approx([max(bounds[: i + 1]) for i in range(len(ranked))])


def test_one_comparison_needs_no_correction():
    plain = Difference(1.0, 0.2, 5, p=0.01)
    assert holm({"one": plain}) == {"one": plain}
