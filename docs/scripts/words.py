"""Writes the words of the filter language and the sort orders into filters.md, from where they are defined.

    python docs/scripts/words.py [--print]

With --print the page goes to standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from ragrounds.evals.store.filter_fields import ALIASES, FIELDS
from ragrounds.evals.store.summaries import SORT_WORDS

PAGE = Path(__file__).parents[1] / "reference" / "filters.md"
KINDS = {"flag": "flags", "value": "names", "number": "figures", "text": "texts"}


def words_table() -> str:
    """All words of the language, by kind."""
    parts = []
    for kind, heading in KINDS.items():
        shown = [field for field in FIELDS if field.kind == kind]
        rows: list[tuple[str, ...]] = [(one.name, one.about, one.example) for one in shown]
        alone = kind == "flag"
        table = _table(("word", "is"), (row[:2] for row in rows)) if alone else _table(("word", "is", "example"), rows)
        parts.append(f"**{heading.capitalize()}**\n\n{table}")
    others = ", ".join(f"`{name}` is `{meant}`" for name, meant in sorted(ALIASES.items()))
    gold = "Gold in words: `gold found`, `gold not seen`, `gold cut`, `gold all found`, `gold rank<=5`, `gold known`."
    return "\n\n".join([*parts, f"Also understood: {others}. {gold}"])


def orders_table() -> str:
    """All sort orders."""
    return _table(("order", "by"), SORT_WORDS.items())


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    for row in rows:
        cells = [f"`{row[0]}`", *row[1:2], *(f"`{cell}`" for cell in row[2:])]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with its tables made anew."""
    for name, table in (("words", words_table()), ("orders", orders_table())):
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        page = f"{before}<!-- {name} -->\n\n{table}\n\n{end}{after}"
    return page


def main() -> None:
    page = written(PAGE.read_text(encoding="utf-8"))
    if "--print" in sys.argv:
        sys.stdout.write(page)
    else:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
