"""Two-level MaxP: long queries over chunked documents (OGCaReBench).

``maxp[of=bm25,query=tokens[size=512,stride=128]]``: the query is cut too, each piece is searched for, and a document's
score is the best that any of its chunks has for any piece. The result has one passage a document, its best chunk.
"""

from __future__ import annotations

import asyncio

import msgspec

from ragrounds.contracts import Searcher
from ragrounds.errors import UserError
from ragrounds.records import Passage
from ragrounds.specs import Spec, Value
from ragrounds.tools.chunkers import complete, splitter
from ragrounds.tools.merged import passages_of
from ragrounds.tools.retriever import (
    Retriever,
    RetrieverParameter,
    SearchedCorpora,
    member_spec,
    value_of,
)

DEPTH = 1000
"""Chunks fetched for each piece of a query."""
_QUERY = Spec("tokens", {"size": 512, "stride": 128})


class MaxPSearcher:
    """Scores documents by their best chunk for the best piece of the query."""

    def __init__(self, spec: Spec, searcher: Searcher) -> None:
        cutter = spec.parameters.get("query", _QUERY)
        if isinstance(cutter, bool | int | float):
            raise UserError(
                f"Cannot cut queries with {cutter!r}: expected a chunker, such as {str(complete(_QUERY))!r}."
            )
        chosen = complete(cutter)
        depth = spec.parameters.get("depth", DEPTH)
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise UserError(f"Cannot use depth={depth!r} in maxp: expected a whole number above 0.")
        self._searcher = searcher
        self._split = splitter(chosen)
        self._depth = depth
        named: dict[str, Value] = {"of": value_of(searcher), "query": chosen, "depth": depth}
        self.corpus = searcher.corpus
        self.spec = str(Spec("maxp", named))

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, where the inner retriever can give them."""
        return passages_of(id, [self._searcher])

    async def search(self, query: str, k: int) -> list[Passage]:
        """One passage for each of the `k` best documents; ties go to the document found for an earlier piece."""
        pieces = [piece for piece in self._split(query) if piece.strip()]
        found = await asyncio.gather(*(self._searcher.search(piece, max(k, self._depth)) for piece in pieces))
        best: dict[str, Passage] = {}
        for hit in (hit for hits in found for hit in hits):
            if hit.document not in best or hit.score > best[hit.document].score:
                best[hit.document] = hit
        ordered = sorted(best.values(), key=lambda hit: -hit.score)[:k]
        return [msgspec.structs.replace(hit, rank=rank, retriever=self.spec) for rank, hit in enumerate(ordered, 1)]


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
        RetrieverParameter("query", "the chunker that cuts queries", _QUERY),
        RetrieverParameter("depth", "chunks fetched for each piece of a query", DEPTH),
    ),
    cost="a search for each piece of the query",
)
