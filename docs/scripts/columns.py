"""Writes the columns of all frames into api.md, from ragrounds/api/frames.py.

    python docs/scripts/columns.py [--print]

With --print the page goes to standard output.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from ragrounds.api.frames import columns_table

PAGE = Path(__file__).parents[1] / "reference" / "api.md"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    between = re.compile(r"(<!-- columns -->\n).*(<!-- end of columns -->)", re.S)
    written = between.sub(lambda found: f"{found[1]}\n{columns_table()}\n{found[2]}", page)
    if "--print" in sys.argv:
        sys.stdout.write(written)
    else:
        PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
