"""Searches for every query of a set, past a leak guard where one is asked for.

`ragrounds retrieve` shows guarded and unguarded results side by side (:mod:`ragrounds.tools.leak_guard`)."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from ragrounds.base.contracts import BatchSearcher, MeanSearcher, Searcher, Used
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage, Query
from ragrounds.tools.index.embedders import USED
from ragrounds.tools.leak_guard import LeakGuard, read_guard
from ragrounds.tools.search_notes import SEARCH_REQUESTS

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
    """Query → wall time of the search alone; of queries searched in one batch, their share of it."""
    wall: float = 0.0
    """Seconds of all searches together, side by side as they were made."""
    at_once: int = 1
    """Searches that were made side by side."""
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
        """With `at_once` side by side; ``None`` where nothing was searched."""
        return len(self.seconds) / self.wall if self.wall else None

    @property
    def p95(self) -> float | None:
        """Seconds within which 95 of 100 searches end."""
        ordered = sorted(self.seconds.values())
        return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else None


_DEEPER = 4
"""By how much more passages are asked for, where they are of too few documents."""
BATCH = 64
"""Queries that are searched at once by a searcher that takes batches."""


async def retrieve(
    searcher: Searcher,
    queries: Mapping[str, str],
    k: int,
    *,
    written: Mapping[str, Query] = MappingProxyType({}),
    keep: Keep | None = None,
    progress: Callable[[int], None] | None = None,
    at_once: int | None = None,
) -> Retrieved:
    """Search for every query; in place of those in `written` (by query id), for what stands there: a text that a model
    wrote, or, by a dense retriever that can, the mean of several texts' vectors.

    Where the corpus is cut into chunks, a document's score is its best chunk's (MaxP, Dai and Callan 2019), and more
    chunks are fetched until `k` documents are found or there are no more.

    Args:
        searcher: what is searched.
        queries: id → text.
        k: documents a query.
        written: what stands in a query's place.
        keep: whether a passage may be a result.
        progress: is told how many queries are done.
        at_once: searches side by side; ``None``: as many as this machine has cores.
    """
    side_by_side = at_once or os.cpu_count() or 1
    work = _Searches(searcher, k, keep)
    plain = {query: text for query, text in queries.items() if query not in written}
    batched = isinstance(searcher, BatchSearcher)
    left = iter(written.items() if batched else [(id, written.get(id) or Query(text)) for id, text in queries.items()])
    batches = iter(batched_items(plain, BATCH) if batched else ())

    async def _worker() -> None:
        for batch in batches:
            await work.many(batch)
            if progress:
                progress(len(work.run))
        for query, wanted in left:
            await work.one(query, wanted)
            if progress:
                progress(len(work.run))

    with USED.collecting() as used, SEARCH_REQUESTS.collecting() as requests:
        began = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(side_by_side, max(1, len(queries)))):
                    group.create_task(_worker())
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None
        wall = time.perf_counter() - began
    return Retrieved(
        searcher.spec,
        searcher.corpus,
        {query: work.run[query] for query in queries},
        {query: work.seconds[query] for query in queries},
        wall,
        side_by_side,
        work.left_out,
        used=(*used, *requests),
        size=getattr(searcher, "size", None),
    )


def batched_items(items: Mapping[str, str], size: int) -> Iterator[list[tuple[str, str]]]:
    """The items in lists of at most `size`."""
    left = iter(items.items())
    while batch := list(islice(left, size)):
        yield batch


class _Searches:
    """Searches of one set: what they found, and how long they took."""

    def __init__(self, searcher: Searcher, k: int, keep: Keep | None) -> None:
        self._searcher, self._k, self._keep = searcher, k, keep
        self.run: dict[str, list[tuple[str, float]]] = {}
        self.seconds: dict[str, float] = {}
        self.left_out = 0

    async def one(self, query: str, wanted: Query, deeper: int = 1) -> None:
        """Search for one query, `deeper` times as many passages as documents are wanted."""
        began = time.perf_counter()
        found, dropped = await _documents(self._searcher, query, wanted, self._k, self._keep, deeper)
        self._done(query, found, dropped, time.perf_counter() - began)

    async def many(self, batch: Sequence[tuple[str, str]]) -> None:
        """Search for several queries at once; those that need more passages are searched again by themselves."""
        searcher = self._searcher
        if not isinstance(searcher, BatchSearcher):
            raise TypeError(f"{searcher.spec} takes no batches")
        began = time.perf_counter()
        answers = await searcher.search_many([text for _, text in batch], self._k)
        share = (time.perf_counter() - began) / len(batch)
        for (query, text), found in zip(batch, answers, strict=True):
            best, dropped = _best(query, found, self._keep)
            if len(best) >= self._k or len(found) < self._k:
                self._done(query, list(best.items())[: self._k], dropped, share)
            else:
                await self.one(query, Query(text), deeper=_DEEPER)

    def _done(self, query: str, found: list[tuple[str, float]], dropped: int, seconds: float) -> None:
        self.run[query], self.seconds[query] = found, seconds
        self.left_out += dropped


async def _documents(
    searcher: Searcher, query: str, wanted: Query, k: int, keep: Keep | None, deeper: int = 1
) -> tuple[list[tuple[str, float]], int]:
    depth = k * deeper
    while True:
        if wanted.dense and isinstance(searcher, MeanSearcher):
            found = await searcher.search_mean(wanted.dense, depth)
        else:
            found = await searcher.search(wanted.text, depth)
        best, dropped = _best(query, found, keep)
        if len(best) >= k or len(found) < depth:
            return list(best.items())[:k], dropped
        depth *= _DEEPER


def _best(query: str, found: Sequence[Passage], keep: Keep | None) -> tuple[dict[str, float], int]:
    """Each document's best score, best first, and how many passages the filter left out."""
    best: dict[str, float] = {}
    dropped = 0
    for passage in found:
        if keep is not None and not keep(query, passage):
            dropped += 1
        elif passage.document not in best:
            best[passage.document] = passage.score
    return best, dropped


def leak_filter(
    queries: Mapping[str, str],
    path: Path | None,
    near: float | None,
    own: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Keep | None:
    """The filter for a set of queries; ``None`` where nothing is asked for.

    Args:
        queries: Id → text.
        path: A file of documents that a query may not find.
        near: Share of a query's own wording at which a passage is left out.
        own: The set's own guard, where no file is named: query → documents.

    Raises:
        UserError: the file cannot be read, or names a query that is not in the set.
    """
    if path is None and near is None and not own:
        return None
    forbidden = read_guard(path) if path else own
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
