"""The summary: ranks and tallies of known numbers, what is said first, and the page in a real browser."""

import csv
import dataclasses
import json

import pytest

from browser import SCREENS, assert_legible, screen
from made_runs import made_grid, made_run
from multipartite.errors import InputError
from multipartite.experiments.report import summarise, write_summary
from multipartite.experiments.report.summary import Tally, find_comparisons

OURS = "multipartite:assignment=stochastic"
FIRST = {"max": [5.0, 6.0, 7.0], "average": [7.0, 8.1, 9.0], OURS: [4.0, 5.1, 6.0]}
SECOND = {"max": [20.0, 21.0, 22.0], "average": [18.0, 18.9, 20.0], OURS: [19.0, 22.0, 21.0], "stochastic": [9.0] * 3}
THIRD = {"max": [1.0, 1.2, 1.4], "average": [2.0, 2.3, 2.4], OURS: [0.5, 0.6, 0.9]}


def made(folder, *tables):
    for number, errors in enumerate(tables):
        made_grid(folder / f"set-{number}", errors)
    return folder


def test_ranks_tallies_and_cost_of_known_numbers(tmp_path):
    found = summarise([made(tmp_path, FIRST, SECOND, THIRD)])
    assert found.comparisons == ("set-0", "set-1", "set-2")
    by_name = {each.pooling: each for each in found.standings}
    assert list(by_name) == [OURS, "average", "max"]  # level ones by name
    assert by_name[OURS].ranks == (1.0, 2.0, 1.0)
    assert by_name["max"].ranks == (2.0, 3.0, 2.0)
    assert by_name["average"].ranks == (3.0, 1.0, 3.0)
    assert by_name[OURS].rank == pytest.approx(4 / 3)
    assert by_name[OURS].against_max == Tally(2, 1, 0)  # on the second the seeds disagree
    assert by_name["average"].against_max == Tally(1, 0, 2)
    assert by_name["max"].against_max is None
    assert by_name["max"].against_all == Tally(2, 1, 3)
    assert by_name["max"].relative == by_name["max"].time == 1.0
    assert by_name[OURS].relative == pytest.approx((5.0333333 / 6 + 20.6666667 / 21 + 0.6666667 / 1.2) / 3)
    assert by_name[OURS].time == 2.0
    assert found.left_out == {"stochastic": ("set-0", "set-2")}
    assert "stochastic (not in set-0, set-2)" in found.findings[-1]


def test_training_time_is_of_runs_of_the_same_code_alone(tmp_path):
    for number in range(2):
        made_grid(tmp_path / f"set-{number}", {"max": [5.0, 6.0], "average": [7.0, 8.0]})
        made_grid(tmp_path / f"set-{number}", {OURS: [4.0, 5.0]}, version="2")
    times = {each.pooling: each.time for each in summarise([tmp_path]).standings}
    assert times == {"max": 1.0, "average": 2.0, OURS: None}


def test_where_poolings_are_missing_is_said_of_a_few_alone(tmp_path):
    many = {f"multipartite:groups={2 * k}": [5.0, 5.5] for k in range(1, 12)}
    found = summarise([made(tmp_path, FIRST, {**SECOND, **many})])
    assert len(found.left_out) > 10
    assert "11 settings of multipartite" in found.findings[-1]
    assert "groups" not in found.findings[-1]
    assert "not in" not in found.findings[-1]


def test_a_rival_that_is_ahead_is_said_first(tmp_path):
    rival = {"max": [4.0, 5.0, 6.0], "average": [8.0, 9.0, 9.5], OURS: [6.0, 7.0, 8.5]}
    found = summarise([made(tmp_path, rival, rival)])
    assert found.headline.startswith("A rival is ahead of ours by mean rank over 2 comparisons: max (1.00)")
    assert f"our best, {OURS}, has 2.00 and is not told apart from max" in found.headline


def test_ours_is_named_with_the_best_rival_when_it_is_ahead(tmp_path):
    found = summarise([made(tmp_path, FIRST, THIRD)])
    assert found.headline.startswith(f"{OURS} has the lowest mean rank, 1.00, over 2 comparisons; the best rival, max")
    assert "not told apart" in found.headline


