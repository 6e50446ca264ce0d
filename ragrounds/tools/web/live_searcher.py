"""Searches of what changes by itself: the web, PubMed. See :class:`ragrounds.base.contracts.Searcher`.

The corpus has no version; it is called ``NAME@live``. What a search found is journaled with its moment, so that a
replay is exact, and every passage has the day in its corpus, ``NAME@2026-11-23`` (UTC)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from ragrounds.base.contracts import SearchNote
from ragrounds.base.errors import GaveUp
from ragrounds.base.records import Passage
from ragrounds.tools.search_notes import LIVE, SEARCH_NOTES
from ragrounds.tools.web.provider_budget import SearchFailed, SearchRefused

_SHOWN = 200
"""Characters of a query in a message."""


class LiveHit(msgspec.Struct, frozen=True):
    """One result of a live search."""

    id: str
    title: str
    text: str
    score: float | None = None
    """The provider's own; ``None``: it gives none."""


class LiveSearcher(ABC):
    """A searcher of a live corpus.

    Args:
        spec: its canonical text, without what changes nothing of what is found.
        name: what is searched: ``web``, ``pubmed``.
    """

    def __init__(self, spec: str, name: str) -> None:
        self.spec, self._name = spec, name
        self.corpus = name + LIVE

    @abstractmethod
    async def hits(self, query: str, k: int) -> Sequence[LiveHit]:
        """The first `k` results, best first.

        Raises:
            SearchFailed: the provider gives no answer, or does not take the query.
        """

    async def search(self, query: str, k: int) -> list[Passage]:
        """The first `k` results, with the provider's scores where all have one, else 1 / rank. A query that the
        provider refuses finds nothing, and that is noted on the search.

        Raises:
            GaveUp: the provider gives no answer, also when asked again.
            StopRun: every further search would end alike.
        """

        if not query.strip():
            return []
        day = datetime.now(UTC).date().isoformat()
        try:
            found = list(await self.hits(query, k))[:k]
        except SearchRefused as refused:
            text = f"{refused}. This search found nothing. The query was {query[:_SHOWN]!r}."
            SEARCH_NOTES.report(SearchNote("search_refused", text))
            return []
        except SearchFailed as problem:
            raise GaveUp(problem.kind, f"{problem}. The query was {query[:_SHOWN]!r}.") from None
        scores = _scores(found)
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
            for rank, (hit, score) in enumerate(zip(found, scores, strict=True), 1)
        ]


def _scores(found: Sequence[LiveHit]) -> list[float]:
    given = [hit.score for hit in found if hit.score is not None]
    if given and len(given) == len(found) and all(one >= other for one, other in pairwise(given)):
        return given
    return [1 / rank for rank in range(1, len(found) + 1)]
