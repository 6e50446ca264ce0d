"""A guard against leaks: passages that would hand over the answer are left out of the results.

Two filters, both optional: by document id (the gold documents, or the question's own source), and by text: a passage
that holds most of the question's own wording, as a corpus does that took in the benchmark. Results with a guard are
another retriever's results: the guard is part of the spec, and `ragrounds retrieve` shows both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice

import msgspec

from ragrounds.contracts import Searcher
from ragrounds.records import Passage
from ragrounds.tools.analysers import words
from ragrounds.tools.libraries import passages_of

SHINGLE = 5
"""Words in a row that are compared."""


@dataclass(frozen=True)
class Guard:
    """What may not be found for one question."""

    documents: frozenset[str] = frozenset()
    """Document or passage ids."""
    question: str = ""
    """Text whose near-duplicates are left out; empty: none."""
    share: float = 0.8
    """How much of the question's wording makes a near-duplicate, from 0 to 1."""

    def keeps(self, passage: Passage) -> bool:
        """Whether the passage may be found."""
        if passage.document in self.documents or passage.id in self.documents:
            return False
        return not self.question or overlap(self.question, f"{passage.title}\n{passage.text}") < self.share


def overlap(question: str, text: str) -> float:
    """Share of the question's runs of :data:`SHINGLE` words that the text holds. A shorter question is one run; one
    without words has no share."""
    asked = words(question)
    size = min(SHINGLE, len(asked))
    if not size:
        return 0.0
    wanted = set(_runs(asked, size))
    return len(wanted & set(_runs(words(text), size))) / len(wanted)


def _runs(sequence: Collection[str], size: int) -> Iterable[tuple[str, ...]]:
    return zip(*(islice(sequence, start, None) for start in range(size)), strict=False)


class Guarded:
    """A searcher whose results pass a guard; more is fetched until `k` are left or there are no more."""

    def __init__(self, inner: Searcher, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard

    @property
    def spec(self) -> str:
        return self._inner.spec

    @property
    def corpus(self) -> str:
        return self._inner.corpus

    def document(self, id: str) -> list[Passage]:
        """The passages of a document that the guard keeps."""
        return [passage for passage in passages_of(id, [self._inner]) if self._guard.keeps(passage)]

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages that the guard keeps, ranked anew."""
        depth = k + len(self._guard.documents)
        while True:
            found = await self._inner.search(query, depth)
            kept = [passage for passage in found if self._guard.keeps(passage)]
            if len(kept) >= k or len(found) < depth:
                return [msgspec.structs.replace(passage, rank=rank) for rank, passage in enumerate(kept[:k], 1)]
            depth *= 4
