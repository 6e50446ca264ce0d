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
    """Scores documents by their best chunk for the best piece of the query."""

    def __init__(self, spec: Spec, searcher: Searcher) -> None:
        given = MAXP.given(spec)
        chosen = complete(given["query"])
        self._searcher = searcher
        self._split = splitter(chosen)
        self._depth: int = given["depth"]
        self.corpus = searcher.corpus
        self.spec = str(Spec("maxp", {**given, "query": chosen, "of": value_of(searcher)}))

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, where the inner retriever can give them."""
        return passages_of(id, [self._searcher])

    async def search(self, query: str, k: int) -> list[Passage]:
        """One passage for each of the `k` best documents; ties go to the document found for an earlier piece."""
        pieces = [piece for piece in self._split(query) if piece.strip()]
        depth = max(k, self._depth)
        while True:
            found = await asyncio.gather(*(self._searcher.search(piece, depth) for piece in pieces))
            best = _best(found)[:k]
            # A chunk that was not fetched has at most the score of the last that was.
            unseen = max((hits[-1].score for hits in found if len(hits) >= depth), default=-math.inf)
            if unseen == -math.inf or (len(best) == k and unseen <= best[-1].score):
                break
            depth *= 4
        return [msgspec.structs.replace(hit, rank=rank, retriever=self.spec) for rank, hit in enumerate(best, 1)]


def _best(found: Iterable[Sequence[Passage]]) -> list[Passage]:
    """The best chunk of each document, best first."""
    best: dict[tuple[str, str], Passage] = {}
    for hit in (hit for hits in found for hit in hits):
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
