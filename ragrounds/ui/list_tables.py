"""What there is to choose from, as tables of text: retrievers and their cards, benchmarks, indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragrounds.evals.benchmarks.cards import Card
from ragrounds.tools.cards import RetrieverCard
from ragrounds.tools.retriever import Retriever
from ragrounds.ui.tables import Column, TextTable
from ragrounds.ui.text import UNKNOWN, one_line, safe


def retriever_table(retrievers: Iterable[Retriever]) -> TextTable:
    """Retrievers and rerankers, with an example, what they cost, and what is missing here."""
    rows = []
    for one in retrievers:
        takes = f"builds {one.index}; " if one.index else ""
        words = [one.summary, one.example, f"{takes}a search takes {one.cost or 'a time that it does not say'}"]
        words += [one.caution] if one.caution else []
        words += [f"from the package {one.package}"] if one.package else []
        rows.append((safe(one.name), "\n".join(map(safe, words)), safe(one.missing()) or "nothing"))
    return _table("retrievers", "retrievers", ("name", "what it is", "missing"), rows)


def card_table(cards: Iterable[tuple[RetrieverCard, str]]) -> TextTable:
    """Cards of dense retrievers and rerankers, each with what is missing for it here."""
    rows = [
        (safe(card.name), safe(card.kind), safe(card.size), safe(lacks) or "nothing", safe("; ".join(card.used_in)))
        for card, lacks in cards
    ]
    return _table("cards", "cards of models", ("name", "kind", "size", "missing", "used in"), rows)


def benchmark_table(cards: Iterable[tuple[Card, str]]) -> TextTable:
    """Datasets, and where any of them comes from a package, that."""
    given = list(cards)
    packaged = any(package for _, package in given)
    headings = ("name", "questions", "task", "language", "scorers", "licence", *(["package"] if packaged else []))
    rows = [
        (
            safe(card.name),
            f"{card.size:,}" if card.size else UNKNOWN,
            safe(card.task),
            safe(card.language),
            safe(", ".join(card.scorers)),
            safe(card.license),
            *([safe(package)] if packaged else []),
        )
        for card, package in given
    ]
    return _table("benchmarks", "", headings, rows, figures=("questions",))


def index_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> TextTable:
    """Indexes; the second, fifth and sixth column are figures."""
    figures = tuple(heading for place, heading in enumerate(headings) if place in (1, 4, 5))
    return _table("indexes", "", headings, [tuple(one_line(cell, 200) for cell in row) for row in rows], figures)


def _table(
    key: str, title: str, headings: Sequence[str], rows: Sequence[tuple[str, ...]], figures: Sequence[str] = ()
) -> TextTable:
    columns = tuple(Column(name, right=name in figures, whole=not place) for place, name in enumerate(headings))
    return TextTable(key=key, title=title, columns=columns, rows=tuple(rows), turns=False)
