"""What there is to choose from, as tables of text: retrievers and their cards, benchmarks."""

from __future__ import annotations

from collections.abc import Iterable

from ragrounds.evals.benchmarks.cards import Card
from ragrounds.tools.cards import RetrieverCard
from ragrounds.tools.retriever import Retriever
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import safe


def retriever_table(retrievers: Iterable[Retriever]) -> TextTable:
    """Retrievers and rerankers, with an example, what they cost, and what is missing here."""

    def about(one: Retriever) -> str:
        """What it is, an example, what it builds and takes, in lines."""
        takes = f"builds {one.index}; " if one.index else ""
        said = [one.summary, one.example, f"{takes}a search takes {one.cost or 'a time that it does not say'}"]
        said += [one.caution] if one.caution else []
        said += [f"from the package {one.package}"] if one.package else []
        return "\n".join(map(safe, said))

    columns = (
        words("name", whole=True),
        words("what it is", about, text=str),
        words("missing", lambda one: one.missing() or "nothing"),
    )
    return table_of("retrievers", retrievers, columns, title="retrievers")


def card_table(cards: Iterable[tuple[RetrieverCard, str]]) -> TextTable:
    """Cards of dense retrievers and rerankers, each with what is missing for it here."""
    columns = (
        words("name", lambda row: row[0].name, whole=True),
        words("kind", lambda row: row[0].kind),
        words("size", lambda row: row[0].size),
        words("missing", lambda row: row[1] or "nothing"),
        words("used in", lambda row: "; ".join(row[0].used_in)),
    )
    return table_of("cards", cards, columns, title="cards of models")


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
