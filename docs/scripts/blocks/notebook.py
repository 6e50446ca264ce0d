"""Runs a notebook and compares the texts that it keeps with those that come.

python docs/scripts/blocks/notebook.py FILE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nbformat
from nbclient import NotebookClient

from blocks.outputs import agrees, difference
from blocks.rules import read_rules


def texts(cell: Any) -> str:
    """What a cell shows as text."""
    shown = []
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream" and output["name"] == "stdout":
            shown.append(output["text"])
        elif "data" in output:
            shown.append(output["data"].get("text/plain", ""))
    return "\n".join(shown)


def main() -> int:
    path = Path(sys.argv[1])
    kept = nbformat.read(path, as_version=4)
    ran = NotebookClient(
        nbformat.read(path, as_version=4), timeout=300, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    volatile = read_rules().volatile
    wrong = 0
    for number, (before, after) in enumerate(zip(kept.cells, ran.cells, strict=True), 1):
        if before.cell_type == "code" and before.get("outputs") and not agrees(texts(before), texts(after), volatile):
            wrong += 1
            print(f"{path}: cell {number}\n{difference(texts(before), texts(after), volatile)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
