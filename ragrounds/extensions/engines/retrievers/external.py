"""Retrievers ``langchain`` and ``llamaindex``: a user's retriever by import path, for a corpus beyond one machine.

* ``langchain[from="package.module:name"]`` — a LangChain ``BaseRetriever`` or ``VectorStore``;
* ``llamaindex[from="package.module:name"]`` — a LlamaIndex ``BaseRetriever``.

The name may be the object or a function without arguments that makes it; ``./file.py:name`` and modules of the current
folder are found too. The corpus is whatever it searches: its name is that of ``--corpus`` or of the object, with
``version=…`` of the spec, since its content cannot be hashed from here. Results keep the retriever's order.

Scores are kept. Those of a LangChain vector store, also behind ``as_retriever()``, are from its search with
scores; if the best has the smallest, they are distances, and get a minus sign. Those of another LangChain retriever
are the numbers that every document names in its metadata (``score``, ``relevance_score`` …). Without scores, a
passage's score is 1 / rank.

After a failed connection, a timeout, or an answer of 429 or 5xx, two more tries are made. A failure after these, or
of another kind, fails the search with one line and never the run.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.http import root_cause
from ragrounds.base.plugins import imported
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.extensions.engines.external_engine import client_fault
from ragrounds.extensions.engines.external_index import PASSING, TRIES, fault_kind, retry_arguments
from ragrounds.recorder.redaction import redacted
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from llama_index.core.retrievers import BaseRetriever as LlamaRetriever

R = TypeVar("R")
_IDS = ("id", "_id", "passage_id", "chunk_id")
_DOCUMENTS = ("document", "document_id", "doc_id", "source")
_SCORES = ("score", "relevance_score", "similarity_score", "_score", "similarity")


class _Hit(NamedTuple):
    id: str
    text: str
    metadata: Mapping[str, object]
    score: float | None
    """Score of the hit; ``None`` if none was given."""


class _ForeignSearcher(ABC):
    """Searcher over an external corpus: the corpus has the name and version of the spec."""

    def __init__(self, spec: Spec, corpora: SearchedCorpora) -> None:
        self.spec = str(spec)
        self._name = spec.name
        self.corpus = (
            f"{corpora.names or path_of(spec).rpartition(':')[2]}@{spec.parameters.get('version', 'unversioned')}"
        )

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` first results.

        Raises:
            GaveUp: the retriever failed, also when asked again.
        """
        return self._passages(await self._retried(lambda: self._hits(query, k)), k) if query.strip() else []

    @abstractmethod
    async def _hits(self, query: str, k: int) -> list[_Hit]:
        """Return the hits of the user's object."""

    def _passages(self, hits: Iterable[_Hit], k: int) -> list[Passage]:
        passages = []
        first_hits = list(hits)[:k]
        scored = all(hit.score is not None and math.isfinite(hit.score) for hit in first_hits)
        for rank, hit in enumerate(first_hits, 1):
            text, metadata = hit.text, hit.metadata
            name = hit.id or _first_value(metadata, _IDS) or hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
            passages.append(
                Passage(
                    id=name,
                    document=_first_value(metadata, _DOCUMENTS) or name,
                    title=_first_value(metadata, ("title",)),
                    text=text,
                    corpus=self.corpus,
                    score=hit.score if scored and hit.score is not None else 1 / rank,
                    rank=rank,
                    retriever=self.spec,
                )
            )
        return passages

    async def _retried(self, call: Callable[[], Awaitable[R]]) -> R:
        """Await the result of the user's object, and try again after temporary faults.

        Raises:
            GaveUp: it failed for good.
        """
        from tenacity import AsyncRetrying

        retrying = AsyncRetrying(**retry_arguments(lambda error: fault_kind(error, client_fault)))

        async def attempt_once() -> R:
            """Make one try: tenacity awaits only what is defined as a coroutine."""
            return await call()

        try:
            return await retrying(attempt_once)
        except UserError:
            raise
        except Exception as problem:  # the user's code, and the libraries it calls, may raise anything
            kind = fault_kind(problem, client_fault)
            message = " ".join(safe(redacted(root_cause(problem)), 400).split()).rstrip(".")
            tries = f" {TRIES} times" if kind in PASSING else ""
            raise GaveUp(
                kind or "search", f"The retriever {self.spec} failed{tries}: {type(problem).__name__}: {message}."
            ) from problem


