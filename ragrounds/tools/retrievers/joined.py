"""One retriever over several corpora, put together as MedRAG's program does it.

``joined[of=medcpt]``: every corpus is searched alone for `k` passages, and the lists, one behind the other in the order
of the corpora, are sorted by raw score. Equal scores are in the reversed order of that list, the last corpus first;
those of a retriever whose scores are distances (``metric=l2``, such as SPECTER) are in its order. Without ``joined``
equal scores go to the corpus that is named first. Scores stay the retriever's own, and a passage that two corpora hold
is listed twice.

Source: MedRAG (Xiong et al. 2024, section 3.2 and the authors' program). Fusion over joined corpora
(``rrf[…,joined=whole]``) ranks these lists whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ragrounds.base.contracts import Searcher
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec, parse
from ragrounds.tools.corpora import corpora_of
from ragrounds.tools.index.cards import cards
from ragrounds.tools.merged import passages_of
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora, member_spec, value_of


class JoinedSearcher:
    """Searchers of one retriever over several corpora, in the order of the corpora."""

    def __init__(self, spec: str, members: Sequence[Searcher]) -> None:
        self.spec = spec
        self.corpus = "+".join(member.corpus for member in members)
        self._members = list(members)
        self._distances = scores_are_distances(parse(members[0].spec))

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, from the first corpus that has it."""
        return passages_of(id, self._members)

    async def search_whole(self, query: str, depth: int) -> list[Passage]:
        """Return the `depth` best passages of every corpus in one list, best first. It may hold `depth` × corpora."""
        lists = await asyncio.gather(*(member.search(query, depth) for member in self._members))
        hits = [hit for corpus_hits in lists for hit in corpus_hits]
        ordered = sorted(hits if self._distances else reversed(hits), key=lambda hit: -hit.score)
        return [msgspec.structs.replace(hit, rank=rank, retriever=self.spec) for rank, hit in enumerate(ordered, 1)]

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages of all corpora."""
        return (await self.search_whole(query, k))[:k]


def scores_are_distances(spec: Spec) -> bool:
    """Return True if a retriever's scores are distances with a minus sign."""
    card = cards().get(spec.name)
    return spec.parameters.get("metric", card.encoding.metric if card else "") == "l2"


def open_joined(spec: Spec, corpora: SearchedCorpora, *, query_spec: Spec | None = None) -> JoinedSearcher:
    """Open a retriever over each of several corpora.

    Args:
        spec: The retriever.
        corpora: Corpora that are searched.
        query_spec: The retriever whose name the passages carry and which has this one in its parameter `of`; ``None``:
            the retriever itself.

    Raises:
        UserError: as for the retriever.
    """
    members = [replace(corpora, names=name).searcher(spec) for name in corpora_of(corpora.names)]
    name = members[0].spec if query_spec is None else str(query_spec.having(of=value_of(members[0])))
    return JoinedSearcher(name, members)


def _open(spec: Spec, corpora: SearchedCorpora) -> JoinedSearcher:
    JOINED.check(spec)
    return open_joined(member_spec(spec), corpora, query_spec=spec)


JOINED = Retriever(
    name="joined",
    summary="one retriever over several corpora, joined as MedRAG's program does it (ties from the last corpus)",
    example="joined[of=medcpt]",
    open=_open,
    parameters=(RetrieverParameter("of", "the retriever inside", "bm25"),),
    cost="a search of each corpus",
)
