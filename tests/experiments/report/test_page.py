"""The page in a real browser: tables, charts, a tooltip, no word of complaint on the console."""

import shutil

import pytest

from made_runs import ERRORS, made_grid
from multipartite.experiments.grid.jobs import Job, work
from multipartite.experiments.report import write_report
from multipartite.experiments.run.config import RunConfig

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]


@pytest.fixture
def browser(tmp_path):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1100,900"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def screen(browser, width, height, *, dark=False):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


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
    assert browser.get_log("browser") == []


def test_it_fits_a_phone_follows_the_dark_mode_and_shows_its_pictures(browser, tmp_path):
    config = RunConfig("digits", epochs=2, limit=200, threads=1, pooling="multipartite:assignment=stochastic")
    work(Job(config, tmp_path / "runs" / "seed-0"))
    screen(browser, 360, 800, dark=True)
    browser.get(write_report(tmp_path / "runs").page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, colour[4:-1].split(","))) < 150
    broken = "return [...document.images].filter(i => (i.scrollIntoView(), i.complete && !i.naturalWidth)).length"
    assert browser.execute_script(broken) == 0
    assert browser.execute_script("return document.images.length") == 18
    assert browser.get_log("browser") == []
