"""Retriever ``qdrant``: a collection as a corpus.

``qdrant[url="http://HOST:6333",collection=passages,embed=MODEL]`` searches a server,
``qdrant[path=FOLDER,…]`` a folder in this process, which one process at a time can open.

``mode=vector`` searches the vectors by the collection's metric; ``vector=…`` names them if there are several.
``mode=text`` searches a sparse vector (``sparse=bm25``) whose weights Qdrant multiplies by the inverse document
frequency (``modifier: idf``, from 1.10 on), which makes it BM25. ``terms`` names the model that made them, which Qdrant
computes by itself or through fastembed: ``terms="Qdrant/bm25"``. ``mode=hybrid`` does both and fuses the rankings.

``filter`` is Qdrant's, as JSON: ``{"must": [{"key": "meta.year", "range": {"gt": 2015}}]}``. A score is the cosine or
the inner product, or the squared distance with a minus sign.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.extensions.engines.external_engine import (
    CollectionDescription,
    ExternalEngine,
    ScoredRecord,
    Vendor,
    client_fault,
    paths_in,
)
from ragrounds.extensions.engines.external_index import external_retriever
from ragrounds.extensions.engines.external_parameters import ExternalParameters, Record, parse_json_object
from ragrounds.tools.index.embedders import Metric, Vectors

_METRICS: Mapping[str, Metric] = {"Cosine": "cosine", "Dot": "ip", "Euclid": "l2"}


class QdrantParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of ``qdrant[…]``."""

    filter: Annotated[str, 'Qdrant\'s filter as JSON: {"must": [{"key": "year", "range": {"gt": 2015}}]}'] = ""
    key_env: Annotated[str, "environment variable that holds the API key"] = ""
    path: Annotated[str, "folder of the client in this process, in place of a server's address"] = ""
    collection: Annotated[str, "the collection"] = "passages"
    vector: Annotated[str, "name of the vectors; by default the only ones"] = ""
    sparse: Annotated[str, "name of the sparse vectors, for mode=text and hybrid"] = "bm25"
    terms: Annotated[str, "model that makes sparse vectors of queries, in Qdrant or through fastembed"] = "Qdrant/bm25"
    options: Annotated[str, 'of the search, as JSON: {"exact": true}, {"hnsw_ef": 256}'] = ""


