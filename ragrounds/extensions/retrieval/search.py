"""Searches for every query of a set, optionally with a leak guard.

`ragrounds retrieve` shows guarded and unguarded results next to each other (:mod:`ragrounds.tools.leak_guard`)."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ragrounds.base.chunks import in_batches
from ragrounds.base.contracts import BatchSearcher, MeanSearcher, Searcher, Used
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage, Query
from ragrounds.tools.index.embedders import USED
from ragrounds.tools.leak_guard import LeakGuard, read_guard
from ragrounds.tools.search_notes import SEARCH_REQUESTS

Keep = Callable[[str, Passage], bool]
"""Predicate that is True if a passage may be a result of the query with that id. A leak guard is one."""


@dataclass(frozen=True)
class Retrieved:
    """Results of a retriever on a set of queries, with times."""

    retriever: str
    corpus: str
    run: dict[str, list[tuple[str, float]]]
    """Query → documents with scores, best first."""
    seconds: dict[str, float]
    """Query → wall time of the search alone, in seconds; for queries of one batch, their share of it."""
    wall: float = 0.0
    """Wall time of all searches together, in seconds."""
    at_once: int = 1
    """Number of concurrent searches."""
    left_out: int = 0
    """Number of results that the filter left out."""
    unknown: int = 0
    """Number of relevant documents that the corpus does not contain."""
    used: tuple[Used, ...] = ()
    """Usage of embedders on servers, and search requests, of these searches."""
    size: int | None = None
    """Bytes of the index on disk, if the retriever has one."""

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Query → document → score, the form that the measures take."""
        return {query: dict(documents) for query, documents in self.run.items()}

    @property
    def queries_per_second(self) -> float | None:
        """Queries per second with `at_once` concurrent searches; ``None`` if nothing was searched."""
        return len(self.seconds) / self.wall if self.wall else None

    @property
    def p95(self) -> float | None:
        """Seconds within which 95 of 100 searches end."""
        ordered = sorted(self.seconds.values())
        return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else None


_DEEPER = 4
"""Factor by which more passages are requested if the passages are of too few documents."""
BATCH = 64
"""Number of queries per batch, for a searcher that takes batches."""


async def retrieve(
    searcher: Searcher,
    queries: Mapping[str, str],
    k: int,
    *,
    replacements: Mapping[str, Query] = MappingProxyType({}),
    keep: Keep | None = None,
    progress: Callable[[int], None] | None = None,
    at_once: int | None = None,
) -> Retrieved:
    """Search for every query, or for its replacement in `replacements`.

    A replacement is a text that a model wrote or, for a dense retriever that supports it, the mean of several texts'
    vectors.

    If the corpus is cut into chunks, a document's score is that of its best chunk (MaxP, Dai and Callan 2019), and more
    chunks are fetched until `k` documents are found or the chunks are exhausted.

    Args:
        searcher: the searcher.
        queries: query id → text.
        k: documents per query.
        replacements: query id → replacement of the query.
        keep: predicate that is True if a passage may be a result.
        progress: called with the number of finished queries.
        at_once: number of concurrent searches; ``None`` for the number of CPU cores.
    """
    concurrency = at_once or os.cpu_count() or 1
    searches = _Searches(searcher, k, keep)
    plain = {query: text for query, text in queries.items() if query not in replacements}
    batched = isinstance(searcher, BatchSearcher)
    single_queries = iter(
        replacements.items() if batched else [(id, replacements.get(id) or Query(text)) for id, text in queries.items()]
    )
    batches = iter(in_batches(plain.items(), BATCH) if batched else ())

    async def _worker() -> None:
        for batch in batches:
            await searches.many(batch)
            if progress:
                progress(len(searches.run))
        for query, replacement in single_queries:
            await searches.search_one(query, replacement)
            if progress:
                progress(len(searches.run))

    with USED.collecting() as used, SEARCH_REQUESTS.collecting() as requests:
        began = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, max(1, len(queries)))):
                    group.create_task(_worker())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        wall = time.perf_counter() - began
    return Retrieved(
        searcher.spec,
        searcher.corpus,
        {query: searches.run[query] for query in queries},
        {query: searches.seconds[query] for query in queries},
        wall,
        concurrency,
        searches.left_out,
        used=(*used, *requests),
        size=getattr(searcher, "size", None),
    )


