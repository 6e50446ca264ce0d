"""The available choices as tables of text: retrievers, missing requirements of others, benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from ragrounds.evals.benchmarks.cards import Card
from ragrounds.tools.retriever import Retriever
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import one_line, safe


def retriever_table(retrievers: Iterable[Retriever]) -> TextTable:
    """Return a table of the retrievers and rerankers that can be used here."""

    def about(retriever: Retriever) -> str:
        return retriever.summary + (f"; from the package {retriever.package}" if retriever.package else "")

    columns = (words("name", unfolded=True), words("what it is", about, text=safe))
    return table_of("retrievers", retrievers, columns, title="retrievers")


def grouped_lines(entries: Iterable[tuple[str, str, str]], width: int) -> Iterator[Text]:
    """Yield a heading for each group, followed by a line for each of its entries, which is cut at the width.

    Args:
        entries: group, name and description; groups are in the order of their first entries.
        width: columns of the terminal.
    """
    groups = dict[str, list[tuple[str, str]]]()
    for group, name, description in entries:
        groups.setdefault(group, []).append((safe(name), description))
    for group, members in groups.items():
        name_width = max(len(name) for name, _ in members)
        yield Text(safe(group), style="bold")
        for name, description in members:
            yield Text(f"  {name:{name_width}}  {one_line(description, width - name_width - 4)}")


def missing_lines(missing: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line of what is installed, and one for each missing requirement, with the names that need it.

    Args:
        missing: name, and its missing requirement; empty if nothing is missing.
    """
    lacking: dict[str, list[str]] = {}
    for name, requirement in missing:
        text = "weights are downloaded when first used" if requirement.startswith("the weights ") else requirement
        lacking.setdefault(text, []).append(name)
    for requirement, names in sorted(lacking.items()):
        text = ", ".join(map(safe, names))
        yield f"not here: {text} ({safe(requirement)})" if requirement else f"here: {text}"


def benchmark_table(cards: Iterable[tuple[Card, str]]) -> TextTable:
    """Return a table of datasets, with their package if any of them comes from one."""
    rows = list(cards)
    columns = (
        words("name", lambda row: row[0].name, unfolded=True),
        Column("questions", lambda row: row[0].size or None),
        words("task", lambda row: row[0].task),
        words("language", lambda row: row[0].language),
        words("scorers", lambda row: ", ".join(row[0].scorers)),
        words("licence", lambda row: row[0].license),
        words("package", lambda row: row[1]) if any(package for _, package in rows) else None,
    )
    return table_of("benchmarks", rows, columns)
