"""One retriever over several corpora."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from ragrounds.base.contracts import Library, Searcher
from ragrounds.base.records import Passage


def passages_of(document: str, searchers: Iterable[Searcher]) -> list[Passage]:
    """A document's passages from the first searcher that has them; empty where none has."""
    for searcher in searchers:
        found = searcher.document(document) if isinstance(searcher, Library) else []
        if found:
            return found
    return []


class MergedSearcher:
    """One retriever over several corpora, their hits put together by raw score."""

    def __init__(self, members: Sequence[Searcher]) -> None:
        self._members = list(members)
        self.spec = members[0].spec
        self.corpus = "+".join(member.corpus for member in members)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, from the first corpus that has it."""
        return passages_of(id, self._members)

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages of all corpora; ties go to the corpus named first."""
        found = await asyncio.gather(*(member.search(query, k) for member in self._members))
        best = sorted((hit for hits in found for hit in hits), key=lambda hit: -hit.score)[:k]
        return [msgspec.structs.replace(hit, rank=rank) for rank, hit in enumerate(best, 1)]