class QdrantEngine(ExternalEngine):
    """Engine over one Qdrant collection. In this process a folder has one client, which all engines share."""

    parameters = QdrantParameters
    options: QdrantParameters
    extra = "qdrant"
    _folders: ClassVar[weakref.WeakValueDictionary[str, Vendor]] = weakref.WeakValueDictionary()
    _lock = threading.Lock()

    def __init__(self, options: ExternalParameters, spec: Spec) -> None:
        super().__init__(options, spec)
        self._filter: Vendor = parse_json_object(options.filter, "filter", self.name, '{"must": [{"key": "year", …}]}')
        self._options: Vendor = parse_json_object(self.options.options, "options", self.name, '{"exact": true}')
        self._using = options.vector

    def connect(self) -> Vendor:
        """Open a client.

        Raises:
            UserError: another process has the folder open, or the filter or options are none of Qdrant's.
        """
        from qdrant_client import QdrantClient, models

        self._models: Vendor = models
        for parameter, form in (("filter", models.Filter), ("options", models.SearchParams)):
            raw = getattr(self, f"_{parameter}")
            try:
                setattr(self, f"_{parameter}", form.model_validate(raw) if raw else None)
            except ValueError as problem:
                message = safe(" ".join(str(problem).split()), 300)
                raw_text = safe(getattr(self.options, parameter), 80)
                raise UserError(f"qdrant's {parameter}={raw_text!r} is none of Qdrant's: {message}.") from None
        if not self.local:
            return QdrantClient(
                url=self.address, api_key=self.key or None, timeout=math.ceil(self.options.timeout),
                check_compatibility=False,
            )  # fmt: skip
        folder = str(Path(self.address).resolve())
        with self._lock:
            client = self._folders.get(folder)
            try:
                client = client or QdrantClient(path=folder, force_disable_check_same_thread=True)
            except RuntimeError as problem:
                if "already accessed" not in str(problem):
                    raise
                raise UserError(
                    f"Another process has {safe(folder, 200)!r} open: Qdrant's folder is for one at a time. "
                    "Wait for it, or start a Qdrant server and give its url."
                ) from None
            self._folders[folder] = client
            return client

    def release(self, client: Vendor) -> None:
        """Release a client; that of a folder closes after its last user is gone."""
        if not self.local:
            client.close()

    def describe(self, client: Vendor) -> CollectionDescription | None:
        """Return the payload fields of the first points (dotted), the names of the vectors, and their metric."""
        if self.collection_name not in self.existing_names(client):
            return None
        vectors = client.get_collection(self.collection_name).config.params.vectors or {}
        vectors_by_name = dict(vectors) if isinstance(vectors, Mapping) else {"": vectors}
        vector_parameters = vectors_by_name.get(self._using)
        if self.options.mode != "text":
            if not self._using and len(vectors_by_name) == 1:
                [(self._using, vector_parameters)] = vectors_by_name.items()
            if vector_parameters is None:
                listed = ", ".join(safe(name, 60) or "one without a name" for name in vectors_by_name) or "none"
                raise UserError(
                    f"Qdrant's collection {self.collection_name!r} has no vectors {self._using!r}: name them as "
                    f"vector=…. Its vectors: {listed}."
                )
        distance = str(vector_parameters.distance.value) if vector_parameters is not None else "Cosine"
        if distance not in _METRICS:
            raise UserError(
                f"Qdrant's collection {self.collection_name!r} compares by {distance!r}, which is not read here."
            )
        points, _ = client.scroll(self.collection_name, limit=100, with_payload=True)
        payload_fields = [name for point in points for name in paths_in(point.payload or {})]
        # The vectors were checked above by the name in the spec, so that name counts as a field.
        fields = [*dict.fromkeys(payload_fields), *vectors_by_name, self.options.vector] if points else []
        return CollectionDescription(fields, _METRICS[distance])

    def existing_names(self, client: Vendor) -> Iterable[str]:
        """Return the names of all collections."""
        return [str(collection.name) for collection in client.get_collections().collections]

    def count(self) -> int:
        """Return the number of points."""
        return int(self.client.count(self.collection_name, count_filter=self._filter, exact=True).count)

    def sample(self, count: int, limit: int) -> Iterable[tuple[str, str]]:
        """Return the first points by Qdrant's ids."""
        return map(self.row_of, self._points(self._filter, [self.options.id, self.options.text], limit))

    def records(self, document: str) -> Sequence[Record]:
        """Return the points of a document."""
        condition = {"key": self.options.document, "match": {"value": document}}
        return self._points(self._models.Filter.model_validate({"must": [condition]}), self.read_fields, 10_000)

    def _points(self, condition: Vendor, read: list[str], limit: int) -> list[Record]:
        points, _ = self.client.scroll(self.collection_name, limit=limit, scroll_filter=condition, with_payload=read)
        return [self.with_id(point.payload or {}, point.id) for point in points]

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Return the `k` nearest points for each vector."""
        rankings = self._search([row.tolist() for row in vectors], self._using, k)
        return [
            [(record, -(score**2) if self.metric == "l2" else score) for record, score in ranking]
            for ranking in rankings
        ]

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Return the `k` best points for each query by their sparse vectors."""
        documents = [self._models.Document(text=query, model=self.options.terms) for query in queries]
        return self._search(documents, self.options.sparse, k)

    def _search(self, queries: Sequence[object], using: str, k: int) -> list[list[ScoredRecord]]:
        requests = [
            self._models.QueryRequest(
                query=query, using=using or None, limit=k, filter=self._filter, with_payload=self.read_fields,
                params=self._options,
            )
            for query in queries
        ]  # fmt: skip
        answers = self.client.query_batch_points(self.collection_name, requests=requests)
        return [
            [(self.with_id(point.payload or {}, point.id), float(point.score)) for point in answer.points]
            for answer in answers
        ]

    def fault(self, error: Exception) -> str:
        """Return the kind of an error by the status of the answer, or by the fault of the client."""
        if "ResourceExhaustedResponse" in (kind.__name__ for kind in type(error).__mro__):
            return "rate_limit"
        if kind := client_fault(getattr(error, "source", error)):
            return kind
        return "bad_request" if isinstance(error, ValueError | KeyError | IndexError) else ""


QDRANT = external_retriever(
    QdrantEngine,
    name="qdrant",
    summary="a collection of Qdrant, or of its client in this process: vectors, words (BM25), or both",
    example='qdrant[url="http://HOST:6333",collection=passages,embed=MODEL]',
    library="qdrant_client",
    caution="by its address tried against a stand-in alone; the form in this process is the real one",
)
