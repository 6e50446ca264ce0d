"""Searches of corpora that change by themselves: the web, PubMed. See :class:`ragrounds.base.contracts.Searcher`.

The corpus has no version; it is called ``NAME@live``. The results of a search are journaled with the time, so that a
replay is exact, and every passage has the day in its corpus, ``NAME@2026-11-23`` (UTC).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from ragrounds.base.contracts import SearchNote
from ragrounds.base.errors import GaveUp
from ragrounds.base.records import Passage
from ragrounds.extensions.live_search.provider_budget import SearchFailed, SearchRefused
from ragrounds.tools.search_notes import LIVE, SEARCH_NOTES

_SHOWN = 200
"""Number of a query's characters in a message."""


class LiveHit(msgspec.Struct, frozen=True):
    """A result of a live search."""

    id: str
    title: str
    text: str
    score: float | None = None
    """The provider's own score; ``None`` if it reports none."""


class LiveSearcher(ABC):
    """A searcher of a live corpus.

    Args:
        spec: its canonical text, without parameters that do not affect the results.
        name: name of the searched source: ``web``, ``pubmed``.
    """

    def __init__(self, spec: str, name: str) -> None:
        self.spec, self._name = spec, name
        self.corpus = name + LIVE

    @abstractmethod
    async def hits(self, query: str, k: int) -> Sequence[LiveHit]:
        """Return the first `k` results, best first.

        Raises:
            SearchFailed: the provider gives no answer, or does not take the query.
        """

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the first `k` results, with the provider's scores if all have one, else 1 / rank.

        A query that the provider refuses finds nothing, and a note on the search reports it.

        Raises:
            GaveUp: the provider gives no answer, even after repeated requests.
            StopRun: every further search would end alike.
        """

        if not query.strip():
            return []
        day = datetime.now(UTC).date().isoformat()
        try:
            results = list(await self.hits(query, k))[:k]
        except SearchRefused as refused:
            text = f"{refused}. This search found nothing. The query was {query[:_SHOWN]!r}."
            SEARCH_NOTES.report(SearchNote("search_refused", text))
            return []
        except SearchFailed as problem:
            raise GaveUp(problem.kind, f"{problem}. The query was {query[:_SHOWN]!r}.") from None
        scores = [hit.score for hit in results if hit.score is not None]
        # Scores of a provider are used only if every hit has one and they agree with its order.
        if len(scores) < len(results) or not all(first >= second for first, second in pairwise(scores)):
            scores = [1 / rank for rank in range(1, len(results) + 1)]
        return [
            Passage(
                id=hit.id,
                document=hit.id,
                title=hit.title,
                text=hit.text,
                corpus=f"{self._name}@{day}",
                score=score,
                rank=rank,
                retriever=self.spec,
            )
            for rank, (hit, score) in enumerate(zip(results, scores, strict=True), 1)
        ]
