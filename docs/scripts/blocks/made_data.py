"""Small made data behind the names that reference pages use: a BEIR folder, MIRAGE's file, reports, labels.

The texts are those of the sample that ships with the package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

_SAMPLE = Path(__file__).resolve().parents[3] / "ragrounds" / "sample"


def _lines(path: Path, rows: Iterable[object]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


MAKERS: dict[str, Callable[[Path], None]] = {}
"""Name → what makes it at a path."""
