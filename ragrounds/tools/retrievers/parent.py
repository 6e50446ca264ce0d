"""Parent documents: ``parent[of=bm25]`` searches chunks and gives whole documents (OGCaReBench, Section 4.2, where the
top 1, 3 or 5 full case reports are the context).

A document is found by its best chunk (MaxP, Dai and Callan 2019), is listed once however many chunks are found, and
has that chunk's score. `k` counts documents. The passage says which chunk led to it (:attr:`Passage.chunk`). Only the
documents of one result are put together (:mod:`ragrounds.tools.whole_documents`); none is kept. What is too long for a
model's window is cut from the end by the graphs, as any passage is. ``fit`` says what is done with an agent whose
window is full before its last document begins: ``skip`` leaves the agent out, as the paper leaves out five reports for
models with 8k tokens; ``cut`` runs it all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec.structs import replace

from ragrounds.base.contracts import MeanSearcher, Searcher
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.tools.corpora import corpora_of
from ragrounds.tools.index.collection import Collection
from ragrounds.tools.index.collection_builder import open_collection
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora, member_spec, value_of
from ragrounds.tools.whole_documents import whole_document

_CHUNKS = 20
"""Number of chunks fetched at first for each requested document."""


class ParentSearcher:
    """Searcher over chunks that returns their whole documents."""

    def __init__(self, searcher: Searcher, collections: Sequence[Collection]) -> None:
        self._searcher = searcher
        self._collections = collections
        self.corpus = searcher.corpus
        self.spec = str(Spec("parent", {"of": value_of(searcher)}))
        self.size: int | None = getattr(searcher, "size", None)

    def document(self, id: str) -> list[Passage]:
        """Return the whole document as one passage; empty if no corpus has it."""
        document = whole_document(id, self._collections)
        return [document] if document else []

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best documents, whole, best first. Ties go to the document whose chunk comes first."""
        return await self._fetch_documents(partial(self._searcher.search, query), k)

    async def _fetch_documents(self, fetch: Callable[[int], Awaitable[list[Passage]]], k: int) -> list[Passage]:
        """Fetch chunks until they belong to `k` documents or there are no more, and return the documents."""
        depth = k * _CHUNKS
        while True:
            hits = await fetch(depth)
            if len(hits) < depth or len({(hit.corpus, hit.document) for hit in hits}) >= k:
                return self._whole_documents(hits, k)
            depth *= 4

    def _whole_documents(self, hits: Sequence[Passage], k: int) -> list[Passage]:
        best: dict[tuple[str, str], Passage] = {}
        for hit in hits:
            best.setdefault((hit.corpus, hit.document), hit)
        documents: list[Passage] = []
        for rank, hit in enumerate(list(best.values())[:k], 1):
            matching = [collection for collection in self._collections if collection.corpus == hit.corpus]
            document = whole_document(hit.document, matching or self._collections)
            if document is None:
                raise UserError(
                    f"{self.spec} found a passage of the document {hit.document!r}, which the corpus does not hold: "
                    "whole documents can be given of an index or a source of documents alone."
                )
            documents.append(replace(document, score=hit.score, rank=rank, retriever=self.spec, chunk=hit.id))
        return documents


class MeanParentSearcher(ParentSearcher):
    """Parent searcher over a dense retriever that can search for the mean of several texts' vectors."""

    def __init__(self, searcher: MeanSearcher, collections: Sequence[Collection]) -> None:
        super().__init__(searcher, collections)
        self._means = searcher

    async def search_mean(self, texts: Sequence[str], k: int) -> list[Passage]:
        """Return the `k` documents whose best chunks are nearest to the mean of the vectors of `texts`, whole."""
        return await self._fetch_documents(partial(self._means.search_mean, texts), k)


def _open(spec: Spec, corpora: SearchedCorpora) -> ParentSearcher:
    PARENT.values_in(spec)  # an error in the spec is raised before anything is built or loaded
    inner = corpora.searcher(member_spec(spec))
    names = corpora_of(corpora.names)
    collections = [open_collection(name, corpora.home, progress=corpora.progress) for name in names]
    if isinstance(inner, MeanSearcher):
        return MeanParentSearcher(inner, collections)
    return ParentSearcher(inner, collections)


PARENT = Retriever(
    name="parent",
    summary="chunks are searched, the whole documents they are of are given, each once (OGCaReBench)",
    example="parent[of=maxp[of=bm25]]",
    open=_open,
    parameters=(RetrieverParameter("of", "the retriever inside, which searches the chunks", "bm25"),),
    cost="a search by the retriever inside, and the documents of the result read from the corpus",
)
