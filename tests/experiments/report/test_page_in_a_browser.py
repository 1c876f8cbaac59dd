"""The page in a real browser: tables, charts, a tooltip, no word of complaint on the console."""

import pytest

from browser import SCREENS, WIDE, assert_legible, screen
from made_runs import ERRORS, made_grid, made_run
from multipartite.experiments.grid.jobs import Job, work
from multipartite.experiments.report import write_report
from multipartite.experiments.run.config import RunConfig

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with everything in it: pictures, the paper's figures, an unfinished run and a long name."""
    out = tmp_path_factory.mktemp("page")
    for word in ("max", "multipartite:assignment=stochastic,groups=4,temperature=0.5"):
        for seed in range(3):
            config = RunConfig("digits", epochs=2, limit=200, threads=1, pooling=word, seed=seed)
            work(Job(config, out / f"{word[:3]}-{seed}"))
    made_run(out, "stochastic", 0, 1.0, finished=False, epochs=2, limit=200)
    return write_report(out).page


def test_tables_charts_and_tooltips_work_and_the_console_stays_silent(browser, tmp_path):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    page = write_report(made_grid(tmp_path / "grid", ERRORS), pictures=False).page
    browser.get(page.as_uri())
    find = lambda css: browser.find_elements(By.CSS_SELECTOR, css)  # noqa: E731
    assert len(find("#errors tbody tr")) == len(find("#cost tbody tr")) == 4
    assert {chart.get_attribute("id") for chart in find(".chart:has(svg)")} == {
        "gap",
        "versus",
        "curve-objective",
        "curve-top1",
        "curve-top5",
    }
    assert len(find("#curve-top1 polyline")) == 8
    tooltip = find("#tooltip")[0]
    assert not tooltip.is_displayed()
    for target, words in (
        ("#curve-top1 .area", "epoch 2"),
        ("#gap g", "training error"),
        ("#versus g", "95% interval"),
    ):
        place = find(target)[0]
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
        ActionChains(browser).move_to_element(place).perform()
        assert tooltip.is_displayed()
        assert words in tooltip.text
    find("#legend button")[0].click()
    assert len(find("#curve-top1 polyline")) == 6
    names = [name.text for name in find("#errors tbody .name")]
    assert names == ["multipartite", "stochastic", "max", "average"]  # by test error
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [1200, 400])
def test_the_columns_of_the_paper_fit_too(browser, tmp_path, width):
    screen(browser, width, 900)
    folder = made_grid(
        tmp_path, {word: [error + 20 for error in errors] for word, errors in ERRORS.items()}, dataset="cifar10"
    )
    browser.get(write_report(folder, pictures=False).page.as_uri())
    assert browser.execute_script("return document.querySelectorAll('td.paper[data-label]').length") == 6
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(WIDE) == 0


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_it_fits_the_screen_and_can_be_read(browser, page, width, dark):
    screen(browser, width, 900, dark=dark)
    browser.get(page.as_uri())
    texts = ("body", ".headline", "summary", ".notes", "td small", ".lead", ".eyebrow", ".warnings", "dt")
    assert_legible(browser, width, dark=dark, selectors=texts)
    broken = "return [...document.images].filter(i => (i.scrollIntoView(), i.complete && !i.naturalWidth)).length"
    assert browser.execute_script(broken) == 0
    assert browser.execute_script("return document.images.length") == 24


def test_rows_are_stacked_under_their_labels_on_a_phone(browser, page):
    from selenium.webdriver.common.by import By

    for width, shown, display in ((1200, True, "table-cell"), (400, False, "block")):
        screen(browser, width, 900)
        browser.get(page.as_uri())
        assert browser.find_element(By.CSS_SELECTOR, "#errors thead").is_displayed() is shown
        cell = browser.find_element(By.CSS_SELECTOR, "#errors tbody td")
        assert cell.value_of_css_property("display") == display
    label = "return getComputedStyle(document.querySelector('#errors tbody td'), '::before').content"
    assert browser.execute_script(label) == '"test %"'


def test_a_headline_stands_alone_and_the_details_unfold(browser, page):
    from selenium.webdriver.common.by import By

    screen(browser, 1200, 900)
    browser.get(page.as_uri())
    verdict = browser.find_element(By.CSS_SELECTOR, ".verdict")
    assert "has the lowest test error" in verdict.text
    assert "The paper's order" not in verdict.text
    verdict.find_element(By.CSS_SELECTOR, "summary").click()
    assert "The paper's order" in verdict.text
    assert "Unfinished and left out: runs/stochastic/seed-0" in browser.find_element(By.CSS_SELECTOR, ".warnings").text
