import json
import os
import shutil

import pytest

from ragrounds.evals.compare.comparison import compare
from ragrounds.ui.report.page import PageOptions, report_page


@pytest.fixture
def written(tmp_path, store):
    """Writes the report of some runs, and gives its path."""

    def write(runs, **more):
        path = tmp_path / "report.html"
        comparison = compare(store, runs, group_by=more.pop("group_by", ()))
        path.write_text("".join(report_page(store, runs, comparison, PageOptions(**more))), encoding="utf-8")
        return path

    return write


class Browser:
    """A headless browser on one page."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path):
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(path.as_uri())
        WebDriverWait(self.driver, 60).until(lambda one: self.run("return document.documentElement.dataset.ready"))

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, what):
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, 30).until(lambda one: what())

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Every address that was asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [one for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [one["params"]["request"]["url"] for one in sent]


@pytest.fixture(scope="session")
def driver():
    """Debian's chromium without a screen; skipped with the reason where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install 'ragrounds[test]'")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield made
    made.quit()


@pytest.fixture
def browser(driver):
    return Browser(driver)
