"""A user's own retriever, by import path: the way to a corpus beyond one machine.

* ``langchain[from="package.module:name"]`` — a LangChain ``BaseRetriever`` or ``VectorStore``;
* ``llamaindex[from="package.module:name"]`` — a LlamaIndex ``BaseRetriever``.

The name may be the object or a function without arguments that makes it; ``./file.py:name`` and modules of the current
folder are found too. The corpus is whatever it searches: it is called what ``--corpus`` says, or after the object, with
``version=…`` of the spec, since its content cannot be hashed from here. Results keep the retriever's order.

Scores are kept. Those of a LangChain vector store, also behind ``as_retriever()``, are what its search with scores
gives; where the best has the smallest, they are distances, and get a minus sign. Those of another LangChain retriever
are the numbers that every document names in its metadata (``score``, ``relevance_score`` …). Where there are none, a
passage's score is 1 / rank.

A connection that fails, a timeout, and an answer of 429 or 5xx are met with two more tries. What fails after that, or
otherwise, fails the search with one line and never the run.
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
from ragrounds.base.redaction import Redactor
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.extensions.engines.external_engine import client_fault
from ragrounds.extensions.engines.external_index import PASSING, TRIES, again, kind_of
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
    """``None``: none was given."""


class _ForeignSearcher(ABC):
    """A searcher over a corpus that is not ours: its name and version are what the user says."""

    def __init__(self, spec: Spec, corpora: SearchedCorpora) -> None:
        self.spec = str(spec)
        self._name = spec.name
        self.corpus = (
            f"{corpora.names or path_of(spec).rpartition(':')[2]}@{spec.parameters.get('version', 'unversioned')}"
        )

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` first results.

        Raises:
            GaveUp: the retriever failed, also when asked again.
        """
        return self._passages(await self._asked(lambda: self._hits(query, k)), k) if query.strip() else []

    @abstractmethod
    async def _hits(self, query: str, k: int) -> list[_Hit]:
        """What the user's object finds."""

    def _passages(self, hits: Iterable[_Hit], k: int) -> list[Passage]:
        found = []
        kept = list(hits)[:k]
        scored = all(hit.score is not None and math.isfinite(hit.score) for hit in kept)
        for rank, hit in enumerate(kept, 1):
            text, metadata = hit.text, hit.metadata
            name = hit.id or _first(metadata, _IDS) or hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
            found.append(
                Passage(
                    id=name,
                    document=_first(metadata, _DOCUMENTS) or name,
                    title=_first(metadata, ("title",)),
                    text=text,
                    corpus=self.corpus,
                    score=hit.score if scored and hit.score is not None else 1 / rank,
                    rank=rank,
                    retriever=self.spec,
                )
            )
        return found

    async def _asked(self, call: Callable[[], Awaitable[R]]) -> R:
        """Await what the user's object gives, and again after faults that pass.

        Raises:
            GaveUp: it failed for good.
        """
        from tenacity import AsyncRetrying

        retrying = AsyncRetrying(**again(lambda error: kind_of(error, client_fault)))

        async def once() -> R:
            """One try."""
            return await call()

        try:
            return await retrying(once)
        except UserError:
            raise
        except Exception as problem:  # whatever the user's own code, and what it asks, may raise
            kind = kind_of(problem, client_fault)
            said = " ".join(Redactor()(safe(root_cause(problem), 400)).split()).rstrip(".")
            tries = f" {TRIES} times" if kind in PASSING else ""
            raise GaveUp(
                kind or "search", f"The retriever {self.spec} failed{tries}: {type(problem).__name__}: {said}."
            ) from problem


class ScoredStore:
    """A LangChain vector store that is asked for scores, the greater the better."""

    def __init__(self, store: VectorStore, given: Mapping[str, object]) -> None:
        self._store, self._given = store, {key: value for key, value in given.items() if key != "k"}
        self._distances: bool | None = None
        """Whether its scores are distances; ``None``: no search has shown it yet."""

    async def search(self, query: str, k: int) -> Sequence[tuple[Document, float | None]]:
        """The `k` best documents; without scores where the store has no such search."""
        # Of one hit nobody can tell whether the smaller or the greater score is the better.
        asked = max(k, 2) if self._distances is None else k
        try:
            found = await self._store.asimilarity_search_with_score(query, k=asked, **self._given)
        except NotImplementedError:
            plain = await self._store.asimilarity_search(query, k=k, **self._given)
            return [(document, None) for document in plain]
        scores = [float(score) for _, score in found]
        if self._distances is None and len(set(scores)) > 1:
            self._distances = scores[0] < scores[-1]
        sign = -1.0 if self._distances else 1.0
        return [(document, sign * score) for (document, _), score in zip(found, scores, strict=True)][:k]


class LangChainSearcher(_ForeignSearcher):
    """Searches through a LangChain retriever or vector store."""

    def __init__(self, spec: Spec, corpora: SearchedCorpora) -> None:
        super().__init__(spec, corpora)
        from langchain_core.retrievers import BaseRetriever
        from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

        kinds: tuple[type[object], ...] = (BaseRetriever, VectorStore)
        found = imported(path_of(spec), kinds, "a LangChain BaseRetriever or VectorStore")
        self._store: ScoredStore | None = None
        self._retriever: BaseRetriever | None = found if isinstance(found, BaseRetriever) else None
        if isinstance(found, VectorStore):
            self._store = ScoredStore(found, {})
        elif type(found) is VectorStoreRetriever and found.search_type == "similarity":
            self._store = ScoredStore(found.vectorstore, found.search_kwargs)

    async def _hits(self, query: str, k: int) -> list[_Hit]:
        """``k`` is passed on to retrievers that take it."""
        found: Sequence[tuple[Document, float | None]] = ()
        if self._store is not None:
            found = await self._store.search(query, k)
        elif self._retriever is not None:
            documents = await self._retriever.ainvoke(query, k=k)
            found = [(document, _score(document.metadata)) for document in documents]
        return [_Hit(str(one.id or ""), one.page_content, one.metadata, score) for one, score in found]


class LlamaIndexSearcher(_ForeignSearcher):
    """Searches through a LlamaIndex retriever."""

    def __init__(self, spec: Spec, corpora: SearchedCorpora) -> None:
        super().__init__(spec, corpora)
        try:
            from llama_index.core.retrievers import BaseRetriever
        except ImportError:
            raise UserError("llamaindex needs its library: install ragrounds[llamaindex].") from None

        self._retriever: LlamaRetriever = imported(path_of(spec), BaseRetriever, "a LlamaIndex BaseRetriever")

    async def _hits(self, query: str, k: int) -> list[_Hit]:
        """The retriever's own ``similarity_top_k`` is raised where it is lower."""
        if getattr(self._retriever, "similarity_top_k", k) < k:
            setattr(self._retriever, "similarity_top_k", k)  # noqa: B010 - not every retriever has it
        found = await self._retriever.aretrieve(query)
        return [_Hit(hit.node.node_id, hit.node.get_content(), hit.node.metadata, hit.score) for hit in found]


def _score(metadata: Mapping[str, object]) -> float | None:
    """The number by which a document's metadata tell its score."""
    for name in _SCORES:
        value = metadata.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


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
