"""A headless chromium that opens reports, for what measures, checks and draws them."""

from __future__ import annotations

import base64
import json
import shutil
import time
from pathlib import Path
from typing import Any

_PATIENCE = 120.0


class ReportBrowser:
    """Debian's chromium without a screen, until the block ends."""

    def __enter__(self) -> ReportBrowser:
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        flags = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-sandbox", "--hide-scrollbars")
        for argument in (*flags, "--enable-precise-memory-info"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(_PATIENCE)
        return self

    def __exit__(self, *raised: object) -> None:
        self.driver.quit()

    def command(self, name: str, **arguments: object) -> dict[str, Any]:
        """A command of the browser's own protocol."""
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(name, arguments)
        return answer

    def run(self, script: str, *arguments: object) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script: str) -> Any:
        """What a script in the page gives to its last argument."""
        return self.driver.execute_async_script(script)

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def open(self, page: Path, width: int = 1400, height: int = 1000, fragment: str = "") -> None:
        """Open a page, and wait until it can be used."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.driver.get("about:blank")
        self.driver.get(page.as_uri() + fragment)
        self.wait("return document.documentElement.dataset.ready")

    def wait(self, script: str) -> Any:
        """Wait until a script in the page returns something."""
        deadline = time.monotonic() + _PATIENCE
        while not (found := self.run(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(script)
            time.sleep(0.02)
        return found

    def theme(self, dark: bool) -> None:
        """Light or dark, as the reader's system prefers it."""
        wanted = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[wanted])
        time.sleep(0.3)

    def filter(self, line: str) -> None:
        """Type a line into the filter of the attempts."""
        self.run(
            "const line = document.getElementById('search'); line.value = arguments[0];"
            "line.dispatchEvent(new Event('change'))",
            line,
        )
        self.wait("return document.querySelector('.row')")

    def unfold_an_attempt(self, row: int = 4) -> None:
        """Choose an attempt, and unfold one of its steps, one of its calls, and the help of the filter."""
        self.run("document.querySelector('#attempts').scrollIntoView(); document.querySelector('#words').open = true")
        self.run("document.querySelectorAll('.row')[arguments[0]].click()", row)
        self.wait("return document.querySelector('#title')")
        for selector in ("details.step", "details.call", "details.call details"):
            self.run(f"const one = document.querySelector('#detail {selector}'); if (one) one.open = true")
            time.sleep(0.2)

    def picture(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"])

    def printed(self) -> bytes:
        """The page as it is printed, as PDF."""
        made = self.command("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        return base64.b64decode(made["data"])

    def requests(self) -> list[str]:
        """Every address that was asked for since this was asked the last time."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [one for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [one["params"]["request"]["url"] for one in sent]
