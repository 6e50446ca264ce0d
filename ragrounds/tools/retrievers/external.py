"""A user's own retriever, by import path: the way to a corpus beyond one machine.

* ``langchain[from="package.module:name"]`` — a LangChain ``BaseRetriever`` or ``VectorStore``;
* ``llamaindex[from="package.module:name"]`` — a LlamaIndex ``BaseRetriever``.

The name may be the object or a function without arguments that makes it. The corpus is whatever it searches: it is
called what ``--corpus`` says, with ``version=…`` of the spec, since its content cannot be hashed from here. Results
keep the retriever's order; where it gives no scores, a passage's is 1 / rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from ragrounds.errors import UserError
from ragrounds.plugins import imported
from ragrounds.records import Passage
from ragrounds.specs import Spec
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora

_IDS = ("id", "_id", "passage_id", "chunk_id")
_DOCUMENTS = ("document", "document_id", "doc_id", "source")


class _ForeignSearcher:
    """A searcher over a corpus that is not ours: its name and version are what the user says."""

    def __init__(self, spec: Spec, corpus: str) -> None:
        self.spec = str(spec)
        self.corpus = f"{corpus}@{spec.parameters.get('version', 'unversioned')}"

    def _passages(self, hits: Iterable[tuple[str, str, Mapping[str, object], float | None]], k: int) -> list[Passage]:
        found = []
        for rank, (identity, text, metadata, score) in enumerate(list(hits)[:k], 1):
            name = identity or _first(metadata, _IDS) or hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
            found.append(
                Passage(
                    id=name,
                    document=_first(metadata, _DOCUMENTS) or name,
                    title=_first(metadata, ("title",)),
                    text=text,
                    corpus=self.corpus,
                    score=1 / rank if score is None else score,
                    rank=rank,
                    retriever=self.spec,
                )
            )
        return found


class LangChainSearcher(_ForeignSearcher):
    """Searches through a LangChain retriever or vector store."""

    def __init__(self, spec: Spec, corpus: str) -> None:
        super().__init__(spec, corpus)
        from langchain_core.retrievers import BaseRetriever
        from langchain_core.vectorstores import VectorStore

        kinds = (BaseRetriever, VectorStore)
        found: Any = imported(path_of(spec), kinds, "a LangChain BaseRetriever or VectorStore")
        self._retriever: Any = found.as_retriever() if isinstance(found, VectorStore) else found

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` first results; ``k`` is passed on to retrievers that take it."""
        if not query.strip():
            return []
        documents = await self._retriever.ainvoke(query, k=k)
        return self._passages(
            ((str(document.id or ""), document.page_content, document.metadata, None) for document in documents), k
        )


class LlamaIndexSearcher(_ForeignSearcher):
    """Searches through a LlamaIndex retriever."""

    def __init__(self, spec: Spec, corpus: str) -> None:
        super().__init__(spec, corpus)
        from llama_index.core.retrievers import BaseRetriever

        self._retriever: Any = imported(path_of(spec), BaseRetriever, "a LlamaIndex BaseRetriever")

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` first results; the retriever's own ``similarity_top_k`` is raised where it is lower."""
        if not query.strip():
            return []
        if getattr(self._retriever, "similarity_top_k", k) < k:
            self._retriever.similarity_top_k = k
        nodes = await self._retriever.aretrieve(query)
        return self._passages(
            ((node.node.node_id, node.node.get_content(), node.node.metadata, node.score) for node in nodes), k
        )


def path_of(spec: Spec) -> str:
    """The import path of a spec.

    Raises:
        UserError: there is none, or parameters that are not known.
    """
    LANGCHAIN.check(spec)
    path = spec.parameters.get("from")
    if not isinstance(path, str):
        raise UserError(f'{spec.name} needs an import path: {spec.name}[from="package.module:name"].')
    return path


def _first(metadata: Mapping[str, object], keys: Iterable[str]) -> str:
    return next((str(metadata[key]) for key in keys if metadata.get(key) not in (None, "")), "")


def _langchain(spec: Spec, corpora: SearchedCorpora) -> LangChainSearcher:
    return LangChainSearcher(spec, corpora.names)


def _llamaindex(spec: Spec, corpora: SearchedCorpora) -> LlamaIndexSearcher:
    return LlamaIndexSearcher(spec, corpora.names)


_PARAMETERS = (
    RetrieverParameter("from", "import path of the object, or of a function that makes it"),
    RetrieverParameter("version", "of what it searches: a part of the run's identity", "unversioned"),
)
LANGCHAIN = Retriever(
    name="langchain",
    summary="your own LangChain BaseRetriever or VectorStore",
    example='langchain[from="package.module:name",version="2026-01"]',
    open=_langchain,
    parameters=_PARAMETERS,
    cost="what your retriever takes",
)
LLAMAINDEX = Retriever(
    name="llamaindex",
    summary="your own LlamaIndex BaseRetriever",
    example='llamaindex[from="package.module:name",version="2026-01"]',
    open=_llamaindex,
    parameters=_PARAMETERS,
    cost="what your retriever takes",
)
