"""Searches for every query of a set, past a leak guard where one is asked for.

The guard leaves out passages that would hand over the answer. It has two filters, both optional: by document id (the
gold documents, or the question's own source), and by text: a passage that holds most of the question's own wording, as
a corpus does that took in the benchmark. `ragrounds retrieve` shows guarded and unguarded results side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import msgspec

from ragrounds.contracts import MeanSearcher, Searcher, Used
from ragrounds.errors import UserError
from ragrounds.records import Passage, Query
from ragrounds.tools.analysers import words
from ragrounds.tools.embedders import USED
from ragrounds.tools.jsonlines import read_rows
from ragrounds.tools.merged import passages_of

SHINGLE = 5
"""Words in a row that are compared."""


@dataclass(frozen=True)
class LeakGuard:
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


class GuardedSearcher:
    """A searcher whose results pass a guard; more is fetched until `k` are left or there are no more."""

    def __init__(self, searcher: Searcher, guard: LeakGuard) -> None:
        self._searcher = searcher
        self.spec, self.corpus = searcher.spec, searcher.corpus
        self._guard = guard

    def document(self, id: str) -> list[Passage]:
        """The passages of a document that the guard keeps."""
        return [passage for passage in passages_of(id, [self._searcher]) if self._guard.keeps(passage)]

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages that the guard keeps, ranked anew."""
        depth = k + len(self._guard.documents)
        while True:
            found = await self._searcher.search(query, depth)
            kept = [passage for passage in found if self._guard.keeps(passage)]
            if len(kept) >= k or len(found) < depth:
                return [msgspec.structs.replace(passage, rank=rank) for rank, passage in enumerate(kept[:k], 1)]
            depth *= 4


Keep = Callable[[str, Passage], bool]
"""Whether a passage may be a result of the query with that id: the place for a leak guard."""


@dataclass(frozen=True)
class Retrieved:
    """What a retriever found, and how long it took."""

    retriever: str
    corpus: str
    run: dict[str, list[tuple[str, float]]]
    """Query → documents with scores, best first."""
    seconds: dict[str, float]
    """Query → wall time of the search alone."""
    left_out: int = 0
    """Results that the filter left out."""
    unknown: int = 0
    """Relevant documents that the corpus does not hold."""
    used: tuple[Used, ...] = ()
    """What embedders on servers were sent for these searches."""
    size: int | None = None
    """Bytes of the index on disk, where the retriever keeps one."""

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The run as the measures take it."""
        return {query: dict(documents) for query, documents in self.run.items()}

    @property
    def queries_per_second(self) -> float | None:
        """One query after another; ``None`` where nothing was searched."""
        total = sum(self.seconds.values())
        return len(self.seconds) / total if total else None

    @property
    def p95(self) -> float | None:
        """Seconds within which 95 of 100 searches end."""
        ordered = sorted(self.seconds.values())
        return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else None


async def retrieve(
    searcher: Searcher,
    queries: Mapping[str, str],
    k: int,
    *,
    written: Mapping[str, Query] = MappingProxyType({}),
    keep: Keep | None = None,
    progress: Callable[[int], None] | None = None,
) -> Retrieved:
    """Search for every query, one after another; in place of those in `written` (by query id), for what stands there:
    a text that a model wrote, or, by a dense retriever that can, the mean of several texts' vectors.

    Where the corpus is cut into chunks, a document's score is its best chunk's (MaxP, Dai and Callan 2019), and more
    chunks are fetched until `k` documents are found or there are no more.
    """
    run: dict[str, list[tuple[str, float]]] = {}
    seconds: dict[str, float] = {}
    left_out = 0
    with USED.collecting() as used:
        for number, (query, text) in enumerate(queries.items(), 1):
            wanted = written.get(query) or Query(text)
            began = time.perf_counter()
            run[query], dropped = await _documents(searcher, query, wanted, k, keep)
            seconds[query] = time.perf_counter() - began
            left_out += dropped
            if progress:
                progress(number)
    size = getattr(searcher, "size", None)
    return Retrieved(searcher.spec, searcher.corpus, run, seconds, left_out, used=tuple(used), size=size)


async def _documents(
    searcher: Searcher, query: str, wanted: Query, k: int, keep: Keep | None
) -> tuple[list[tuple[str, float]], int]:
    depth = k
    while True:
        if wanted.dense and isinstance(searcher, MeanSearcher):
            found = await searcher.search_mean(wanted.dense, depth)
        else:
            found = await searcher.search(wanted.text, depth)
        best: dict[str, float] = {}
        dropped = 0
        for passage in found:
            if keep is not None and not keep(query, passage):
                dropped += 1
            elif passage.document not in best:
                best[passage.document] = passage.score
        if len(best) >= k or len(found) < depth:
            return list(best.items())[:k], dropped
        depth *= 4


class _Row(msgspec.Struct):
    query: str | int
    documents: list[str | int]


def read_guard(path: Path) -> dict[str, frozenset[str]]:
    """Read JSON Lines ``{"query": id, "documents": [id, …]}``.

    Raises:
        UserError: no such file, or a line that is not of that form.
    """
    forbidden: dict[str, frozenset[str]] = {}
    for _, row in read_rows(path, _Row, "{query, documents}"):
        query = str(row.query)
        forbidden[query] = forbidden.get(query, frozenset()) | frozenset(map(str, row.documents))
    return forbidden


def leak_filter(queries: Mapping[str, str], path: Path | None, near: float | None) -> Keep | None:
    """The filter for a set of queries; ``None`` where nothing is asked for.

    Args:
        queries: Id → text.
        path: A file of documents that a query may not find.
        near: Share of a query's own wording at which a passage is left out.

    Raises:
        UserError: the file cannot be read, or names a query that is not in the set.
    """
    if path is None and near is None:
        return None
    forbidden = read_guard(path) if path else {}
    unknown = sorted(forbidden.keys() - queries.keys())
    if unknown:
        raise UserError(f"{str(path)!r} guards {len(unknown)} queries that are not in the set, such as {unknown[0]!r}.")
    guards = {
        query: LeakGuard(forbidden.get(query, frozenset()), "" if near is None else text, 1.0 if near is None else near)
        for query, text in queries.items()
    }

    def _keep(query: str, passage: Passage) -> bool:
        return guards[query].keeps(passage)

    return _keep
