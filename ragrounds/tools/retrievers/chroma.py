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

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, cast
from urllib.parse import urlsplit

import msgspec
import numpy as np

from ragrounds.contracts import Searcher
from ragrounds.errors import UserError, nearest
from ragrounds.specs import Spec
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_index import (
    EngineFault,
    EngineHit,
    EngineSample,
    ExternalEngine,
    ExternalSearcher,
    status_fault,
)
from ragrounds.tools.external_parameters import (
    ExternalParameters,
    Record,
    address_of,
    external_parameters,
    key_of,
    read_parameters,
    secrets_in,
)
from ragrounds.tools.push import PushRow, PushTarget, PushWay
from ragrounds.tools.retriever import Retriever, SearchedCorpora

_LOOKED_AT = 100
"""Records whose metadata say which fields there are."""
_AT_ONCE = 5_000
Found = Mapping[str, list[object]]
"""What Chroma answers: lists by ``ids``, ``documents``, ``metadatas``, ``distances``."""


class ChromaParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``chroma[…]`` takes."""

    path: str = ""
    collection: str = ""
    tenant: str = "default_tenant"
    database: str = "default_database"
    header: Literal["x-chroma-token", "authorization"] = "x-chroma-token"


class ChromaClient(Protocol):
    """What is used of Chroma's client."""

    def get_collection(self, name: str, embedding_function: None) -> ChromaCollection:
        """A collection that is there."""

    def get_or_create_collection(
        self, name: str, *, embedding_function: None, configuration: Mapping[str, object]
    ) -> ChromaCollection:
        """A collection, made where it is not there."""

    def list_collections(self, limit: int) -> Sequence[ChromaCollection]:
        """The first collections."""

    def get_max_batch_size(self) -> int:
        """Records that one call may bring."""


class ChromaCollection(Protocol):
    """What is used of Chroma's collection."""

    name: str
    configuration_json: Mapping[str, Mapping[str, object] | None]

    def count(self) -> int:
        """The number of records."""

    def get(self, **asked: object) -> Found:
        """Records by id, condition or place."""

    def query(self, **asked: object) -> Mapping[str, list[list[object]]]:
        """The nearest records."""

    def upsert(self, **given: object) -> None:
        """Insert or replace records."""


