"""A collection of Chroma's as a corpus, by its own client: of a server, or of a folder.

``chroma[url=http://HOST:8000,collection=NAME,embed=MODEL]`` asks a server (``chroma run``), ``chroma[path=FOLDER,…]``
opens a folder in this process. ``tenant`` and ``database`` are Chroma's. A server behind a token gets the one that the
variable ``key_env=NAME`` holds, in the header ``X-Chroma-Token`` and as ``Authorization: Bearer``.

``id`` and ``text`` are Chroma's own id and document; every other field is a key of the metadata. Scores follow the
collection's own space: cosine, inner product, or the squared distance with a minus sign. ``filter`` is Chroma's `where`
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
from ragrounds.extensions.engines.external_engine import ExternalEngine, Found, Held, Vendor, client_fault, status_fault
from ragrounds.extensions.engines.external_index import external_retriever
from ragrounds.extensions.engines.external_parameters import ExternalParameters, Record, json_given
from ragrounds.tools.index.embedders import Metric, Vectors

_LOOKED_AT = 100
"""Records whose metadata say which fields there are."""


class ChromaParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``chroma[…]`` takes."""

    filter: Annotated[str, "Chroma's `where`, as JSON"] = ""
    path: Annotated[str, "a folder of Chroma's, opened in this process, in place of url"] = ""
    collection: Annotated[str, "the collection"] = ""
    tenant: Annotated[str, "Chroma's tenant"] = "default_tenant"
    database: Annotated[str, "Chroma's database"] = "default_database"


class ChromaEngine(ExternalEngine):
    """One collection behind Chroma's client, of which the clients of a process share the connections."""

    parameters = ChromaParameters
    given: ChromaParameters
    extra = "chroma"
    by_words = False
    _collection: Vendor = None

    def __init__(self, given: ExternalParameters, spec: Spec) -> None:
        super().__init__(given, spec)
        where = json_given(given.filter, "filter", self.name, '{"year": {"$gt": 2015}}')
        self._where: dict[str, Vendor] = {"where": where} if where else {}

    def connect(self) -> Vendor:
        """Chroma's client for a server or a folder."""
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import chromadb
        from chromadb.config import Settings

        more = {"tenant": self.given.tenant, "database": self.given.database}
        settings = Settings(anonymized_telemetry=False)
        if self.local:
            if not Path(self.address).is_dir():
                raise UserError(f"There is no folder {self.address!r} for chroma to search: expected one of Chroma's.")
            return chromadb.PersistentClient(self.address, settings=settings, **more)
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("The address of Chroma's server is none: expected http://HOST:PORT.")
        secure = parts.scheme == "https"
        return chromadb.HttpClient(
            host=parts.hostname, port=parts.port or (443 if secure else 8000), ssl=secure, settings=settings,
            headers={"X-Chroma-Token": self.key, "Authorization": f"Bearer {self.key}"} if self.key else None, **more,
        )  # fmt: skip

    def release(self, client: Vendor) -> None:
        """Nothing: Chroma shares its connections among its clients."""

    def look(self, client: Vendor) -> Held | None:
        """The collection's space, and the keys of the first records' metadata."""
        try:
            # Without `embedding_function=None` Chroma downloads a model of its own.
            held = self._collection = client.get_collection(self.named, embedding_function=None)
        except Exception as problem:
            if type(problem).__name__ not in ("NotFoundError", "InvalidArgumentError"):
                raise
            return None
        found = held.get(limit=_LOOKED_AT, include=["metadatas"])["metadatas"] or []
        keys = {str(key) for each in found for key in each or {}}
        fields = ["id", "text", "vector", *sorted(keys)] if found else []
        spaces = ((held.configuration_json.get(kind) or {}).get("space") for kind in ("hnsw", "spann"))
        metric: Metric = next((space for space in spaces if space in ("cosine", "ip", "l2")), "l2")
        return Held(fields, metric)

    def others(self, client: Vendor) -> Iterable[str]:
        """The first collections."""
        return [one.name for one in client.list_collections(limit=40)]

    def count(self) -> int:
        """The number of records."""
        held = self._collection
        return len(held.get(**self._where, include=[])["ids"]) if self._where else int(held.count())

    def sample(self, count: int, most: int) -> Iterable[tuple[str, str]]:
        """The first and the last records, in the order of the collection; under a filter the first."""
        places = [(0, most)]
        if count > most and not self._where:
            places = [(0, most // 2), (count - most // 2, most // 2)]
        for offset, limit in places:
            held = self._collection.get(**self._where, limit=limit, offset=offset, include=["documents"])
            yield from zip(held["ids"], (text or "" for text in held["documents"]), strict=True)

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[Found]]:
        """What the collection's graph finds, all queries in one request."""
        include = ["metadatas", "documents", "distances"]
        found = self._collection.query(query_embeddings=vectors, n_results=k, include=include, **self._where)
        one = 0.0 if self.metric == "l2" else 1.0  # Chroma's distances are 1 - product, or squared distances
        for rows, distances in zip(_records(found), found["distances"], strict=True):
            yield [(record, one - distance) for record, distance in zip(rows, distances, strict=True)]

    def records(self, document: str) -> Sequence[Record]:
        """The records whose metadata name the document, or the record of that id."""
        for asked in ({"where": {self.given.document: document}}, {"ids": [document]}):
            found = self._collection.get(**asked, include=["metadatas", "documents"])
            if found["ids"]:
                return _records({key: [found[key]] for key in ("ids", "documents", "metadatas")})[0]
        return []

    def fault(self, error: Exception) -> str:
        """By the status that Chroma gives each of its errors; what its client met on the way, it says in words."""
        if found := client_fault(error):
            return found
        said, code = str(error), getattr(error, "code", None)
        if "Could not connect" in said:
            return "connection"
        if "nauthorized" in said or "orbidden" in said:
            return "auth"
        return status_fault(code()) if callable(code) else ""


def _records(found: Vendor) -> list[list[Record]]:
    """The records of each query's answer."""
    return [
        [{"text": text, **(metadata or {}), "id": identity} for identity, text, metadata in zip(*lists, strict=True)]
        for lists in zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    ]


CHROMA = external_retriever(
    ChromaEngine,
    name="chroma",
    summary="a collection of Chroma's, of a server or of a folder: vectors",
    example="chroma[url=http://HOST:8000,collection=NAME,embed=MODEL]",
    library="chromadb",
)
