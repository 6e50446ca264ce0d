"""A report of four agents on 2,000 questions: bytes, how soon a browser can use it, pictures of it.

    python perf/report_large.py DATA HOME [FOLDER]

DATA has `mirage/benchmark.json`. The model is `ragrounds stand-in`, which is none: prompts and passages have the size
of real ones. FOLDER gets the page at three widths, dark, and printed. Needs chromium, chromium-driver and selenium.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
import time
from pathlib import Path

from report_browser import ReportBrowser

PORT = 8097
AGENTS = ("direct_cot", "vanilla_rag[top_k=8]", "ircot[steps=3]", "cot_refine_rag")
TOOL = [sys.executable, "-m", "ragrounds"]
WIDTHS = (420, 900, 1400)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--questions", type=int, default=2000)
    given = parser.parse_args()
    made(given.data, given.home, given.questions)
    page = given.home / "report.html"
    report = [*TOOL, "report", *AGENTS, "--out", str(page)]
    began = time.monotonic()
    subprocess.run(report, check=True, env=environment(given.home))
    took = time.monotonic() - began
    pages = sorted(given.home.glob("report*.html"))
    for one in pages:
        sys.stdout.write(f"{one.name}: {one.stat().st_size / 1e6:.1f} MB\n")
    sys.stdout.write(f"written in {took:.0f} s\n")
    with ReportBrowser() as browser:
        for one in pages:
            times = []
            for _ in range(4):
                browser.open(one)
                times.append(float(browser.run("return document.documentElement.dataset.ready")))
            sys.stdout.write(f"{one.name}: usable after {sorted(times[1:])[1]:.0f} ms\n")
        if given.folder is not None:
            pictures(browser, page, given.folder)


def environment(home: Path) -> dict[str, str]:
    """With this home, and nothing else of the user's."""
    import os

    return {**os.environ, "RAGROUNDS_HOME": str(home)}


def made(data: Path, home: Path, questions: int) -> None:
    """Make the runs, where they are not there."""
    known = [part for agent in AGENTS for part in ("--agent", agent)]
    run = [
        *TOOL, "run", "--benchmark", f"mirage:{data / 'mirage' / 'benchmark.json'}", "--limit", str(questions),
        "--model", "openai:demo[price_input=0.15,price_output=0.6]", "--base-url", f"http://127.0.0.1:{PORT}/v1",
        "--corpus", "sample", "--yes", "--display", "plain", "--concurrency", "32", *known,
    ]  # fmt: skip
    with subprocess.Popen([*TOOL, "stand-in", "--port", str(PORT)], env=environment(home)) as server:
        time.sleep(5)
        subprocess.run(run, check=False, env=environment(home))
        server.terminate()


def pictures(browser: ReportBrowser, page: Path, folder: Path) -> None:
    """The page at three widths, dark, and its printed sheets."""
    folder.mkdir(parents=True, exist_ok=True)
    for width, scheme in (*((width, "light") for width in WIDTHS), (1400, "dark")):
        feature = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.command("Emulation.setEmulatedMedia", features=feature)
        sizes = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        browser.open(page)
        browser.command("Emulation.setDeviceMetricsOverride", **sizes)
        made = browser.command("Page.captureScreenshot", format="png")
        (folder / f"{width}-{scheme}.png").write_bytes(base64.b64decode(made["data"]))
    printed = browser.command("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
    (folder / "printed.pdf").write_bytes(base64.b64decode(printed["data"]))


if __name__ == "__main__":
    main()
