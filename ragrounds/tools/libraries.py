"""Documents through searchers that are made of others."""

from __future__ import annotations

from collections.abc import Iterable

from ragrounds.contracts import Library, Searcher
from ragrounds.records import Passage


def passages_of(document: str, searchers: Iterable[Searcher]) -> list[Passage]:
    """A document's passages from the first searcher that has them; empty where none has."""
    for searcher in searchers:
        found = searcher.document(document) if isinstance(searcher, Library) else []
        if found:
            return found
    return []
