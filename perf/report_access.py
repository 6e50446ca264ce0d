"""Whether everybody can use the report: axe-core and Lighthouse over its four kinds.

    python perf/report_access.py NODE_MODULES DATA HOME [KIND …]

NODE_MODULES is a folder in which `npm install axe-core lighthouse@12` was run. DATA and HOME are those of
`perf/report_kinds.py`, which makes the pages. axe looks at each page in light and in dark, 1,400 and 420 px wide, with
an attempt and one of its steps open; Lighthouse at each as a telephone and as a desktop, from a server on loopback.
Prints Markdown, and ends with 1 where axe has a serious or critical finding. Needs chromium, chromium-driver, selenium.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from report_browser import ReportBrowser
from report_kinds import KINDS, report_of

CATEGORIES = ("accessibility", "best-practices", "performance")
SERIOUS = ("serious", "critical")


def axe_findings(browser: ReportBrowser, axe: str, page: Path) -> dict[str, list[dict[str, object]]]:
    """Light or dark and width → what axe found."""
    found = {}
    for width in (1400, 420):
        browser.open(page, width)
        browser.unfold_an_attempt()
        for dark in (False, True):
            browser.theme(dark)
            browser.run(axe)
            result = browser.run_async("axe.run(document, {resultTypes: ['violations']}).then(arguments[0])")
            found[f"{'dark' if dark else 'light'}, {width} px"] = result["violations"]
    return found


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """An address on loopback under which the files of a folder are."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def lighthouse(modules: Path, address: str, preset: str) -> dict[str, object] | None:
    """Lighthouse's result for a page; ``None``: it gave none, as on a machine that is too busy."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lighthouse.json"
        command = [
            str(modules / ".bin" / "lighthouse"), address, "--quiet", "--output=json", f"--output-path={out}",
            f"--only-categories={','.join(CATEGORIES)}", "--chrome-flags=--headless=new --no-sandbox --disable-gpu",
            "--max-wait-for-load=120000", *(["--preset=desktop"] if preset == "desktop" else []),
        ]  # fmt: skip
        environment = {**os.environ, "CHROME_PATH": shutil.which("chromium") or ""}
        subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
        if not out.is_file():
            return None
        result: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
        return result


def failed_audits(result: dict[str, object]) -> list[str]:
    """The audits of accessibility and good practice that a page does not pass."""
    audits: dict[str, dict[str, object]] = result["audits"]  # type: ignore[assignment]
    categories: dict[str, dict[str, list[dict[str, object]]]] = result["categories"]  # type: ignore[assignment]
    named = [str(one["id"]) for name in CATEGORIES[:2] for one in categories[name]["auditRefs"]]
    return [name for name in named if audits[name].get("score") is not None and float(str(audits[name]["score"])) < 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND")
    options = parser.parse_args()
    axe = (options.modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    pages = {kind: report_of(kind, options.data.resolve(), options.home.resolve()) for kind in options.kinds}
    versions = {
        name: json.loads((options.modules / name / "package.json").read_text())["version"]
        for name in ("axe-core", "lighthouse")
    }
    print(f"{datetime.now(UTC):%Y-%m-%d}, axe-core {versions['axe-core']}, Lighthouse {versions['lighthouse']}.\n")
    print("| kind | light, 1,400 px | dark, 1,400 px | light, 420 px | dark, 420 px |\n|---|---|---|---|---|")
    details, bad = [], 0
    with ReportBrowser() as browser:
        for kind, page in pages.items():
            cells = []
            for where, violations in axe_findings(browser, axe, page).items():
                serious = [one for one in violations if one["impact"] in SERIOUS]
                bad += len(serious)
                cells.append(f"{len(serious)} serious, {len(violations) - len(serious)} other")
                for one in violations:
                    nodes = [node["target"] for node in one["nodes"]][:3]  # type: ignore[union-attr,attr-defined]
                    details.append(f"{kind}, {where}: {one['impact']} {one['id']}: {one['help']} {nodes}")
            print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    print("\n| kind | as | accessibility | good practice | performance | not passed |\n|---|---|---:|---:|---:|---|")
    for kind, page in pages.items():
        with served(page.parent) as address:
            for preset in ("telephone", "desktop"):
                result = lighthouse(options.modules, f"{address}/{page.name}", preset)
                if result is None:
                    print(f"| {kind} | {preset} | | | | no result |", flush=True)
                    continue
                scores = [result["categories"][name]["score"] for name in CATEGORIES]  # type: ignore[index]
                # A category has no score where one of its audits ended in an error, as on a machine too busy.
                scored = ["none" if score is None else f"{100 * score:.0f}" for score in scores]
                audits = ", ".join(failed_audits(result))
                print(f"| {kind} | {preset} | {' | '.join(scored)} | {audits} |", flush=True)
    print("\n".join(["", *details]))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
