"""The leak guard: passages that a question may not find are left out of the search, counted, and reported.

It has two filters. By document id: ``guard.jsonl`` next to a benchmark's files (`ragrounds build` writes it) lists
which documents are ambiguous for a question, or would hand over its answer. By text: a passage that holds most of the
question's own wording, as a corpus does that took in the benchmark. The second is off unless it is asked for, since the
gold abstracts of PubMedQA and BioASQ hold their questions' wording and are there to be found (MIRAGE, Section 3.1).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from ragrounds.base.contracts import MeanSearcher, Searcher
from ragrounds.base.records import Passage
from ragrounds.tools.index.analysers import words
from ragrounds.tools.jsonlines import read_rows
from ragrounds.tools.merged import passages_of

GUARD_FILE = "guard.jsonl"
"""Name of the guard next to a benchmark's files: JSON Lines ``{"query": id, "documents": [id, …]}``."""
SHINGLE = 5
"""Number of consecutive words that are compared."""


@dataclass(frozen=True)
class LeakGuard:
    """Documents and wording that a question may not find."""

    documents: frozenset[str] = frozenset()
    """Document or passage ids."""
    question: str = ""
    """Text whose near-duplicates are left out; empty if none are."""
    share: float = 0.8
    """Share of the question's wording that makes a near-duplicate, from 0 to 1."""

    def keeps(self, passage: Passage) -> bool:
        """Return True if the passage may be found."""
        if passage.document in self.documents or passage.id in self.documents:
            return False
        return not self.question or overlap(self.question, f"{passage.title}\n{passage.text}") < self.share


def overlap(question: str, text: str) -> float:
    """Return the share of the question's runs of :data:`SHINGLE` words that the text holds.

    A shorter question is a single run. A question without words has a share of 0.
    """
    question_words = words(question)
    size = min(SHINGLE, len(question_words))
    if not size:
        return 0.0
    shingles = set(_runs(question_words, size))
    return len(shingles & set(_runs(words(text), size))) / len(shingles)


def _runs(sequence: Collection[str], size: int) -> Iterable[tuple[str, ...]]:
    return zip(*(islice(sequence, start, None) for start in range(size)), strict=False)


class GuardedSearcher:
    """A searcher whose results pass a guard. More are fetched until `k` are left or there are no more."""

    def __init__(self, searcher: Searcher, guard: LeakGuard) -> None:
        self._searcher = searcher
        self.spec, self.corpus = searcher.spec, searcher.corpus
        self._guard = guard
        self.withheld = 0
        """Number of passages that were withheld in all searches until now."""

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document that the guard keeps."""
        return [passage for passage in passages_of(id, [self._searcher]) if self._guard.keeps(passage)]

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages that the guard keeps, ranked again."""
        return await self._search_allowed(partial(self._searcher.search, query), k)

    async def search_mean(self, texts: Sequence[str], k: int) -> list[Passage]:
        """Return the same by the mean of the vectors of `texts`.

        Raises:
            TypeError: the searcher inside cannot search so.
        """
        if not isinstance(self._searcher, MeanSearcher):
            raise TypeError(f"{self.spec} cannot search for the mean of vectors")
        return await self._search_allowed(partial(self._searcher.search_mean, texts), k)

    async def _search_allowed(self, fetch: Callable[[int], Awaitable[list[Passage]]], k: int) -> list[Passage]:
        depth = k + len(self._guard.documents)
        while True:
            passages = await fetch(depth)
            allowed = [passage for passage in passages if self._guard.keeps(passage)]
            if len(allowed) >= k or len(passages) < depth:
                break
            depth *= 4
        last = passages.index(allowed[k - 1]) if len(allowed) >= k else len(passages)
        self.withheld += sum(not self._guard.keeps(passage) for passage in passages[:last])
        return [msgspec.structs.replace(passage, rank=rank) for rank, passage in enumerate(allowed[:k], 1)]


class _Row(msgspec.Struct):
    query: str | int
    documents: list[str | int]


def read_guard(path: Path) -> dict[str, frozenset[str]]:
    """Read JSON Lines ``{"query": id, "documents": [id, …]}``.

    Raises:
        UserError: the file does not exist, or a line is not of that form.
    """
    forbidden: dict[str, frozenset[str]] = {}
    for _, row in read_rows(path, _Row, "{query, documents}"):
        query = str(row.query)
        forbidden[query] = forbidden.get(query, frozenset()) | frozenset(map(str, row.documents))
    return forbidden
