"""What the report costs its reader: bytes, first paint, memory, and how fast its attempts are found.

    python perf/report_page.py DATA HOME [ROUNDS]

DATA and HOME are those of `perf/report_kinds.py`, which makes the four kinds; each page is written again, and opened
ROUNDS times (7) by one headless chromium, in turn; the first opening of each is not counted. Needs chromium,
chromium-driver and selenium.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import time
from pathlib import Path

import zstandard
from report_browser import ReportBrowser
from report_kinds import KINDS, report_of

FILTER = "wrong and tokens>100"
WORD = "thiamine"


def zstd_size(store: Path) -> int:
    """Bytes of the store, without free pages, compressed as one file by zstd at its default level."""
    compact = store.with_suffix(".compact")
    compact.unlink(missing_ok=True)
    with sqlite3.connect(store) as connection:
        connection.execute("VACUUM INTO ?", (str(compact),))
    size = len(zstandard.ZstdCompressor(level=3).compress(compact.read_bytes()))
    compact.unlink()
    return size


def opened(browser: ReportBrowser, page: Path) -> tuple[float, float]:
    """Milliseconds to the first contentful paint, and to a list that can be used."""
    browser.open(page)
    paint = "performance.getEntriesByName('first-contentful-paint')[0]"
    first = browser.wait(f"return {paint} && {paint}.startTime")
    return float(first), float(browser.run("return document.documentElement.dataset.ready"))


def filtered(browser: ReportBrowser, line: str, inside: bool) -> float:
    """Milliseconds until the list shows what a line chooses; `inside`: words also in every text."""
    browser.run(
        "document.getElementById('search').value = arguments[0];"
        "document.getElementById('deep').checked = arguments[1];"
        "document.getElementById('count').textContent = '';"
        "window.began = performance.now();"
        "new MutationObserver((_, me) => { window.took = performance.now() - window.began; me.disconnect(); })"
        ".observe(document.getElementById('count'), {childList: true});"
        "window.took = 0;"
        "document.getElementById('search').dispatchEvent(new Event('change'));",
        line,
        inside,
    )
    return float(browser.wait("return window.took"))


def attempt_opened(browser: ReportBrowser) -> float:
    """Milliseconds from a click on a row of the list's middle until the attempt is shown."""
    browser.run(
        "const list = document.getElementById('list');"
        "list.scrollTop = document.getElementById('space').offsetHeight / 2"
    )
    time.sleep(0.3)
    browser.run(
        "window.began = performance.now(); window.took = 0;"
        "new MutationObserver((_, me) => { if (document.getElementById('title')) {"
        "window.took = performance.now() - window.began; me.disconnect(); } })"
        ".observe(document.getElementById('detail'), {childList: true});"
        "document.querySelectorAll('.row')[8].click();"
    )
    return float(browser.wait("return window.took"))


def memory(browser: ReportBrowser) -> tuple[float, int]:
    """MB of the script's heap after garbage has been collected, and elements in the page."""
    browser.command("HeapProfiler.collectGarbage")
    browser.command("Performance.enable")
    metrics = {one["name"]: one["value"] for one in browser.command("Performance.getMetrics")["metrics"]}
    return metrics["JSHeapUsedSize"] / 1e6, int(browser.run("return document.querySelectorAll('*').length"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("rounds", type=int, nargs="?", default=7)
    options = parser.parse_args()
    pages, written = {}, {}
    for kind in KINDS:
        report_of(kind, options.data.resolve(), options.home.resolve())  # its runs are made first
        before = os.times()
        pages[kind] = report_of(kind, options.data.resolve(), options.home.resolve(), force=True)
        after = os.times()
        written[kind] = after.children_user + after.children_system - before.children_user - before.children_system
    times: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    held = {}
    with ReportBrowser() as browser:
        for turn in range(options.rounds + 1):
            for kind, page in pages.items():
                figures = opened(browser, page)
                held[kind] = (*memory(browser), browser.text("#count").split()[0])
                figures += (filtered(browser, FILTER, False), filtered(browser, WORD, True))
                figures += (filtered(browser, "", False), attempt_opened(browser))
                if turn:
                    times[kind].append(figures)
    print(
        "| kind | attempts | page, MB | ÷ store by zstd | first paint, ms | list ready, ms | filter, ms |"
        " word in every text, ms | attempt opened, ms | heap, MB | elements | processor seconds to write |"
    )
    print("|---|" + "---:|" * 11)
    for kind, page in pages.items():
        paint, ready, line, inside, _, shown = map(statistics.median, zip(*times[kind], strict=True))
        heap, elements, attempts = held[kind]
        size = page.stat().st_size
        ratio = size / zstd_size(page.with_name("store.sqlite"))
        print(
            f"| {kind} | {attempts} | {size / 1e6:.2f} | {ratio:.2f} | {paint:.0f} | {ready:.0f} | {line:.0f} | "
            f"{inside:.0f} | {shown:.0f} | {heap:.1f} | {elements:,} | {written[kind]:.0f} |"
        )


if __name__ == "__main__":
    main()
