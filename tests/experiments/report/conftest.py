import pytest

from browser import CHROMIUM, DRIVER, start


@pytest.fixture
def browser(tmp_path):
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver")
    driver = start(tmp_path / "profile")
    yield driver
    driver.quit()
