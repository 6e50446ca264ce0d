"""Our retrievers, strategies and readers beside recorded outputs of the papers' own programs.

Each row is a file of recorded cases and a way of ours (what follows the program, or our default), with the share of
cases that are equal, how many differ, and why. The comparisons are those of ``tests/golden``. The files are in
``$RAGROUNDS_TEST_DATA/golden``, or in the folder that is given.

    python perf/golden.py [FOLDER] [--write perf/golden.md] [--only FILE ...] [--show]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.golden.cases import Comparison, chosen, comparisons, folder  # noqa: E402


@dataclass(frozen=True)
class Row:
    """One comparison, counted."""

    comparison: Comparison
    compared: int
    undefined: int
    differing: tuple[str, ...]


def count(comparison: Comparison, place: Path) -> Row:
    """Run one comparison over its file."""
    found = {case["id"]: comparison.equal(case) for case in chosen(comparison, place)}
    differing = tuple(id for id, equal in found.items() if equal is False)
    undefined = sum(equal is None for equal in found.values())
    return Row(comparison, len(found) - undefined, undefined, differing)


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "# Beside the papers' programs",
        "",
        "`python perf/golden.py`: recorded inputs and outputs of the programs that the papers published, case by case",
        "through our product. *As published* is the profile or switch that follows the program. A default that differs",
        "has the count of cases and the reason. *Undefined* cases are not compared: the program's own output depends",
        "there on the order of ties in an unstable sort.",
        "",
        "Left out: Search-o1's code generation and mathematics, and its replacing of steps, which its program never",
        "reaches; Search-R1's reward for the form of a text, which only training uses. Batches of several questions",
        "are compared question by question: which of two alike searches is made is the journal's concern.",
        "",
        "| file | ours | | cases | equal | differ | undefined | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        one = row.comparison
        share = f"{100 * (row.compared - len(row.differing)) / row.compared:.1f} %" if row.compared else "-"
        ours = f"`{one.ours}`" + (f": {one.what}" if one.what else "")
        kind = "as published" if one.published else "default"
        lines.append(
            f"| {one.file} | {ours} | {kind} | {row.compared} | {share} | {len(row.differing)} | {row.undefined} "
            f"| {one.reason} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Count, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=folder())
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--show", action="store_true", help="the ids of the cases that differ")
    given = parser.parse_args()
    if given.folder is None:
        parser.error("no recorded cases: give their folder, or set RAGROUNDS_TEST_DATA")
    rows = []
    for comparison in comparisons():
        if given.only and comparison.file not in given.only:
            continue
        rows.append(count(comparison, given.folder))
        if given.show:
            sys.stderr.write(f"{comparison.name}: {' '.join(rows[-1].differing)}\n")
    text = table(rows)
    sys.stdout.write(text)
    if given.write:
        given.write.write_text(text, encoding="utf-8")
    sys.exit(any(row.differing for row in rows if row.comparison.published))


if __name__ == "__main__":
    main()
