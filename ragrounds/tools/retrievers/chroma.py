"""A collection of Chroma's as a corpus, by its own client: of a server, or of a folder.

``chroma[url=http://HOST:8000,collection=NAME,embed=MODEL]`` asks a server (``chroma run``), ``chroma[path=FOLDER,…]``
opens a folder in this process. ``tenant`` and ``database`` are Chroma's. A server behind a token gets the one that the
variable ``key_env=NAME`` holds, in the header ``X-Chroma-Token``, or as ``Authorization: Bearer`` with
``header=authorization``.

``id`` and ``text`` are Chroma's own id and document; every other field is a key of the metadata. Scores follow the
collection's own space: cosine, inner product, or the squared distance with a minus sign. ``filter`` is Chroma's `where`
as JSON: ``filter="{\\"year\\": {\\"$gt\\": 2015}}"``. Chroma ranks by vectors alone: for words, fuse it with BM25,
``rrf[a=bm25,b=chroma[…]]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from ragrounds.errors import UserError
from ragrounds.tools.chroma_client import chroma_client, graph
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_engine import (
    EngineHit,
    EngineSample,
    ExternalEngine,
    Vendor,
    client_fault,
    status_fault,
)
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.external_parameters import ExternalParameters, Record, json_filter
from ragrounds.tools.push import PushRow

_LOOKED_AT = 100
"""Records whose metadata say which fields there are."""
_AT_ONCE = 5_000


class ChromaParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``chroma[…]`` takes."""

    path: str = ""
    collection: str = ""
    tenant: str = "default_tenant"
    database: str = "default_database"
    header: Literal["x-chroma-token", "authorization"] = "x-chroma-token"


