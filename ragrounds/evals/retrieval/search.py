"""Searches for every query of a set, past a leak guard where one is asked for.

`ragrounds retrieve` shows guarded and unguarded results side by side (:mod:`ragrounds.tools.leak_guard`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ragrounds.contracts import MeanSearcher, Searcher, Used
from ragrounds.errors import UserError
from ragrounds.records import Passage, Query
from ragrounds.tools.embedders import USED
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
    with USED.collecting() as used, SEARCH_REQUESTS.collecting() as requests:
        for number, (query, text) in enumerate(queries.items(), 1):
            wanted = written.get(query) or Query(text)
            began = time.perf_counter()
            run[query], dropped = await _documents(searcher, query, wanted, k, keep)
            seconds[query] = time.perf_counter() - began
            left_out += dropped
            if progress:
                progress(number)
    size = getattr(searcher, "size", None)
    return Retrieved(searcher.spec, searcher.corpus, run, seconds, left_out, used=(*used, *requests), size=size)


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
