"""Dense retrieval over a collection: vectors made once, kept on disk, searched by FAISS.

``dense[model=PATH_OR_ID]``, with the parameters of :class:`~ragrounds.tools.index.embedders.Encoding`, or a card's name
with changed parameters: ``medcpt[model=/copies/MedCPT-Query-Encoder]``. ``store`` is ``faiss`` (exact), or
``faiss[index=ivfpq]`` and the other forms of :mod:`ragrounds.tools.index.vector_index`.

The greater a score the better: inner product, cosine, or the squared distance with a minus sign."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from ragrounds.base.contracts import Searcher
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.tools.index.cards import card_encoding, card_names, encoding_of
from ragrounds.tools.index.collection import Collection, map_array, sync
from ragrounds.tools.index.collection_builder import Count, Progress, whole_index
from ragrounds.tools.index.embedders import Embedder, Encoding, Metric, Vectors, check_embedder, open_embedder
from ragrounds.tools.index.vector_files import EarlierVectors
from ragrounds.tools.index.vector_index import (
    FaissForm,
    FlatStore,
    StoredVectors,
    VectorIndexManifest,
    build_and_measure,
    faiss_form,
    form_text,
    read_index,
)
from ragrounds.tools.index.vector_store import (
    FORMAT,
    DenseStatistics,
    stored_as,
    vectors_file,
    vectors_manifest,
    vectors_place,
)
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora, parameters_of

_BATCH = 256
_NOT_RESULTS = ("device", "batch")
"""Parameters that affect only the speed. A searcher's name does not include them."""


def open_dense(
    collection: Collection, spec: Spec, card: Encoding | None = None, *, progress: Progress | None = None
) -> DenseSearcher:
    """Open dense retrieval over a collection.

    Vectors, and the index over them that the spec names, are built if they do not exist. An interrupted build is
    resumed.

    Raises:
        UserError: the model or the store is not available; the vectors do not fit the collection.
        StopRun: the disk is full.
    """
    encoding, store = encoding_of(spec, card)
    documents, folder = vectors_place(collection, encoding)
    embedder = open_embedder(encoding)
    counting = partial(progress, "embedding") if progress else None
    statistics = whole_index(
        collection,
        folder,
        DenseStatistics,
        (FORMAT, documents),
        lambda: _build(collection, folder, documents, encoding, embedder, counting),
        resumes=True,
    )
    path, kind = vectors_file(folder, encoding)
    vectors = map_array(path, kind).reshape(statistics.passages, statistics.dimensions)
    placed = {key: value for key, value in spec.parameters.items() if key not in _NOT_RESULTS}
    if encoding.alias:
        placed.pop("base_url", None)
    form = faiss_form(store)
    placed["store"] = form_text(form)
    doing = partial(progress, "indexing vectors") if progress else None
    searched_store = indexed_store(collection, folder.name, vectors, encoding.metric, form, doing)
    return DenseSearcher(collection, folder, str(Spec(spec.name, placed)), embedder, searched_store)


def indexed_store(
    collection: Collection,
    index_form: str,
    vectors: StoredVectors,
    metric: Metric,
    form: FaissForm,
    progress: Count | None,
) -> FlatStore:
    """Return the index of a form over stored vectors, built and measured if it does not exist.

    `index_form` names their folder.

    Raises:
        UserError: faiss is not installed, the form does not fit the vectors, or the index cannot be read.
    """
    fitted = form.fitted(*vectors.shape)
    if fitted.index == "flat":
        return FlatStore(vectors, metric)
    described = msgspec.json.encode({"of": index_form, "metric": metric, "index": fitted.index}).decode()
    key = hashlib.blake2b(described.encode(), digest_size=6).hexdigest()
    folder = collection.folder / f"faiss-{key}"
    version = collection.manifest.version
    whole_index(
        collection,
        folder,
        VectorIndexManifest,
        (1, described),
        lambda: build_and_measure(folder, described, version, vectors, metric, fitted, progress),
    )
    return read_index(folder / "index.faiss", vectors, metric, fitted)


def _build(
    collection: Collection,
    folder: Path,
    documents: str,
    encoding: Encoding,
    embedder: Embedder,
    progress: Count | None,
) -> DenseStatistics:
    """Compute the vectors of all passages.

    The file grows by a batch at a time, and its length is the position to resume at.
    """
    path, kind = vectors_file(folder, encoding)
    total = len(collection.store)
    batch = max(_BATCH, encoding.batch * max(1, 4 * encoding.device.count("+")))
    earlier = EarlierVectors(collection, encoding, folder)
    first = _vectors(embedder, collection, earlier, 0, min(batch, total))
    # The first batch shows the number of dimensions, and so the size of a row in the file.
    row = first.shape[1] * np.dtype(kind).itemsize
    done = path.stat().st_size // row if path.is_file() else 0
    path.touch()
    with path.open("r+b") as file:
        file.truncate(done * row)
        file.seek(done * row)
        while done < total:
            end = min(done + batch, total)
            vectors = first[done:end] if end <= len(first) else _vectors(embedder, collection, earlier, done, end)
            file.write(stored_as(vectors, kind, encoding.model).tobytes())
            sync(file)
            done = end
            if progress:
                progress(done)
    return vectors_manifest(collection, documents, first.shape[1])


