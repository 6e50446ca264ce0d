"""One retriever over several corpora."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from ragrounds.base.contracts import Library, Searcher
from ragrounds.base.records import Passage


def passages_of(document: str, searchers: Iterable[Searcher]) -> list[Passage]:
    """Return a document's passages from the first searcher that has them; empty if none has."""
    for searcher in searchers:
        passages = searcher.document(document) if isinstance(searcher, Library) else []
        if passages:
            return passages
    return []


class MergedSearcher:
    """One retriever over several corpora, with their hits merged by raw score."""

    def __init__(self, members: Sequence[Searcher]) -> None:
        self._members = list(members)
        self.spec = members[0].spec
        self.corpus = "+".join(member.corpus for member in members)

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, from the first corpus that has it."""
        return passages_of(id, self._members)

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages of all corpora. Ties go to the corpus named first."""
        rankings = await asyncio.gather(*(member.search(query, k) for member in self._members))
        best = sorted((hit for hits in rankings for hit in hits), key=lambda hit: -hit.score)[:k]
        return [msgspec.structs.replace(hit, rank=rank) for rank, hit in enumerate(best, 1)]
