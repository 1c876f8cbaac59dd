import pytest

from made_runs import made_grid
from multipartite.experiments.report import collect
from multipartite.experiments.report.tables import tabulate
from multipartite.experiments.report.verdict import verdict


def said(folder, errors, train=None, dataset="digits"):
    return verdict(tabulate(collect(made_grid(folder, errors, train, dataset=dataset))), dataset)


def test_the_best_its_margin_and_the_support_of_the_seeds_are_named(tmp_path):
    best, _, _ = said(tmp_path, {"max": [5.0, 6.0, 7.0], "average": [7.0, 8.0, 9.5], "stochastic": [4.5, 5.4, 6.5]})
    assert best.startswith("Best: stochastic with 5.47% test error (mean of 3 seeds), 0.53 points below max")
    assert "95% interval -0.68 to -0.39: the seeds support it" in best


def test_seeds_that_disagree_do_not_settle_it(tmp_path):
    best, _, _ = said(tmp_path, {"max": [5.0, 6.0, 7.0], "average": [6.0, 5.0, 6.9]})
    assert best.startswith("Best: average")
    assert "the seeds do not settle it" in best


def test_the_margin_to_max_is_given_when_max_is_not_second(tmp_path):
    best, _, _ = said(tmp_path, {"max": [9.0, 9.0], "average": [7.0, 8.0], "stochastic": [4.0, 5.0]})
    assert "3.00 points below average" in best
    assert "4.50 points below max" in best


def test_a_draw_and_a_single_pooling_are_called_that(tmp_path):
    assert "level with max" in said(tmp_path / "a", {"max": [5.0, 6.0], "average": [6.0, 5.0]})[0]
    assert "nothing to compare it with" in said(tmp_path / "b", {"max": [5.0]})[0]


ORDERED = {"average": [9.0, 9.1], "max": [8.0, 8.1], "stochastic": [7.0, 7.1], "multipartite": [6.0, 6.1]}


def test_the_papers_order_is_found_when_it_holds(tmp_path):
    words = said(tmp_path, ORDERED, dataset="mnist")[1]
    assert words == "The paper's order (multipartite < stochastic < max < average) holds with multipartite."


def test_the_papers_order_is_denied_when_one_pair_is_wrong(tmp_path):
    words = said(tmp_path, {**ORDERED, "stochastic": [8.5, 8.5]}, dataset="mnist")[1]
    assert "does not hold with multipartite (stochastic 8.50 > max 8.05)" in words


def test_every_reading_of_the_method_is_judged_by_itself(tmp_path):
    words = said(tmp_path, {**ORDERED, "multipartite": [9.5, 9.5], "multipartite:assignment=soft": [1.0, 2.0]})[1]
    assert "holds with multipartite:assignment=soft" in words
    assert "it does not with multipartite (multipartite 9.50 > stochastic 7.05)" in words


def test_an_order_that_the_seeds_do_not_settle_is_called_that(tmp_path):
    words = said(tmp_path, {**ORDERED, "stochastic": [6.1, 7.5]})[1]
    assert "the seeds do not settle" in words
    assert "multipartite < stochastic" in words


def test_neighbours_are_found_when_a_baseline_is_missing(tmp_path):
    words = said(tmp_path, {"max": [5.0, 5.0], "multipartite": [6.0, 6.1]})[1]
    assert "multipartite 6.05 > max 5.00" in words


@pytest.mark.parametrize("errors", [{"max": [5.0]}, {"multipartite": [5.0], "multipartite:groups=2": [4.0]}])
def test_too_few_poolings_leave_the_order_open(tmp_path, errors):
    assert "cannot be judged" in said(tmp_path, errors)[1]


def test_the_gap_and_the_training_error_are_the_claim(tmp_path):
    holds = said(tmp_path / "a", ORDERED, {"multipartite": 5.9})[2]
    assert "Smallest train-test gap: multipartite with 0.15 points, max has 7.05" in holds
    assert "claim that its method has a smaller gap than any other holds with multipartite (0.15)" in holds
    assert "highest training error is that of multipartite (5.90%)" in holds
    fails = said(tmp_path / "b", ORDERED, {"max": 7.9})[2]
    assert "does not hold with multipartite (5.05)" in fails


UNSUPERVISED = "multipartite:assignment=stochastic,temperature=inf"


def test_every_reading_is_held_against_what_is_not_the_papers_method(tmp_path):
    readings = {"multipartite:assignment=stochastic": [6.0, 6.1], UNSUPERVISED: [7.0, 7.0]}
    train = {"multipartite:assignment=stochastic": 5.9, UNSUPERVISED: 6.5}
    words = said(tmp_path, ORDERED | readings, train)[2]
    assert "holds with multipartite:assignment=stochastic (0.15); it does not with multipartite (5.05)" in words


def test_draws_without_supervision_are_no_reading_of_the_method(tmp_path):
    _, order, gap = said(tmp_path, ORDERED | {UNSUPERVISED: [5.0, 5.0]}, {UNSUPERVISED: 4.9})
    assert order.endswith("holds with multipartite.")
    assert f"Smallest train-test gap: {UNSUPERVISED} with 0.10 points" in gap
    assert "does not hold with multipartite (5.05)" in gap
