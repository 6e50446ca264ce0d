"""Checks that everything a release needs is filled in.

    python docs/scripts/release_check.py [TAG]

The list is the table of docs/project/releasing.md. The exit code is 1 if a line of it is not met, or if TAG is not that
of the version. Releases run it, tests do not: the table names what only the owner of the repository can know.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def missing(root: Path, tag: str = "") -> list[str]:
    """Return what is not filled in, a line each."""
    version = re.findall(r'^__version__ = "(.+)"', (root / "ragrounds/version.py").read_text(encoding="utf-8"), re.M)[0]
    page = (root / "docs/project/releasing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|`]+) \| `([^|]+)` \| (?:`(.+?)` )?\| (?:`(.+?)` )?\|$", page, re.M)
    if len(rows) != page.count("\n| the "):
        return ["docs/project/releasing.md: a line of the table cannot be read"]
    problems = [f"the tag is {tag}, the version {version}"] * (tag not in ("", f"v{version}"))
    for what, file, needed, refused in rows:
        text = (root / file).read_text(encoding="utf-8")
        if needed and not re.search(rf"^{re.escape(needed.replace('VERSION', version))}", text, re.M):
            problems.append(f"{file}: {what}: no line begins with {needed}")
        if refused and refused in text:
            problems.append(f"{file}: {what}: it still has {refused}")
    return problems


if __name__ == "__main__":
    found = missing(ROOT, *sys.argv[1:])
    sys.stderr.write("".join(f"{problem}\n" for problem in found))
    sys.exit(bool(found))
