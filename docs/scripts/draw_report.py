"""Pictures of the report and of the frontier, from a run of the sample: `python docs/scripts/draw_report.py`.

Writes into docs/pictures. Needs chromium, chromium-driver and selenium. The answers are the built-in baseline's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURES = Path(__file__).parents[1] / "pictures"
RUNS = ("direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]")


def main() -> None:
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    PICTURES.mkdir(exist_ok=True)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--disable-gpu", "--no-sandbox", "--window-size=1300,900"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory() as home:
        page = Path(home) / "report.html"
        for arguments in (
            ("run", "--display", "none"),
            ("compare", *RUNS, "--plot", str(PICTURES / "frontier.svg"), "--picture", "frontier"),
            ("report", *RUNS, "--out", str(page)),
        ):
            command = [sys.executable, "-m", "ragrounds", *arguments]
            environment = {**os.environ, "RAGROUNDS_HOME": home}
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 (our own words)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            driver.get(page.as_uri())
            wait = WebDriverWait(driver, 60)
            wait.until(lambda one: one.execute_script("return document.documentElement.dataset.ready"))
            driver.save_screenshot(str(PICTURES / "report.png"))
            driver.execute_script("document.querySelector('#attempts').scrollIntoView()")
            driver.find_element("css selector", ".row:nth-child(3)").click()
            wait.until(lambda one: one.find_elements("css selector", "#detail details.step"))
            driver.find_element("css selector", "#detail details.step > summary").click()
            wait.until(lambda one: one.find_elements("css selector", "#detail details.call"))
            driver.find_element("css selector", "#detail details.call > summary").click()
            driver.save_screenshot(str(PICTURES / "report-attempts.png"))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
