"""Chromium for tests of pages: how it is started, which screen it has, what can be read on it."""

import shutil

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SCREENS = [(1200, False), (1200, True), (400, False), (400, True)]  # width, dark
WIDE = "return [...document.querySelectorAll('.scroll, .card')].filter(e => e.scrollWidth > e.clientWidth).length"
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


def start(profile):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={profile}", "--window-size=1100,900"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def screen(browser, width, height, *, dark=False):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def colour(browser, selector, kind):
    script = f"return getComputedStyle(document.querySelector(arguments[0])).{kind}"
    return [int(part) for part in browser.execute_script(script, selector)[4:-1].split(",")]


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    """Of two colours, 1 to 21, after the accessibility guidelines of the web (WCAG 2)."""
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def assert_legible(browser, width, *, dark, selectors):
    """Nothing is wider than the screen, and every text stands out from its ground."""
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(WIDE) == 0
    ground = colour(browser, "body", "backgroundColor")
    assert (luminance(ground) < 0.1) == dark
    for selector in selectors:
        assert contrast(colour(browser, selector, "color"), ground) >= 4.5, selector
    assert browser.get_log("browser") == []