def _vectors(embedder: Embedder, collection: Collection, earlier: EarlierVectors, start: int, end: int) -> Vectors:
    """Return the vectors of a range of passages. Vectors of texts that another version holds are taken from there."""
    rows = [collection.store.raw(position) for position in range(start, end)]
    earlier_vectors = earlier.for_passages(rows)
    texts = [(title, text) for _, _, title, text in rows]
    if earlier_vectors is None:
        return _embed_documents(embedder, texts)
    is_known, known_vectors = earlier_vectors
    if is_known.all():
        return known_vectors
    fresh = _embed_documents(embedder, [text for text, has in zip(texts, is_known, strict=True) if not has])
    vectors = np.empty((len(rows), fresh.shape[1]), dtype=np.float32)
    vectors[is_known], vectors[~is_known] = known_vectors, fresh
    return vectors


def _embed_documents(embedder: Embedder, texts: list[tuple[str, str]]) -> Vectors:
    vectors = embedder.documents(texts)
    if len(vectors) != len(texts):
        raise UserError(f"The embedding model gave {len(vectors)} vectors for {len(texts)} texts.")
    return vectors


class DenseSearcher:
    """Searcher over one collection by vectors; see :class:`ragrounds.base.contracts.Searcher`.

    An empty query finds nothing.
    """

    def __init__(self, collection: Collection, folder: Path, spec: str, embedder: Embedder, store: FlatStore) -> None:
        self._collection, self.spec, self.corpus = collection, spec, collection.corpus
        self._folder, self._embedder, self._store = folder, embedder, store
        self._encoding_now = threading.Lock()  # encoders use all available cores: one query at a time

    @property
    def size(self) -> int:
        """Return the bytes of the vectors, without the passages."""
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())

    async def search_mean(self, texts: Sequence[str], k: int) -> list[Passage]:
        """Return the passages nearest to the mean of the vectors of several texts (HyDE, Gao et al. 2023).

        Each text is embedded as a query. Without any text nothing is found.
        """
        if not texts:
            return []
        return await asyncio.to_thread(lambda: self.near(self.vectors(list(texts)).mean(axis=0), k))

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, in its own order."""
        return self._collection.document(id)

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages, best first."""
        return (await self.search_many([query], k))[0]

    async def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the results of :meth:`search` for several queries, with one call of the model and one of the index."""
        return await asyncio.to_thread(self.find_many, queries, k)

    def find(self, query: str, k: int) -> list[Passage]:
        """Return the result of :meth:`search`, in this thread."""
        return self.find_many([query], k)[0]

    def find_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the result of :meth:`search_many`, in this thread.

        Raises:
            UserError: `k` is below 1.
        """
        if k < 1:
            raise UserError(f"Cannot search for {k} passages: expected 1 or more.")
        non_empty = [query for query in queries if query.strip()]
        results = iter(self._store.nearest_many(self.vectors(non_empty), k) if non_empty else ())
        return [self._collection.passages(next(results), self.spec) if query.strip() else [] for query in queries]

    def near(self, vector: Vectors, k: int) -> list[Passage]:
        """Return the passages nearest to a vector of the same encoding."""
        return self._collection.passages(self._store.nearest(vector, k), self.spec)

    def vectors(self, texts: list[str]) -> Vectors:
        """Return the vectors of queries."""
        with self._encoding_now:
            return self._embedder.queries(texts)


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    card = None if spec.name == DENSE.name else card_encoding(spec)
    check_embedder(encoding_of(spec, card)[0])
    return corpora.open_over_all(lambda collection: open_dense(collection, spec, card, progress=corpora.progress))


DENSE = Retriever(
    name="dense",
    summary="any embedding model: a Hugging Face id, a folder, openai:MODEL, import:module:name, or a card",
    example="dense[model=PATH_OR_ID,store=faiss]",
    open=_open,
    parameters=(
        RetrieverParameter("store", "faiss, or faiss[index=sq8|hnsw|ivfpq|auto|FACTORY,search=…,rerank=12]", "faiss"),
        *parameters_of(Encoding),
    ),
    index="vectors of all passages, made once for every store",
    cost="the model once for each query",
    extra="dense",
    library="faiss",
    # Rerankers are included so that an error can explain how a reranker is used.
    further_names=lambda: card_names("dense", "api", "foreign", "reranker", "late"),
)
