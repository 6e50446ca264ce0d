"""Lists the studies that ship in docs/reference/studies.md, by paper.

    python docs/scripts/shipped_studies.py --write

Without `--write` the list is printed. `tests/extensions/studies/test_study_command.py` compares it with the page.
"""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path

from ragrounds.extensions.studies.study import open_study, shipped_studies

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "studies.md"
BEGIN, END = "<!-- shipped studies: docs/scripts/shipped_studies.py -->", "<!-- end -->"


def listed() -> str:
    """Return the studies as a table: a line for each paper, studies in the order of their numbers."""
    lines = ["| paper | studies |", "|---|---|"]
    names = sorted(shipped_studies(), key=lambda name: [int(part) if part.isdigit() else part
                                                        for part in re.split(r"(\d+)", name)])  # fmt: skip
    for _, group in groupby(names, key=lambda name: name.partition("-")[0]):
        members = list(group)
        paper = open_study(members[0]).title.partition(",")[0].partition(":")[0]
        lines.append(f"| {paper} | {', '.join(f'`{name}`' for name in members)} |")
    return "\n".join(lines)


def with_list(page: str) -> str:
    """Return a page with the list between its marks renewed."""
    before, _, rest = page.partition(f"{BEGIN}\n")
    return f"{before}{BEGIN}\n{listed()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(with_list(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(f"{listed()}\n")
