"""The page of the filter language: its words and the sort orders, from where they are defined."""

from __future__ import annotations

from collections.abc import Iterable

from ragrounds.evals.trace.filter_fields import ALIASES, FIELDS
from ragrounds.evals.trace.summaries import SORT_WORDS

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


def filters_page() -> str:
    """The page in Markdown."""
    about = "What `--where`, the viewer's filter line and the report's understand, and what lists are sorted by."
    return "\n\n".join(["# Words of filters", about, words_table(), "## Orders", orders_table()]) + "\n"