def test_what_many_comparisons_agree_in_is_told_apart(tmp_path):
    found = summarise([made(tmp_path, *[FIRST] * 12)])
    assert found.p < 0.001
    assert found.headline.endswith(f"has 2.00 and is told apart from {OURS}")
    assert found.groups == []


def test_nothing_is_told_apart_where_the_ranks_as_a_whole_may_be_chance(tmp_path):
    found = summarise([made(tmp_path, *[FIRST] * 12)])
    first, last = found.standings[0], found.standings[-1]
    assert found.told_apart(first, last)
    assert not dataclasses.replace(found, p=0.06).told_apart(first, last)


def test_two_poolings_are_told_apart_by_many_comparisons(tmp_path):
    two = {"max": [5.0, 6.0, 7.0], OURS: [4.0, 5.1, 6.0]}
    found = summarise([made(tmp_path, *[two] * 12)])
    assert found.p is None
    assert found.told_apart(*found.standings)
    assert "Friedman's test needs three poolings" in found.findings[0]


def test_equals_are_level(tmp_path):
    level = {"max": [4.0, 5.0, 6.0], OURS: [5.0, 6.0, 4.0]}
    found = summarise([made(tmp_path, level, level)])
    assert found.headline == f"{OURS} and a rival, max, are level: mean rank 1.50 over 2 comparisons"
    assert found.p is None


def test_validation_errors_can_rank_instead(tmp_path):
    folder = made(tmp_path, FIRST, THIRD)
    for path in folder.glob("*/runs/multipartite*/*/summary.json"):
        summary = json.loads(path.read_text())
        summary["validation"]["top1"] = 99.0
        path.write_text(json.dumps(summary))
    ranks = {part: [each.pooling for each in summarise([folder], part).standings] for part in ("test", "validation")}
    assert ranks == {"test": [OURS, "max", "average"], "validation": ["max", "average", OURS]}
    with pytest.raises(InputError, match=r"unknown part 'training': .*known: test, validation"):
        summarise([folder], "training")


def test_means_are_of_the_seeds_that_all_have(tmp_path):
    """More seeds of one pooling, easy or hard ones, change no rank."""
    more = FIRST | {"max": [*FIRST["max"], 0.1, 0.1]}
    alike, found = (summarise([made(tmp_path / name, first, THIRD)]) for name, first in (("a", FIRST), ("b", more)))
    assert [(e.pooling, e.ranks, e.errors) for e in found.standings] == [
        (e.pooling, e.ranks, e.errors) for e in alike.standings
    ]
    assert found.seeds == (3, 3)
    page, _ = write_summary([tmp_path / "b"], tmp_path / "out")
    assert "set-0 (3 seeds)" in page.read_text()
    assert "set-0 (3 seeds)" in (tmp_path / "out" / "summary.md").read_text()


def test_poolings_without_a_common_seed_are_refused(tmp_path):
    made(tmp_path, FIRST, {"max": [5.0, 6.0]})
    made_run(tmp_path / "set-1", "average", 7, 5.0)
    with pytest.raises(InputError, match="set-1: average, max have no seed in common, ranks need one: train"):
        summarise([tmp_path])


def test_named_poolings_are_ranked_alone_by_all_the_seeds_that_they_have(tmp_path):
    one = {"max": [5.0, 6.0, 7.0], "multipartite:focus=0,assignment=lines": [6.0, 5.0, 8.5], "average": [9.0]}
    folder = made(tmp_path, one, one)
    assert summarise([folder]).seeds == (1, 1)
    found = summarise([folder], poolings="multipartite:focus=0,assignment=lines,max")
    assert [each.pooling for each in found.standings] == ["max", "multipartite:assignment=lines,focus=0"]
    assert found.seeds == (3, 3)
    assert found.standings[1].errors == (6.5, 6.5)
    assert summarise([folder], families=True, poolings="multipartite,max").seeds == (3, 3)
    with pytest.raises(InputError, match=r"unknown pooling of these comparisons: 'avarage'.*average"):
        summarise([folder], poolings="max,avarage")


def test_settings_of_a_family_are_compared_by_the_seeds_that_all_of_them_have(tmp_path):
    one = {"max": [5.0, 6.0, 7.0], "multipartite:groups=2": [4.0, 5.0, 6.1], "multipartite": [4.5, 5.5, 6.5, 0.1, 0.1]}
    found = summarise([made(tmp_path, one, one)], families=True)
    assert next(each for each in found.standings if each.ours).settings == ("multipartite:groups=2",) * 2