class _Searches:
    """Searches of one set, with results and times."""

    def __init__(self, searcher: Searcher, k: int, keep: Keep | None) -> None:
        self._searcher, self._k, self._keep = searcher, k, keep
        self.run: dict[str, list[tuple[str, float]]] = {}
        self.seconds: dict[str, float] = {}
        self.left_out = 0

    async def search_one(self, query: str, wanted_query: Query, deeper: int = 1) -> None:
        """Search for one query, and request `deeper` times as many passages as documents."""
        began = time.perf_counter()
        results, dropped = await _documents(self._searcher, query, wanted_query, self._k, self._keep, deeper)
        self._done(query, results, dropped, time.perf_counter() - began)

    async def many(self, batch: Sequence[tuple[str, str]]) -> None:
        """Search for several queries at once. Queries that need more passages are searched again one by one."""
        searcher = self._searcher
        if not isinstance(searcher, BatchSearcher):
            raise TypeError(f"{searcher.spec} takes no batches")
        began = time.perf_counter()
        answers = await searcher.search_many([text for _, text in batch], self._k)
        share = (time.perf_counter() - began) / len(batch)
        for (query, text), passages in zip(batch, answers, strict=True):
            best, dropped = _best(query, passages, self._keep)
            if len(best) >= self._k or len(passages) < self._k:
                self._done(query, list(best.items())[: self._k], dropped, share)
            else:
                await self.search_one(query, Query(text), deeper=_DEEPER)

    def _done(self, query: str, results: list[tuple[str, float]], dropped: int, seconds: float) -> None:
        self.run[query], self.seconds[query] = results, seconds
        self.left_out += dropped


async def _documents(
    searcher: Searcher, query: str, replacement: Query, k: int, keep: Keep | None, deeper: int = 1
) -> tuple[list[tuple[str, float]], int]:
    depth = k * deeper
    while True:
        if replacement.dense and isinstance(searcher, MeanSearcher):
            passages = await searcher.search_mean(replacement.dense, depth)
        else:
            passages = await searcher.search(replacement.text, depth)
        best, dropped = _best(query, passages, keep)
        if len(best) >= k or len(passages) < depth:
            return list(best.items())[:k], dropped
        depth *= _DEEPER


def _best(query: str, passages: Sequence[Passage], keep: Keep | None) -> tuple[dict[str, float], int]:
    """Return each document's best score, best first, and how many passages the filter left out."""
    best: dict[str, float] = {}
    dropped = 0
    for passage in passages:
        if keep is not None and not keep(query, passage):
            dropped += 1
        elif passage.document not in best:
            best[passage.document] = passage.score
    return best, dropped


def leak_filter(
    queries: Mapping[str, str],
    path: Path | None,
    near: float | None,
    own_documents: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Keep | None:
    """Return the filter for a set of queries, or ``None`` if no filter is requested.

    Args:
        queries: query id → text.
        path: file of documents that a query may not find.
        near: share of a query's wording at which a passage is left out.
        own_documents: guard of the set (query → documents), used if `path` is not given.

    Raises:
        UserError: the file cannot be read, or names a query that is not in the set.
    """
    if path is None and near is None and not own_documents:
        return None
    forbidden = read_guard(path) if path else own_documents
    unknown = sorted(forbidden.keys() - queries.keys())
    if unknown and path:
        raise UserError(f"{str(path)!r} guards {len(unknown)} queries that are not in the set, such as {unknown[0]!r}.")
    guards = {
        query: LeakGuard(forbidden.get(query, frozenset()), "" if near is None else text, 1.0 if near is None else near)
        for query, text in queries.items()
    }

    def _keep(query: str, passage: Passage) -> bool:
        return guards[query].keeps(passage)

    return _keep
