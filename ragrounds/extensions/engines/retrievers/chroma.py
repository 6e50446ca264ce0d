"""Retriever ``chroma``: a collection of a Chroma server or folder as a corpus, by Chroma's client.

``chroma[url=http://HOST:8000,collection=NAME,embed=MODEL]`` asks a server (``chroma run``), ``chroma[path=FOLDER,…]``
opens a folder in this process. ``tenant`` and ``database`` are Chroma's. A server behind a token gets the one that the
variable ``key_env=NAME`` holds, in the header ``X-Chroma-Token`` and as ``Authorization: Bearer``.

``id`` and ``text`` are Chroma's id and document; every other field is a key of the metadata. Scores follow the
collection's space: cosine, inner product, or the squared distance with a minus sign. ``filter`` is Chroma's `where`
as JSON: ``filter="{\\"year\\": {\\"$gt\\": 2015}}"``. Chroma ranks by vectors alone: for words, fuse it with BM25,
``rrf[a=bm25,b=chroma[…]]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.extensions.engines.external_engine import (
    CollectionDescription,
    ExternalEngine,
    ScoredRecord,
    Vendor,
    client_fault,
    status_fault,
)
from ragrounds.extensions.engines.external_index import external_retriever
from ragrounds.extensions.engines.external_parameters import ExternalParameters, Record, parse_json_object
from ragrounds.tools.index.embedders import Metric, Vectors

_INSPECTED_RECORDS = 100
"""Number of records whose metadata are read to list the fields."""


class ChromaParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of ``chroma[…]``."""

    filter: Annotated[str, "Chroma's `where`, as JSON"] = ""
    path: Annotated[str, "a folder of Chroma's, opened in this process, in place of url"] = ""
    collection: Annotated[str, "the collection"] = ""
    tenant: Annotated[str, "Chroma's tenant"] = "default_tenant"
    database: Annotated[str, "Chroma's database"] = "default_database"


class ChromaEngine(ExternalEngine):
    """Engine over one collection behind Chroma's client; clients of a process share their connections."""

    parameters = ChromaParameters
    options: ChromaParameters
    extra = "chroma"
    by_words = False
    _collection: Vendor = None

    def __init__(self, options: ExternalParameters, spec: Spec) -> None:
        super().__init__(options, spec)
        where = parse_json_object(options.filter, "filter", self.name, '{"year": {"$gt": 2015}}')
        self._where: dict[str, Vendor] = {"where": where} if where else {}

    def connect(self) -> Vendor:
        """Open Chroma's client for a server or a folder."""
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import chromadb
        from chromadb.config import Settings

        tenancy = {"tenant": self.options.tenant, "database": self.options.database}
        settings = Settings(anonymized_telemetry=False)
        if self.local:
            if not Path(self.address).is_dir():
                raise UserError(f"There is no folder {self.address!r} for chroma to search: expected one of Chroma's.")
            return chromadb.PersistentClient(self.address, settings=settings, **tenancy)
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("The address of Chroma's server is none: expected http://HOST:PORT.")
        secure = parts.scheme == "https"
        return chromadb.HttpClient(
            host=parts.hostname, port=parts.port or (443 if secure else 8000), ssl=secure, settings=settings,
            headers={"X-Chroma-Token": self.key, "Authorization": f"Bearer {self.key}"} if self.key else None,
            **tenancy,
        )  # fmt: skip

    def release(self, client: Vendor) -> None:
        """Do nothing: Chroma shares its connections among its clients."""

    def describe(self, client: Vendor) -> CollectionDescription | None:
        """Return the collection's space, and the keys of the first records' metadata."""
        try:
            # Without `embedding_function=None` Chroma downloads a default model.
            collection = self._collection = client.get_collection(self.collection_name, embedding_function=None)
        except Exception as problem:
            if type(problem).__name__ not in ("NotFoundError", "InvalidArgumentError"):
                raise
            return None
        metadatas = collection.get(limit=_INSPECTED_RECORDS, include=["metadatas"])["metadatas"] or []
        keys = {str(key) for metadata in metadatas for key in metadata or {}}
        fields = ["id", "text", "vector", *sorted(keys)] if metadatas else []
        spaces = ((collection.configuration_json.get(kind) or {}).get("space") for kind in ("hnsw", "spann"))
        metric: Metric = next((space for space in spaces if space in ("cosine", "ip", "l2")), "l2")
        return CollectionDescription(fields, metric)

    def existing_names(self, client: Vendor) -> Iterable[str]:
        """Return the names of the first collections."""
        return [collection.name for collection in client.list_collections(limit=40)]

    def count(self) -> int:
        """Return the number of records."""
        collection = self._collection
        return len(collection.get(**self._where, include=[])["ids"]) if self._where else int(collection.count())

    def sample(self, count: int, max_rows: int) -> Iterable[tuple[str, str]]:
        """Yield the first and the last records, in the order of the collection; with a filter only the first."""
        ranges = [(0, max_rows)]
        if count > max_rows and not self._where:
            ranges = [(0, max_rows // 2), (count - max_rows // 2, max_rows // 2)]
        for offset, limit in ranges:
            records = self._collection.get(**self._where, limit=limit, offset=offset, include=["documents"])
            yield from zip(records["ids"], (text or "" for text in records["documents"]), strict=True)

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Search the collection's index for all queries in one request."""
        include = ["metadatas", "documents", "distances"]
        results = self._collection.query(query_embeddings=vectors, n_results=k, include=include, **self._where)
        offset = 0.0 if self.metric == "l2" else 1.0  # Chroma's distances are 1 - product, or squared distances
        for rows, distances in zip(_result_records(results), results["distances"], strict=True):
            yield [(record, offset - distance) for record, distance in zip(rows, distances, strict=True)]

    def records(self, document: str) -> Sequence[Record]:
        """Return the records whose metadata name the document, or the record of that id."""
        for condition in ({"where": {self.options.document: document}}, {"ids": [document]}):
            records = self._collection.get(**condition, include=["metadatas", "documents"])
            if records["ids"]:
                return _result_records({key: [records[key]] for key in ("ids", "documents", "metadatas")})[0]
        return []

    def fault(self, error: Exception) -> str:
        """Return the kind of an error by the status that Chroma gives it, or by the message of its client."""
        if kind := client_fault(error):
            return kind
        message, code = str(error), getattr(error, "code", None)
        if "Could not connect" in message:
            return "connection"
        if "nauthorized" in message or "orbidden" in message:
            return "auth"
        return status_fault(code()) if callable(code) else ""


def _result_records(results: Vendor) -> list[list[Record]]:
    """Return the records of each query's results."""
    return [
        [{"text": text, **(metadata or {}), "id": identity} for identity, text, metadata in zip(*lists, strict=True)]
        for lists in zip(results["ids"], results["documents"], results["metadatas"], strict=True)
    ]


CHROMA = external_retriever(
    ChromaEngine,
    name="chroma",
    summary="a collection of Chroma's, of a server or of a folder: vectors",
    example="chroma[url=http://HOST:8000,collection=NAME,embed=MODEL]",
    library="chromadb",
)