def open_client(given: ChromaParameters, address: str, key: str) -> ChromaClient:
    """Chroma's client for a server or a folder.

    Raises:
        UserError: chromadb is not installed, or the address is none.
        Exception: what the client makes of a server that does not answer.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError:
        raise UserError("chroma needs its client: install ragrounds[dense].") from None
    quiet = Settings(anonymized_telemetry=False)
    if given.path:
        folder = str(Path(given.path).expanduser())
        return cast(
            ChromaClient,
            chromadb.PersistentClient(folder, settings=quiet, tenant=given.tenant, database=given.database),
        )
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError("The address of chroma is none: expected http://HOST:PORT.")
    secure = parts.scheme == "https"
    header = "Authorization" if given.header == "authorization" else "X-Chroma-Token"
    value = f"Bearer {key}" if given.header == "authorization" else key
    return cast(
        ChromaClient,
        chromadb.HttpClient(
            host=parts.hostname,
            port=parts.port or (443 if secure else 8000),
            ssl=secure,
            headers={header: value} if key else None,
            settings=quiet,
            tenant=given.tenant,
            database=given.database,
        ),
    )


class ChromaEngine(ExternalEngine):
    """One collection behind Chroma's client."""

    def __init__(self, given: ChromaParameters, address: str, key: str) -> None:
        self._given, self._address, self._key = given, address, key
        self._opening = threading.Lock()
        self._collection: ChromaCollection | None = None
        self._metric: Metric = "l2"
        self._where: dict[str, object] = _where(given.filter)

    @property
    def _opened(self) -> ChromaCollection:
        with self._opening:
            if self._collection is None:
                if self._given.path and not Path(self._given.path).expanduser().is_dir():
                    raise UserError(
                        f"There is no folder {self._given.path!r} for chroma to search: expected one of Chroma's."
                    )
                client = open_client(self._given, self._address, self._key)
                self._collection = found_collection(client, self._given.collection)
                self._metric = space_of(self._collection)
            return self._collection

    def fields(self) -> Sequence[str]:
        """Id, text and vector, and the keys of the first records' metadata."""
        found = self._opened.get(limit=_LOOKED_AT, include=["metadatas"])
        keys = {key for each in found["metadatas"] or [] for key in (each if isinstance(each, Mapping) else {})}
        return ["id", "text", "vector", *sorted(map(str, keys))] if found["ids"] else []

    def sample(self, most: int) -> EngineSample:
        """The first and the last records, in the order of the collection."""
        collection = self._opened
        if self._where:
            held = collection.get(where=self._where, include=[])["ids"]
            found = [collection.get(where=self._where, limit=most, include=["documents"])]
            return EngineSample(len(held), tuple(_texts(found)))
        count = collection.count()
        parts = [collection.get(limit=min(most, max(1, count)), include=["documents"])]
        if count > most:
            parts = [
                collection.get(limit=most // 2, offset=offset, include=["documents"])
                for offset in (0, count - most // 2)
            ]
        return EngineSample(count, tuple(_texts(parts)))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """What the collection's graph finds, all queries in one request."""
        found = self._opened.query(
            query_embeddings=vectors,
            n_results=k,
            include=["metadatas", "documents", "distances"],
            **({"where": self._where} if self._where else {}),
        )
        one = 0.0 if self._metric == "l2" else 1.0  # Chroma's distances are 1 - product, or squared distances
        return [
            [
                EngineHit(str(identity), one - float(cast(float, distance)), _record(identity, text, metadata))
                for identity, text, metadata, distance in zip(*lists, strict=True)
            ]
            for lists in zip(found["ids"], found["documents"], found["metadatas"], found["distances"], strict=True)
        ]

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """Not to be had: see the module's text."""
        raise UserError("chroma ranks by vectors alone: fuse it with BM25 for words, rrf[a=bm25,b=chroma[…]].")

    def records(self, document: str) -> list[Record]:
        """The records whose metadata name the document, or the record of that id."""
        include = ["metadatas", "documents"]
        found = self._opened.get(where={self._given.document: document}, include=include)
        if not found["ids"]:
            found = self._opened.get(ids=[document], include=include)
        rows = zip(found["ids"], found["documents"] or [], found["metadatas"] or [], strict=False)
        return sorted((_record(*row) for row in rows), key=lambda record: (len(str(record["id"])), str(record["id"])))

    def fault(self, error: Exception) -> str:
        """The kind of an error of Chroma's client or of httpx."""
        return fault_of(error)

    def close(self) -> None:
        """Nothing: Chroma shares its connections among its clients."""


def found_collection(client: ChromaClient, name: str) -> ChromaCollection:
    """A collection by name.

    Raises:
        UserError: there is none; names those that there are.
    """
    from chromadb.errors import InvalidArgumentError, NotFoundError

    try:
        return client.get_collection(name, embedding_function=None)
    except (NotFoundError, InvalidArgumentError):
        known = [one.name for one in client.list_collections(limit=40)]
        listed = ", ".join(sorted(known)) or "none"
        raise UserError(
            f"chroma finds no collection {name!r}.{nearest(name, known)} Its collections are {listed}."
        ) from None


def space_of(collection: ChromaCollection) -> Metric:
    """By what a collection compares vectors."""
    for kind in ("hnsw", "spann"):
        space = (collection.configuration_json.get(kind) or {}).get("space")
        if space in ("cosine", "ip", "l2"):
            return space
    return "l2"


def fault_of(error: Exception) -> str:
    """The kind of an error of Chroma's, as :class:`~ragrounds.tools.external_index.EngineFault` names them."""
    import httpx
    from chromadb import errors

    if isinstance(error, errors.ChromaAuthError | errors.AuthorizationError):
        return "auth"
    if isinstance(error, errors.RateLimitError):
        return "rate_limit"
    if isinstance(error, errors.NotFoundError):
        return "missing"
    if isinstance(error, errors.InternalError):
        return "server"
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    if isinstance(error, httpx.TransportError):
        return "connection"
    if isinstance(error, httpx.HTTPStatusError):
        return status_fault(error.response.status_code)
    said = str(error)
    if "Could not connect" in said:
        return "connection"
    if "nauthorized" in said or "orbidden" in said:
        return "auth"
    return "bad_request" if isinstance(error, errors.ChromaError) else ""


def _where(text: str) -> dict[str, object]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError:
        raise UserError(f"Cannot use the filter {text!r} of chroma: expected its `where` as a JSON object.") from None


def _record(identity: object, text: object, metadata: object) -> Record:
    own = dict(metadata) if isinstance(metadata, Mapping) else {}
    return {"text": text, **own, "id": identity}


def _texts(parts: Sequence[Found]) -> list[tuple[str, str]]:
    return [
        (str(identity), str(text or ""))
        for part in parts
        for identity, text in zip(part["ids"], part["documents"] or [""] * len(part["ids"]), strict=True)
    ]


class ChromaPush:
    """Fills a collection: see :class:`~ragrounds.tools.push.PushTarget`."""

    def __init__(self, given: ChromaParameters, address: str, key: str) -> None:
        self._given, self._address, self._key = given, address, key
        self._client: ChromaClient | None = None
        self._collection: ChromaCollection | None = None

    def begin(self, dimensions: int, metric: Metric) -> int:
        """Make the collection, with a graph for the metric; or look at the one that is there."""
        if not dimensions:
            raise UserError("chroma holds vectors: name what makes them with --embed MODEL.")
        self._client = open_client(self._given, self._address, self._key)
        graph = {"space": metric, "ef_construction": 200, "ef_search": 200, "max_neighbors": 32}
        # Without `embedding_function=None` Chroma downloads a model of its own.
        self._collection = self._client.get_or_create_collection(
            self._given.collection, embedding_function=None, configuration={"hnsw": graph}
        )
        if (space := space_of(self._collection)) != metric:
            raise UserError(
                f"Chroma's collection {self._given.collection!r} compares by {space}, the model's metric is {metric}: "
                "push to another collection."
            )
        held = np.asarray(self._collection.get(limit=1, include=["embeddings"])["embeddings"])
        if held.size and held.shape[-1] != dimensions:
            raise UserError(
                f"Chroma's collection {self._given.collection!r} holds vectors of {held.shape[-1]} dimensions; those "
                f"of the model have {dimensions}. Push to another collection."
            )
        return self._collection.count()

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert or replace records."""
        if self._client is None or self._collection is None:
            raise EngineFault("missing", "nothing can be pushed before the collection is there")
        step = min(self._client.get_max_batch_size(), _AT_ONCE)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            self._collection.upsert(
                ids=[row.id for row in some],
                documents=[row.text for row in some],
                metadatas=[{self._given.title: row.title, self._given.document: row.document} for row in some],
                embeddings=np.asarray([row.vector for row in some], dtype=np.float32),
            )

    def end(self) -> int:
        """The number of records: the graph grows with them."""
        return self._collection.count() if self._collection is not None else 0

    def fault(self, error: Exception) -> str:
        """As :meth:`ChromaEngine.fault`."""
        return fault_of(error)

    def close(self) -> None:
        """Nothing: Chroma shares its connections among its clients."""


def _address(given: ChromaParameters, name: str) -> str:
    if given.path and (given.url or given.url_env):
        raise UserError("chroma was given a path and an address: expected one of them.")
    return "" if given.path else address_of(given, name)


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    given = read_parameters(spec, ChromaParameters)
    if not given.collection:
        raise UserError("chroma needs its collection: chroma[url=…,collection=NAME,embed=MODEL].")
    if given.mode != "vector":
        raise UserError("chroma ranks by vectors alone: fuse it with BM25 for words, rrf[a=bm25,b=chroma[…]].")
    address, key = _address(given, spec.name), key_of(given, spec.name)
    return ExternalSearcher(
        spec,
        corpora.names or given.collection,
        given,
        ChromaEngine(given, address, key),
        secrets=secrets_in(address, key),
    )


def _pushed(spec: Spec, name: str) -> Spec:
    given = read_parameters(spec, ChromaParameters, searching=False)
    return spec.having(collection=given.collection or name)


def _open_push(spec: Spec, name: str) -> PushTarget:
    given = read_parameters(_pushed(spec, name), ChromaParameters, searching=False)
    return ChromaPush(given, _address(given, spec.name), key_of(given, spec.name))


CHROMA = Retriever(
    name="chroma",
    summary="a collection of Chroma's, of a server or of a folder: vectors",
    example="chroma[url=http://HOST:8000,collection=NAME,embed=MODEL]",
    open=_open,
    parameters=external_parameters(
        ChromaParameters,
        url="http://HOST:PORT of a server (`chroma run`)",
        id="Chroma's own id, or a key of the metadata",
        text="Chroma's own document, or a key of the metadata",
        mode="vector: Chroma ranks by vectors alone",
        filter="Chroma's `where`, as JSON",
        path="a folder of Chroma's, opened in this process, in place of url",
        collection="the collection",
        tenant="Chroma's tenant",
        database="Chroma's database",
        header="where the key is sent: x-chroma-token, or authorization (as a Bearer token)",
    ),
    cost="a query to the server, and the embedding model once for each query",
    extra="dense",
    library="chromadb",
    own_corpus=True,
    push=PushWay(open=_open_push, searched=_pushed),
)
