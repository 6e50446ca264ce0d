"""Puts each graph's picture, as it is now, into strategies.md: `python docs/scripts/draw.py`."""

import re
from pathlib import Path

from ragrounds.graphs import catalogue
from ragrounds.graphs import diagram as drawing

DOCUMENT = Path(__file__).parents[1] / "reference" / "strategies.md"


def main() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in catalogue.names():
        picture = f"## `{name}`\n\n```mermaid\n{drawing.mermaid(catalogue.build(name))}```\n"
        text = re.sub(rf"## `{name}`\n\n```mermaid\n.*?```\n", lambda _, new=picture: new, text, flags=re.DOTALL)
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
