import pytest

from made_runs import made_summary
from multipartite.experiments.report.tables import tabulate
from multipartite.experiments.report.verdict import headline, verdict


def rows_of(errors, train=None, dataset="digits"):
    made = {
        pooling: {
            seed: made_summary(pooling, seed, test, (train or {}).get(pooling, 1.0)) for seed, test in enumerate(tests)
        }
        for pooling, tests in errors.items()
    }
    return tabulate(made, dataset)


def said(errors, train=None, dataset="digits"):
    return verdict(rows_of(errors, train, dataset), dataset)


def test_the_best_its_margin_and_the_support_of_the_seeds_are_named():
    errors = {"max": [5.0, 6.0, 7.0], "average": [7.0, 8.0, 9.5], "stochastic": [4.5, 5.4, 6.5]}
    best = said(errors)[0]
    assert best.startswith("Best: stochastic with 5.47% test error (mean of 3 seeds), 0.53 points below max")
    assert "95% interval -0.68 to -0.39: the seeds support it" in best
    expected = "stochastic has the lowest test error, 5.47%: 0.53 points below max, the seeds support it"
    assert headline(rows_of(errors)) == expected


def test_a_margin_is_of_the_seeds_that_both_have_as_its_interval_is():
    errors = {"max": [5.0, 6.0, 7.0, 9.0, 9.0], "stochastic": [4.5, 5.4, 6.5]}
    assert "0.53 points below max (95% interval -0.68 to -0.39" in said(errors)[0]
    assert "0.53 points below max" in headline(rows_of(errors))


def test_seeds_that_disagree_do_not_settle_it():
    errors = {"max": [5.0, 6.0, 7.0], "average": [6.0, 5.0, 6.9]}
    assert said(errors)[0].startswith("Best: average")
    assert "the seeds do not settle it" in said(errors)[0]
    assert headline(rows_of(errors)).endswith("0.03 points below max, the seeds do not settle it")


def test_a_margin_that_does_not_outlast_the_correction_is_not_claimed():
    alone = {"max": [5.0, 6.0, 7.0, 8.0], "average": [4.8, 5.9, 6.7, 7.5]}
    assert "the seeds support it" in said(alone)[0]
    many = {f"lp:power={k}": [9.0 + k, 9.5, 8.5, 10.0 + k] for k in range(5)}
    best = said(alone | many)[0]
    assert "after Holm's correction: the seeds do not settle it" in best
    assert headline(rows_of(alone)).endswith("the seeds support it")
    assert headline(rows_of(alone | many)).endswith("the seeds do not settle it")


def test_the_margin_to_max_is_given_when_max_is_not_second():
    best = said({"max": [9.0, 9.0], "average": [7.0, 8.0], "stochastic": [4.0, 5.0]})[0]
    assert "3.00 points below average" in best
    assert "4.50 points below max" in best


def test_a_draw_and_a_single_pooling_are_called_that():
    assert "level with max" in said({"max": [5.0, 6.0], "average": [6.0, 5.0]})[0]
    assert "nothing to compare it with" in said({"max": [5.0]})[0]


PRINTED = "multipartite-printed"
ORDERED = {
    "average": [9.0, 9.1, 9.3],
    "max": [8.0, 8.1, 8.2],
    "stochastic": [7.0, 7.1, 7.3],
    PRINTED: [6.0, 6.1, 6.2],
}


@pytest.mark.parametrize("seeds", [1, 2])
def test_nothing_is_claimed_from_fewer_than_three_seeds(seeds):
    errors = {pooling: tests[:seeds] for pooling, tests in ORDERED.items()}
    few = ["one seed only", "two seeds only"][seeds - 1]
    best, order, gap = said(errors)
    assert best.count("no claim") == 2
    assert f"cannot be judged: {few}" in order
    assert "cannot be judged" in gap
    for words in (best, order, gap, headline(rows_of(errors))):
        assert few in words
        assert "hold" not in words
        assert "support" not in words


def test_nothing_is_claimed_where_every_seed_has_the_same_difference():
    errors = {"max": [6.11, 7.22, 5.0], "average": [5.0, 6.11, 3.89], "stochastic": [8.0, 8.2, 8.9]}
    best = said(errors)[0]
    assert "1.11 points below max (every seed has the same difference, so no interval and no claim)" in best
    assert "support" not in best


def test_the_papers_order_is_found_when_it_holds():
    words = said(ORDERED, dataset="mnist")[1]
    expected = "(multipartite-printed < stochastic < max < average) holds: the seeds support every step."
    assert words == f"The paper's order {expected}"


def test_the_papers_order_is_denied_when_one_pair_is_wrong():
    words = said({**ORDERED, "stochastic": [8.5, 8.6, 8.8]}, dataset="mnist")[1]
    assert "does not hold: stochastic 8.63 > max 8.10 (95% interval of the difference +0.39 to +0.68)." in words


def test_a_pair_that_is_wrong_by_chance_denies_nothing():
    words = said({**ORDERED, "stochastic": [7.9, 8.6, 8.0]}, dataset="mnist")[1]
    assert "is not seen, though the seeds do not settle it: stochastic 8.17 > max 8.10" in words


def test_other_settings_of_the_method_have_no_part_in_the_papers_order():
    others = {"multipartite": [9.5, 9.5, 9.9], "multipartite:assignment=soft": [1.0, 2.0, 3.0]}
    assert said({**ORDERED, **others})[1] == said(ORDERED)[1]
    assert said({**ORDERED, **others})[0].startswith("Best: multipartite:assignment=soft")


def test_an_order_that_the_seeds_do_not_settle_is_called_that():
    words = said({**ORDERED, "stochastic": [6.1, 7.5, 6.2]})[1]
    assert "is seen, but the seeds do not settle multipartite-printed < stochastic" in words


def test_neighbours_are_found_when_a_baseline_is_missing():
    words = said({"max": [5.0, 5.0, 5.1], PRINTED: [6.0, 6.1, 6.0]})[1]
    assert "multipartite-printed 6.03 > max 5.03" in words


@pytest.mark.parametrize("errors", [{"max": [5.0]}, {PRINTED: [5.0], "multipartite:groups=2": [4.0]}])
def test_too_few_poolings_leave_the_order_open(errors):
    assert "cannot be judged" in said(errors)[1]


def test_the_gap_and_the_training_error_are_the_claim():
    holds = said(ORDERED, {PRINTED: 5.9})[2]
    assert "Smallest train-test gap: multipartite-printed with 0.20 points, max has 7.10" in holds
    assert "claim that its method has a smaller gap than average, max and stochastic holds" in holds
    assert "(multipartite-printed 0.20, stochastic 6.13; 95% interval of the difference -6.08 to -5.79)" in holds
    assert "highest training error is that of multipartite-printed (5.90%)" in holds
    fails = said({**ORDERED, "max": [8.0, 8.1, 8.3]}, {"max": 7.9})[2]
    assert "does not hold (multipartite-printed 5.10, max 0.23; 95% interval" in fails


def test_a_gap_that_the_seeds_do_not_settle_is_called_that():
    words = said({**ORDERED, "max": [5.8, 6.4, 7.0]})[2]
    assert "is seen, but the seeds do not settle it (multipartite-printed 5.10, max 5.40;" in words


def test_the_smallest_gap_may_be_that_of_any_pooling():
    words = said(ORDERED | {"multipartite": [5.0, 5.0, 5.1]}, {"multipartite": 4.9})[2]
    assert "Smallest train-test gap: multipartite with 0.13 points, max has 7.10 (95% interval" in words