class ScoredStore:
    """LangChain vector store that is searched with scores; a greater score is better."""

    def __init__(self, store: VectorStore, options: Mapping[str, object]) -> None:
        self._store, self._search_arguments = store, {key: value for key, value in options.items() if key != "k"}
        self._distances: bool | None = None
        """True if the scores are distances; ``None`` if no search has shown it yet."""

    async def search(self, query: str, k: int) -> Sequence[tuple[Document, float | None]]:
        """Return the `k` best documents; without scores if the store has no such search."""
        # From a single hit it is unknown whether smaller or greater scores are better, so ask for two.
        depth = max(k, 2) if self._distances is None else k
        try:
            hits = await self._store.asimilarity_search_with_score(query, k=depth, **self._search_arguments)
        except NotImplementedError:
            documents = await self._store.asimilarity_search(query, k=k, **self._search_arguments)
            return [(document, None) for document in documents]
        scores = [float(score) for _, score in hits]
        if self._distances is None and len(set(scores)) > 1:
            self._distances = scores[0] < scores[-1]
        sign = -1.0 if self._distances else 1.0
        return [(document, sign * score) for (document, _), score in zip(hits, scores, strict=True)][:k]


class LangChainSearcher(_ForeignSearcher):
    """Searcher through a LangChain retriever or vector store."""

    def __init__(self, spec: Spec, corpora: SearchedCorpora) -> None:
        super().__init__(spec, corpora)
        from langchain_core.retrievers import BaseRetriever
        from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

        kinds: tuple[type[object], ...] = (BaseRetriever, VectorStore)
        imported_object = imported(path_of(spec), kinds, "a LangChain BaseRetriever or VectorStore")
        self._store: ScoredStore | None = None
        self._retriever: BaseRetriever | None = imported_object if isinstance(imported_object, BaseRetriever) else None
        if isinstance(imported_object, VectorStore):
            self._store = ScoredStore(imported_object, {})
        elif type(imported_object) is VectorStoreRetriever and imported_object.search_type == "similarity":
            self._store = ScoredStore(imported_object.vectorstore, imported_object.search_kwargs)

    async def _hits(self, query: str, k: int) -> list[_Hit]:
        """Search with the user's object; ``k`` is passed on to retrievers that take it."""
        hits: Sequence[tuple[Document, float | None]] = ()
        if self._store is not None:
            hits = await self._store.search(query, k)
        elif self._retriever is not None:
            documents = await self._retriever.ainvoke(query, k=k)
            hits = [(document, _score(document.metadata)) for document in documents]
        return [
            _Hit(str(document.id or ""), document.page_content, document.metadata, score) for document, score in hits
        ]


class LlamaIndexSearcher(_ForeignSearcher):
    """Searcher through a LlamaIndex retriever."""

    def __init__(self, spec: Spec, corpora: SearchedCorpora) -> None:
        super().__init__(spec, corpora)
        try:
            from llama_index.core.retrievers import BaseRetriever
        except ImportError:
            raise UserError("llamaindex needs its library: install ragrounds[llamaindex].") from None

        self._retriever: LlamaRetriever = imported(path_of(spec), BaseRetriever, "a LlamaIndex BaseRetriever")

    async def _hits(self, query: str, k: int) -> list[_Hit]:
        """Search with the user's retriever; its ``similarity_top_k`` is raised if it is lower than `k`."""
        if getattr(self._retriever, "similarity_top_k", k) < k:
            setattr(self._retriever, "similarity_top_k", k)  # noqa: B010 - not every retriever has it
        nodes = await self._retriever.aretrieve(query)
        return [_Hit(hit.node.node_id, hit.node.get_content(), hit.node.metadata, hit.score) for hit in nodes]


def _score(metadata: Mapping[str, object]) -> float | None:
    """Return the score in a document's metadata."""
    for name in _SCORES:
        value = metadata.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def path_of(spec: Spec) -> str:
    """Return the import path of a spec.

    Raises:
        UserError: the path is missing, or a parameter is unknown.
    """
    LANGCHAIN.check(spec)
    path = spec.parameters.get("from")
    if not isinstance(path, str):
        raise UserError(f'{spec.name} needs an import path: {spec.name}[from="package.module:name"].')
    return path


def _first_value(metadata: Mapping[str, object], keys: Iterable[str]) -> str:
    return next((str(metadata[key]) for key in keys if metadata.get(key) not in (None, "")), "")


_PARAMETERS = (
    RetrieverParameter("from", "import path of the object, or of a function that makes it"),
    RetrieverParameter("version", "of what it searches: a part of the run's identity", "unversioned"),
)
LANGCHAIN = Retriever(
    name="langchain",
    summary="your own LangChain BaseRetriever or VectorStore",
    example='langchain[from="package.module:name",version="2026-01"]',
    open=LangChainSearcher,
    parameters=_PARAMETERS,
    cost="what your retriever takes",
    own_corpus=True,
)
LLAMAINDEX = Retriever(
    name="llamaindex",
    summary="your own LlamaIndex BaseRetriever",
    example='llamaindex[from="package.module:name",version="2026-01"]',
    open=LlamaIndexSearcher,
    parameters=_PARAMETERS,
    cost="what your retriever takes",
    extra="llamaindex",
    library="llama_index",
    own_corpus=True,
)