def test_of_a_family_the_best_setting_by_validation_counts(tmp_path):
    """Validation errors are made equal to the test errors; that they choose is seen where they are changed."""
    one = {"max": [5.0, 6.0, 7.0], "multipartite:groups=2": [4.0, 5.0, 6.1], "multipartite": [8.0, 9.0, 9.5]}
    two = {"max": [5.0, 6.0, 7.0], "multipartite:groups=4|multipartite:groups=2": [4.0, 5.0, 6.1]}
    folder = made(tmp_path, one, two)
    with pytest.raises(InputError, match="share 1 poolings"):
        summarise([folder])
    found = summarise([folder], families=True)
    ours, rival = found.standings
    assert (ours.pooling, rival.pooling) == ("multipartite", "max")
    assert ours.settings == ("multipartite:groups=2", "multipartite:groups=4|multipartite:groups=2")
    assert ours.errors == pytest.approx((5.0333333, 5.0333333))
    assert "multipartite:groups=2 on set-0, multipartite:groups=4|multipartite:groups=2 on set-1" in found.findings[-1]
    for path in folder.glob("set-0/runs/multipartite-groups*/*/summary.json"):
        summary = json.loads(path.read_text())
        summary["validation"]["top1"] = 99.0
        path.write_text(json.dumps(summary))
    again = next(each for each in summarise([folder], families=True).standings if each.ours)
    assert again.settings[0] == "multipartite"
    assert again.errors[0] == pytest.approx(8.8333333)


def test_of_a_name_the_setting_that_was_tuned_counts_and_no_other(tmp_path):
    lines, wide = "multipartite:assignment=lines,focus=0", "blur:width=5"
    one = {"max": [5.0, 6.0, 7.0], "multipartite": [8.0, 9.0, 9.5], lines: [4.0, 5.0, 6.1], "blur": [6.0] * 3}
    two = {"max": [5.0, 6.0, 7.0], "multipartite": [4.5, 5.0, 6.0], lines: [1.0, 1.0, 1.0], wide: [2.0] * 3}
    folder = made(tmp_path, one, two | {"blur": [1.0] * 3})
    (folder / "set-0" / "tuning-multipartite.json").write_text(
        json.dumps([{"word": "multipartite:focus=0,assignment=lines"}])
    )
    (folder / "set-1" / "tuning-blur.json").write_text(json.dumps([{"word": wide, "error": 9.0}, {"word": "blur"}]))
    found = summarise([folder], tuned=True)
    assert {each.pooling: each.settings for each in found.standings} == {
        "multipartite": (lines, "multipartite"),  # as it comes where it was not tuned
        "blur": ("blur", wide),  # though another is better
        "max": ("max", "max"),
    }
    assert f"{lines} on set-0, multipartite on set-1" in found.findings[-1]
    with pytest.raises(InputError, match="choose one of the two"):
        summarise([folder], tuned=True, families=True)
    (folder / "set-1" / "tuning-blur.json").write_text(json.dumps([{"word": "blur:width=7"}]))
    with pytest.raises(InputError, match="set-1: tune chose blur:width=7, which is not tested there"):
        summarise([folder], tuned=True)
    (folder / "set-1" / "tuning-blur.json").write_text("[]")
    with pytest.raises(InputError, match=r"tuning-blur.json is not what tune writes: delete it"):
        summarise([folder], tuned=True)


def test_comparisons_are_found_given_or_inside_and_files_are_passed_over(tmp_path):
    made(tmp_path, FIRST, SECOND)
    (tmp_path / "README.md").write_text("words")
    one, two = tmp_path / "set-0", tmp_path / "set-1"
    assert find_comparisons([tmp_path]) == find_comparisons([one, tmp_path / "README.md", two, one]) == [one, two]
    with pytest.raises(InputError, match="a summary is over several comparisons, got 1: give more folders"):
        find_comparisons([one])


def test_comparisons_of_one_name_are_told_apart_by_their_folders(tmp_path):
    made(tmp_path / "a", FIRST)
    made(tmp_path / "b", FIRST)
    assert summarise([tmp_path]).comparisons == (str(tmp_path / "a" / "set-0"), str(tmp_path / "b" / "set-0"))


