"""Run the quick tests of the README and print what they cost, on a busy machine or with their coverage if asked.

    python perf/test_suite.py [--busy 4] [--coverage]

From a clone, with the extra `test`; `--coverage` needs the package `coverage`. It measures lines and branches of
`ragrounds/` in this process, in children that tests start, and in those that they fork.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COVERAGE = """
[run]
branch = true
parallel = true
source_pkgs = ragrounds
data_file = {folder}/data
concurrency = thread,multiprocessing
patch = subprocess,_exit,fork
sigterm = true
"""


def run_tests(folder: Path, *, coverage: bool) -> float:
    """Run the quick tests, which leave `folder/junit.xml`, and return the seconds that they took."""
    words = ["-m", "pytest", "-q", f"--junitxml={folder / 'junit.xml'}"]
    if coverage:
        (folder / "coverage.ini").write_text(COVERAGE.format(folder=folder), encoding="utf-8")
        words = ["-m", "coverage", "run", f"--rcfile={folder / 'coverage.ini'}", *words]
    variables = {name: value for name, value in os.environ.items() if name != "RAGROUNDS_TEST_DATA"}
    began = time.monotonic()
    subprocess.run([sys.executable, *words], cwd=ROOT, env=variables, check=False)
    return time.monotonic() - began


def cases(folder: Path) -> str:
    """Return how many tests passed, failed and were skipped, and how many took long."""
    (suite,) = ElementTree.parse(folder / "junit.xml").iter("testsuite")
    seconds = [float(str(entry.get("value"))) for entry in suite.iter("property") if entry.get("name") == "cpu_seconds"]
    total, skipped = int(str(suite.get("tests"))), int(str(suite.get("skipped")))
    failed = int(str(suite.get("failures"))) + int(str(suite.get("errors")))
    long = ", ".join(f"{sum(value > bound for value in seconds)} above {bound} s" for bound in (1, 3))
    return f"{total - skipped - failed:,} passed, {failed} failed, {skipped} skipped; of processor time: {long}"


def covered(folder: Path) -> str:
    """Return the shares of lines and branches that the tests ran."""
    settings, report = f"--rcfile={folder / 'coverage.ini'}", folder / "coverage.json"
    for words in (["combine", "-q"], ["json", "-q", "-i", "-o", str(report)]):
        subprocess.run([sys.executable, "-m", "coverage", words[0], settings, *words[1:]], cwd=ROOT, check=True)
    files = json.loads(report.read_text(encoding="utf-8"))["files"].items()
    summaries = [file["summary"] for path, file in files if Path(path).is_relative_to("ragrounds")]
    shares = []
    for noun, covered_name, total in (
        ("lines", "covered_lines", "num_statements"),
        ("branches", "covered_branches", "num_branches"),
    ):
        number = sum(summary[total] for summary in summaries)
        shares.append(f"{sum(summary[covered_name] for summary in summaries) / number:.2%} of {number:,} {noun}")
    return f"covered: {', '.join(shares)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=0, help="number of loops that use a processor meanwhile")
    parser.add_argument("--coverage", action="store_true")
    options = parser.parse_args()
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            seconds = run_tests(folder, coverage=options.coverage)
            print(f"{os.cpu_count()} processors, {options.busy} busy loops: {seconds:.0f} s. {cases(folder)}")
            if options.coverage:
                print(covered(folder))
    finally:
        for loop in loops:
            loop.kill()


if __name__ == "__main__":
    main()