class ChromaEngine(ExternalEngine):
    """One collection behind Chroma's client, of which the clients of a process share the connections."""

    parameters = ChromaParameters
    given: ChromaParameters
    extra = "dense"
    by_words = False

    def __init__(self, given: ExternalParameters, name: str, *, filling: bool = False) -> None:
        super().__init__(given, name, filling=filling)
        self._where = json_filter(given.filter, name, '{"year": {"$gt": 2015}}')
        self._collection: Vendor = None

    def connect(self) -> Vendor:
        """Chroma's client for a server or a folder."""
        given = self.given
        if self.local:
            if not self.filling and not Path(self.address).is_dir():
                raise UserError(f"There is no folder {given.path!r} for chroma to search: expected one of Chroma's.")
            return chroma_client(path=Path(self.address), tenant=given.tenant, database=given.database)
        header = {"Authorization": f"Bearer {self.key}"}
        if given.header != "authorization":
            header = {"X-Chroma-Token": self.key}
        return chroma_client(
            url=self.address, headers=header if self.key else None, tenant=given.tenant, database=given.database
        )

    def release(self, client: Vendor) -> None:
        """Nothing: Chroma shares its connections among its clients."""

    def look(self, client: Vendor) -> None:
        """The collection, and by what it compares vectors."""
        try:
            # Without `embedding_function=None` Chroma downloads a model of its own.
            self._collection = client.get_collection(self.named, embedding_function=None)
        except Exception as problem:
            if type(problem).__name__ not in ("NotFoundError", "InvalidArgumentError"):
                raise
            self.check_named(one.name for one in client.list_collections(limit=40))
            raise
        self.metric = _space(self._collection)

    def _opened(self) -> Vendor:
        """The collection."""
        return self._collection if self.client is not None else None

    def fields(self) -> Sequence[str]:
        """Id, text and vector, and the keys of the first records' metadata."""
        found = self._opened().get(limit=_LOOKED_AT, include=["metadatas"])
        keys = {key for each in found["metadatas"] or [] for key in each or {}}
        return ["id", "text", "vector", *sorted(map(str, keys))] if found["ids"] else []

    def sample(self, most: int) -> EngineSample:
        """The first and the last records, in the order of the collection."""
        collection = self._opened()
        if self._where:
            count = len(collection.get(where=self._where, include=[])["ids"])
            parts = [collection.get(where=self._where, limit=most, include=["documents"])]
        else:
            count = collection.count()
            places = [(0, min(most, max(1, count)))]
            if count > most:
                places = [(0, most // 2), (count - most // 2, most // 2)]
            parts = [collection.get(limit=limit, offset=offset, include=["documents"]) for offset, limit in places]
        rows = [
            (str(identity), str(text or ""))
            for part in parts
            for identity, text in zip(part["ids"], part["documents"] or [""] * len(part["ids"]), strict=True)
        ]
        return EngineSample(count, tuple(rows))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """What the collection's graph finds, all queries in one request."""
        found = self._opened().query(
            query_embeddings=vectors, n_results=k, include=["metadatas", "documents", "distances"],
            **({"where": self._where} if self._where else {}),
        )  # fmt: skip
        one = 0.0 if self.metric == "l2" else 1.0  # Chroma's distances are 1 - product, or squared distances
        return [
            [
                EngineHit(str(identity), one - float(distance), _record(identity, text, metadata))
                for identity, text, metadata, distance in zip(*lists, strict=True)
            ]
            for lists in zip(found["ids"], found["documents"], found["metadatas"], found["distances"], strict=True)
        ]

    def records(self, document: str) -> list[Record]:
        """The records whose metadata name the document, or the record of that id."""
        include = ["metadatas", "documents"]
        found = self._opened().get(where={self.map.document: document}, include=include)
        if not found["ids"]:
            found = self._opened().get(ids=[document], include=include)
        rows = zip(found["ids"], found["documents"] or [], found["metadatas"] or [], strict=False)
        return sorted((_record(*row) for row in rows), key=lambda record: (len(str(record["id"])), str(record["id"])))

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

    def there(self) -> tuple[Sequence[str], int] | None:
        """Metadata have any keys; the dimensions of the first record's vector."""
        if not self.dimensions:
            raise UserError("chroma holds vectors: name what makes them with --embed MODEL.")
        self._collection = self.client.get_or_create_collection(
            self.named, embedding_function=None, configuration=graph(self.metric)
        )
        if (space := _space(self._collection)) != self.metric:
            raise UserError(
                f"Chroma's collection {self.named!r} compares by {space}, the model's metric is {self.metric}: "
                "push to another collection."
            )
        held = np.asarray(self._collection.get(limit=1, include=["embeddings"])["embeddings"])
        return list(self.names.values()), int(held.shape[-1]) if held.size else -1

    def create(self) -> None:
        """Nothing: a look made it."""

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert or replace records."""
        step = min(self.client.get_max_batch_size(), _AT_ONCE)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            self._collection.upsert(
                ids=[row.id for row in some],
                documents=[row.text for row in some],
                metadatas=[{self.map.title: row.title, self.map.document: row.document} for row in some],
                embeddings=np.asarray([row.vector for row in some], dtype=np.float32),
            )

    def end(self) -> int:
        """The number of records: the graph grows with them."""
        return self.count()

    def count(self) -> int:
        """The number of records."""
        return int(self._opened().count())


def _space(collection: Vendor) -> Metric:
    """By what a collection compares vectors."""
    held = collection.configuration_json
    spaces = ((held.get(kind) or {}).get("space") for kind in ("hnsw", "spann"))
    found: Metric = next((space for space in spaces if space in ("cosine", "ip", "l2")), "l2")
    return found


def _record(identity: object, text: object, metadata: Vendor) -> Record:
    return {"text": text, **(metadata or {}), "id": identity}


CHROMA = external_retriever(
    ChromaEngine,
    name="chroma",
    summary="a collection of Chroma's, of a server or of a folder: vectors",
    example="chroma[url=http://HOST:8000,collection=NAME,embed=MODEL]",
    library="chromadb",
    cost="a query to the server, and the embedding model once for each query",
    words={
        "url": "http://HOST:PORT of a server (`chroma run`)",
        "id": "Chroma's own id, or a key of the metadata",
        "text": "Chroma's own document, or a key of the metadata",
        "mode": "vector: Chroma ranks by vectors alone",
        "filter": "Chroma's `where`, as JSON",
        "path": "a folder of Chroma's, opened in this process, in place of url",
        "collection": "the collection",
        "tenant": "Chroma's tenant",
        "database": "Chroma's database",
        "header": "where the key is sent: x-chroma-token, or authorization (as a Bearer token)",
    },
)
