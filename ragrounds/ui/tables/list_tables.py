"""What there is to choose from, as tables of text: retrievers, what is missing for others, benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragrounds.evals.benchmarks.cards import Card
from ragrounds.tools.retriever import Retriever
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import safe


def retriever_table(retrievers: Iterable[Retriever]) -> TextTable:
    """Retrievers and rerankers that can be used here."""

    def about(one: Retriever) -> str:
        return one.summary + (f"; from the package {one.package}" if one.package else "")

    columns = (words("name", whole=True), words("what it is", about, text=safe))
    return table_of("retrievers", retrievers, columns, title="retrievers")


def missing_lines(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line for what is here, and one for each thing that is missing, with the names of all that lack it.

    Args:
        found: a name, and what is missing for it; empty: nothing.
    """
    lacking: dict[str, list[str]] = {}
    for name, why in found:
        said = "weights are downloaded when first used" if why.startswith("the weights ") else why
        lacking.setdefault(said, []).append(name)
    for why, names in sorted(lacking.items()):
        said = ", ".join(map(safe, names))
        yield f"not here: {said} ({safe(why)})" if why else f"here: {said}"


def benchmark_table(cards: Iterable[tuple[Card, str]]) -> TextTable:
    """Datasets, and where any of them comes from a package, that."""
    given = list(cards)
    columns = (
        words("name", lambda row: row[0].name, whole=True),
        Column("questions", lambda row: row[0].size or None),
        words("task", lambda row: row[0].task),
        words("language", lambda row: row[0].language),
        words("scorers", lambda row: ", ".join(row[0].scorers)),
        words("licence", lambda row: row[0].license),
        words("package", lambda row: row[1]) if any(package for _, package in given) else None,
    )
    return table_of("benchmarks", given, columns)