def test_comparisons_without_common_poolings_are_refused(tmp_path):
    made(tmp_path, {"max": [1.0], "average": [2.0]}, {"max": [1.0], "stochastic": [2.0]})
    with pytest.raises(InputError, match=r"share 1 poolings \(max\), ranks need two"):
        summarise([tmp_path])


def test_damaged_and_unfinished_runs_are_named(tmp_path):
    made(tmp_path, FIRST, SECOND)
    made_run(tmp_path / "set-0", "max", 9, 1.0, finished=False)
    torn = tmp_path / "set-1" / "runs" / "max" / "seed-0"
    (torn / "metrics.jsonl").write_text("")
    page, found = write_summary([tmp_path], tmp_path / "out")
    assert len(found.warnings) == 2
    assert "Unfinished and left out in set-0: runs/max/seed-9." in page.read_text()
    assert f"delete {torn}" in (tmp_path / "out" / "summary.md").read_text()


def test_all_files_are_written_and_hold_the_numbers(tmp_path):
    page, found = write_summary([made(tmp_path, FIRST, SECOND, THIRD)], tmp_path / "out")
    names = ["cost.png", "errors.csv", "pairs.csv", "ranks.png", "summary.csv", "summary.html", "summary.md"]
    assert sorted(path.name for path in page.parent.iterdir()) == names
    texts = {name: (page.parent / name).read_text() for name in names if name.endswith("csv")}
    rows = {name: list(csv.DictReader(text.splitlines())) for name, text in texts.items()}
    assert [row["pooling"] for row in rows["summary.csv"]] == [each.pooling for each in found.standings]
    assert float(rows["summary.csv"][0]["mean_rank"]) == pytest.approx(4 / 3)
    assert len(rows["errors.csv"]) == 9
    assert {"pooling": OURS, "against": "max", "wins": "2", "ties": "1", "losses": "0"} in rows["pairs.csv"]
    text = (page.parent / "summary.md").read_text()
    assert f"| 1 | {OURS} | 1.33 |" in text
    for name in ("ranks.png", "cost.png"):
        assert (page.parent / name).read_bytes().startswith(b"\x89PNG")


def test_without_max_there_is_no_cost(tmp_path):
    tables = ({"average": [1.0, 2.0], OURS: [2.0, 1.0]}, {"average": [1.0, 2.0], OURS: [2.0, 3.0]})
    page, found = write_summary([made(tmp_path, *tables)], tmp_path / "out")
    assert not found.priced
    assert not (page.parent / "cost.png").exists()
    assert "Error against cost" not in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_the_page_fits_the_screen_and_its_charts_work(browser, tmp_path, width, dark):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    long = {"multipartite:assignment=stochastic,criterion=bhattacharyya,groups=5,temperature=0.5": [5.0, 5.5, 6.5]}
    folder = made(tmp_path, FIRST | long, SECOND | long, THIRD | long, FIRST | long)
    page, _ = write_summary([folder], tmp_path / "out")
    screen(browser, width, 900, dark=dark)
    browser.get(page.as_uri())
    find = lambda css: browser.find_elements(By.CSS_SELECTOR, css)  # noqa: E731
    assert len(find("#standings tbody tr")) == len(find("#errors tbody tr")) == 4
    assert len(find("#ranks .group")) >= 1
    inside = (
        "return [...document.querySelectorAll('.chart')].every(c => [...c.querySelectorAll('text')].every(t => "
        "t.getBoundingClientRect().right <= c.getBoundingClientRect().right + 4))"
    )
    assert browser.execute_script(inside)
    for target, words in (("#ranks g", "mean rank"), ("#cost g", "training time")):
        place = find(target)[0]
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
        ActionChains(browser).move_to_element(place).perform()
        assert words in find("#tooltip")[0].text
    texts = ("body", ".headline", "summary", ".notes", ".lead", ".eyebrow", "td")
    assert_legible(browser, width, dark=dark, selectors=texts)
    assert "Left out" not in find(".verdict")[0].text
    find(".verdict summary")[0].click()
    assert "Left out" in find(".verdict")[0].text
