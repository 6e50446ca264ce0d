"""The report of 7,663 attempts beside that of 100: first paint, size, time to write.

    python perf/report_page.py DATA HOME [ROUNDS]

DATA holds `mirage/benchmark.json`; HOME is a folder for the runs (kept, so a second call goes on from there). The runs
are of the built-in baseline with passages of the sample corpus: every attempt has a search of eight passages and the
whole prompt. Needs chromium, chromium-driver and selenium. Both pages are opened by one browser, in turn, ROUNDS times
each; the first opening of each is not counted.
"""

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

import zstandard


def ragrounds(home: Path, *arguments: str) -> None:
    """One command in a process of its own."""
    environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
    subprocess.run([sys.executable, "-m", "ragrounds", *arguments], env=environment, check=True)


def make(data: Path, home: Path, limit: int | None) -> tuple[Path, float]:
    """A run of `limit` questions and its report; the report's path and the processor seconds it took to write."""
    more = ["--limit", str(limit)] if limit else []
    ragrounds(
        home, "run", "--benchmark", f"mirage:{data / 'mirage/benchmark.json'}", "--agent", "vanilla_rag[top_k=8]",
        "--model", "baseline:extractive", "--corpus", "sample", "--display", "none", *more,
    )  # fmt: skip
    page = home / "report.html"
    start = os.times()
    ragrounds(home, "report", "vanilla_rag[top_k=8]", "--out", str(page), "--force")
    end = os.times()
    return page, end.children_user + end.children_system - start.children_user - start.children_system


def zstd_size(store: Path) -> int:
    """Bytes of the store, without free pages, compressed as one file by zstd at its default level."""
    compact = store.with_suffix(".compact")
    compact.unlink(missing_ok=True)
    with sqlite3.connect(store) as connection:
        connection.execute("VACUUM INTO ?", (str(compact),))
    size = len(zstandard.ZstdCompressor(level=3).compress(compact.read_bytes()))
    compact.unlink()
    return size


def open_browser():
    """Headless chromium."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-sandbox"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def opened(driver, page: Path) -> tuple[float, float]:
    """Milliseconds to the first contentful paint, and to a list that can be used."""
    driver.get("about:blank")
    driver.get(page.as_uri())
    ask = (
        "const paint = performance.getEntriesByName('first-contentful-paint')[0];"
        "const ready = document.documentElement.dataset.ready;"
        "return paint && ready ? [paint.startTime, Number(ready)] : null"
    )
    deadline = time.monotonic() + 120
    while not (figures := driver.execute_script(ask)):
        if time.monotonic() > deadline:
            raise TimeoutError(page)
        time.sleep(0.02)
    return tuple(figures)


def main() -> None:
    data, home = Path(sys.argv[1]), Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    pages, written = {}, {}
    for limit in (None, 100):
        place = home / str(limit or "all")
        pages[limit], written[limit] = make(data, place, limit)
    store = zstd_size(home / "all" / "store.sqlite")
    driver = open_browser()
    paints = {limit: [] for limit in pages}
    try:
        for turn in range(rounds + 1):
            for limit, page in pages.items():
                figures = opened(driver, page)
                if turn:
                    paints[limit].append(figures)
    finally:
        driver.quit()
    middle = {
        limit: [statistics.median(column) for column in zip(*figures, strict=True)] for limit, figures in paints.items()
    }
    size = pages[None].stat().st_size
    print(
        json.dumps(
            {
                "first paint, ms (100 | 7,663)": [round(middle[100][0]), round(middle[None][0])],
                "first paint, ratio": round(middle[None][0] / middle[100][0], 2),
                "usable list, ms (100 | 7,663)": [round(middle[100][1]), round(middle[None][1])],
                "report, MB": round(size / 1e6, 2),
                "store by zstd, MB": round(store / 1e6, 2),
                "size, ratio": round(size / store, 2),
                "processor seconds to write": round(written[None], 1),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
