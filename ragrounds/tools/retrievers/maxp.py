"""Two-level MaxP: long queries over chunked documents (OGCaReBench).

``maxp[of=bm25,query=tokens[size=512,stride=128]]``: the query is cut too, each piece is searched for, and a document's
score is the best that any of its chunks has for any piece. The result has one passage a document, its best chunk.

The ranking is that of all chunks: `depth` chunks are fetched for each piece at first, and more until `k` documents are
found and no chunk that was not fetched can change their order.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence

import msgspec

from ragrounds.base.contracts import Searcher
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.tools.index.chunkers import complete, splitter
from ragrounds.tools.merged import passages_of
from ragrounds.tools.retriever import (
    Retriever,
    RetrieverParameter,
    SearchedCorpora,
    member_spec,
    value_of,
)


class MaxPSearcher:
    """Searcher that scores documents by their best chunk for the best piece of the query."""

    def __init__(self, spec: Spec, searcher: Searcher) -> None:
        parameters = MAXP.values_in(spec)
        chunker = complete(parameters["query"])
        self._searcher = searcher
        self._split = splitter(chunker)
        self._depth: int = parameters["depth"]
        self.corpus = searcher.corpus
        self.spec = str(Spec("maxp", {**parameters, "query": chunker, "of": value_of(searcher)}))

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, if the inner retriever can return them."""
        return passages_of(id, [self._searcher])

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return one passage for each of the `k` best documents. Ties go to the document found for an earlier piece."""
        pieces = [piece for piece in self._split(query) if piece.strip()]
        depth = max(k, self._depth)
        while True:
            results = await asyncio.gather(*(self._searcher.search(piece, depth) for piece in pieces))
            best = _best(results)[:k]
            # A chunk that was not fetched has at most the score of the last that was.
            unseen = max((hits[-1].score for hits in results if len(hits) >= depth), default=-math.inf)
            if unseen == -math.inf or (len(best) == k and unseen <= best[-1].score):
                break
            depth *= 4
        return [msgspec.structs.replace(hit, rank=rank, retriever=self.spec) for rank, hit in enumerate(best, 1)]


def _best(results: Iterable[Sequence[Passage]]) -> list[Passage]:
    """Return the best chunk of each document, best first."""
    best: dict[tuple[str, str], Passage] = {}
    for hit in (hit for hits in results for hit in hits):
        key = (hit.corpus, hit.document)
        if key not in best or hit.score > best[key].score:
            best[key] = hit
    return sorted(best.values(), key=lambda hit: -hit.score)


def _open(spec: Spec, corpora: SearchedCorpora) -> MaxPSearcher:
    MAXP.check(spec)
    return MaxPSearcher(spec, corpora.searcher(member_spec(spec)))


MAXP = Retriever(
    name="maxp",
    summary="two-level MaxP: pieces of a long query against chunks of documents (OGCaReBench)",
    example="maxp[of=bm25,query=tokens[size=512,stride=128]]",
    open=_open,
    parameters=(
        RetrieverParameter("of", "the retriever inside", "bm25"),
        RetrieverParameter("query", "the chunker that cuts queries", Spec("tokens", {"size": 512, "stride": 128})),
        RetrieverParameter("depth", "chunks fetched for each piece of a query at first", 1000, least=1),
    ),
    cost="a search for each piece of the query",
)
