"""The picture of a published leaderboard, from runs of the sample: `python docs/scripts/draw_leaderboard.py`.

Writes docs/pictures/leaderboard.png. Needs chromium, chromium-driver and selenium. The answers are the built-in
baseline's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parents[1] / "pictures" / "leaderboard.png"
AGENTS = ("direct", "direct_cot", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]")


def main() -> None:
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--disable-gpu", "--no-sandbox", "--hide-scrollbars", "--window-size=1400,1150"):
        options.add_argument(argument)
    agents = [word for name in AGENTS for word in ("--agent", name)]
    with tempfile.TemporaryDirectory() as home:
        site = Path(home) / "site"
        for arguments in (
            ("run", *agents, "--display", "none"),
            ("run", *agents[4:], "--limit", "40", "--display", "none"),
            ("publish", str(site), "--title", "The sample benchmark"),
        ):
            command = [sys.executable, "-m", "ragrounds", *arguments]
            environment = {**os.environ, "RAGROUNDS_HOME": home}
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 (our own words)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            driver.get((site / "index.html").as_uri())
            ready = "return document.documentElement.dataset.ready"
            WebDriverWait(driver, 60).until(lambda one: one.execute_script(ready))
            driver.save_screenshot(str(PICTURE))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
