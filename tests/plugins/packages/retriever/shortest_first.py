"""Retriever ``shortest_first``: of what BM25 finds, the shortest passages first."""

from msgspec.structs import replace

from ragrounds.extend import Retriever, RetrieverParameter, Spec


class ShortestFirst:
    def __init__(self, spec, inner, pool):
        self.spec, self.corpus, self._inner, self._pool = str(spec), inner.corpus, inner, pool

    async def search(self, query, k):
        found = sorted(await self._inner.search(query, max(k, self._pool)), key=lambda passage: len(passage.text))[:k]
        return [replace(one, rank=rank, score=1 / rank, retriever=self.spec) for rank, one in enumerate(found, 1)]


def open_it(spec, corpora):
    SHORTEST_FIRST.check(spec)  # refuses unknown parameters
    return ShortestFirst(spec, corpora.searcher(Spec("bm25")), int(spec.parameters.get("pool", 20)))


SHORTEST_FIRST = Retriever(
    name="shortest_first",
    summary="of what BM25 finds, the shortest passages first",
    example="shortest_first[pool=20]",
    open=open_it,
    parameters=(RetrieverParameter("pool", "passages to choose from", 20),),
    cost="a BM25 search",
)
