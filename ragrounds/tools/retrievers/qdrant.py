"""A Qdrant collection as a corpus: ``qdrant[url="http://HOST:6333",collection=passages,embed=MODEL]``, or
``qdrant[path=FOLDER,…]``, the form of the client that lives in this process, for one process at a time.

``mode=vector`` searches the vectors by the collection's own metric; ``vector=…`` names them where there are several.
``mode=text`` searches a sparse vector (``sparse=bm25``) whose weights Qdrant multiplies by the inverse document
frequency (``modifier: idf``, from 1.10 on), which makes it BM25. ``terms`` says how a query becomes one:
``lucene-english``, as ``ragrounds index push`` wrote them, or the name of a model that Qdrant computes by itself or
through fastembed: ``terms="Qdrant/bm25"``. ``mode=hybrid`` asks for both in one request and fuses them.

``filter`` is Qdrant's, as JSON: ``{"must": [{"key": "meta.year", "range": {"gt": 2015}}]}``. A score is the cosine or
the inner product, or the squared distance with a minus sign.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from ragrounds.errors import UserError, nearest
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.analysers import analyser
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.engine_hits import flat_fields, hit_id, in_order, paths_in, texts_of
from ragrounds.tools.external_index import (
    FUSED_DEPTH,
    EngineHit,
    EngineSample,
    ExternalEngine,
    ExternalSearcher,
    fused_hits,
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
    text_of,
)
from ragrounds.tools.push import PushRow, PushWay
from ragrounds.tools.retriever import Retriever, SearchedCorpora

_METRICS: Mapping[str, Metric] = {"Cosine": "cosine", "Dot": "ip", "Euclid": "l2"}
OUR_TERMS = "lucene-english"
K1, B, AVERAGE = 1.2, 0.75, 256.0
"""BM25's constants, and the number of terms that a passage is taken to have on average: a weight is written once, when
nobody knows yet what else will be pushed (fastembed's ``Qdrant/bm25`` takes the same)."""


class QdrantParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``qdrant[…]`` takes."""

    path: str = ""
    collection: str = "passages"
    vector: str = ""
    sparse: str = "bm25"
    terms: str = OUR_TERMS
    exact: bool = False


class QdrantConnection(Protocol):
    """Qdrant's client, as far as it is used here."""

    get_collections: Callable[..., object]
    get_collection: Callable[..., object]
    create_collection: Callable[..., object]
    create_payload_index: Callable[..., object]
    query_batch_points: Callable[..., Sequence[object]]
    scroll: Callable[..., tuple[Sequence[QdrantPoint], object]]
    count: Callable[..., object]
    upsert: Callable[..., object]
    close: Callable[..., None]


class QdrantPoint(Protocol):
    """A point, as Qdrant gives it."""

    id: object
    payload: Mapping[str, object] | None
    score: float


class QdrantPlace:
    """Where a collection is kept, and how it is reached. In this process a folder has one client, which all share."""

    _local: ClassVar[dict[str, tuple[QdrantConnection, int]]] = {}
    _lock = threading.Lock()

    def __init__(self, given: QdrantParameters) -> None:
        """Look at what was given.

        Raises:
            UserError: no place or two were given, or a variable is not set.
        """
        if bool(given.path) == bool(given.url or given.url_env):
            raise UserError(
                "qdrant needs one place: qdrant[path=FOLDER] in this process, or qdrant[url=…] of a server."
            )
        self._given = given
        self.local = bool(given.path)
        self._where = str(Path(given.path).expanduser().resolve()) if given.path else address_of(given, "qdrant")
        self._key = key_of(given, "qdrant")
        self.secrets = secrets_in(self._where, self._key)

    def connect(self) -> QdrantConnection:
        """A client; :meth:`release` gives it back.

        Raises:
            UserError: the client is not installed, or another process holds the folder.
        """
        try:
            from qdrant_client import QdrantClient
        except ImportError:
            raise UserError("qdrant needs Qdrant's client: install ragrounds[qdrant].") from None
        if not self.local:
            made: QdrantConnection = QdrantClient(
                url=self._where, api_key=self._key or None, timeout=math.ceil(self._given.timeout),
                check_compatibility=False,
            )  # fmt: skip
            return made
        with self._lock:
            held, users = self._local.get(self._where, (None, 0))
            if held is None:
                try:
                    held = QdrantClient(path=self._where, force_disable_check_same_thread=True)
                except RuntimeError as problem:
                    if "already accessed" not in str(problem):
                        raise
                    raise UserError(
                        f"Another process has {safe(self._where, 200)!r} open: Qdrant's folder is for one at a time. "
                        "Wait for it, or start a Qdrant server and give its url."
                    ) from None
            self._local[self._where] = held, users + 1
            return held

    def release(self, client: QdrantConnection) -> None:
        """Give a client back; the last user of a folder closes it."""
        if not self.local:
            client.close()
            return
        with self._lock:
            held, users = self._local.get(self._where, (client, 1))
            if users > 1:
                self._local[self._where] = held, users - 1
            else:
                self._local.pop(self._where, None)
                held.close()


class QdrantEngine(ExternalEngine):
    """One collection of Qdrant."""

    def __init__(self, given: QdrantParameters, place: QdrantPlace) -> None:
        """Nothing is opened before the first call.

        Raises:
            UserError: the filter cannot be read, or there are no such terms.
        """
        self._given, self._place = given, place
        self._fields = given.fields
        self._opening = threading.Lock()
        self._held: QdrantConnection | None = None
        self._using, self._sign = given.vector, 1.0
        self._vectors: list[str] = []
        self._filter = _filter(given.filter)
        named = (self._fields.id, self._fields.text, self._fields.title, self._fields.document)
        self._read = [name for name in dict.fromkeys(named) if name]

    def _client(self) -> QdrantConnection:
        """The client, with what the collection says of its vectors read.

        Raises:
            UserError: there is no such collection: names those there are.
        """
        with self._opening:
            if self._held is None:
                client = self._place.connect()
                try:
                    self._look(client)
                except BaseException:
                    self._place.release(client)
                    raise
                self._held = client
            return self._held

    def _look(self, client: QdrantConnection) -> None:
        name = self._given.collection
        if name not in (held := _collections(client)):
            listed = ", ".join(safe(one, 60) for one in held[:20]) or "none"
            raise UserError(f"Qdrant has no collection {name!r}.{nearest(name, held)} Its collections: {listed}.")
        dense = _dense(client.get_collection(name))
        self._vectors = list(dense)
        if self._given.mode == "text":
            return
        if not self._using and len(dense) == 1:
            self._using = self._vectors[0]
        if self._using not in dense:
            listed = ", ".join(safe(one, 60) or "one without a name" for one in dense) or "none"
            raise UserError(
                f"Qdrant's collection {name!r} has no vectors {self._using!r}: name them as vector=…. Its vectors: "
                f"{listed}."
            )
        distance = str(getattr(getattr(dense[self._using], "distance", ""), "value", ""))
        if distance not in _METRICS:
            raise UserError(f"Qdrant's collection {name!r} compares vectors by {distance!r}, which is not read here.")
        self._sign = -1.0 if _METRICS[distance] == "l2" else 1.0

    def fields(self) -> Sequence[str]:
        """The fields in the payload of the first points, with dots, and the names of the vectors."""
        points, _ = self._client().scroll(self._given.collection, limit=100, with_payload=True)
        inside = (name for point in points for name in paths_in(point.payload or {}))
        # The vectors were looked for already, by the name that the spec gives them.
        return list(dict.fromkeys([*inside, *self._vectors, self._given.vector, *([] if points else self._read)]))

    def sample(self, most: int) -> EngineSample:
        """The number of points, and ids and texts of the first by Qdrant's own ids."""
        client, fields = self._client(), self._fields
        counted = client.count(self._given.collection, count_filter=self._filter, exact=True)
        count = int(getattr(counted, "count", 0))
        rows: list[tuple[str, str]] = []
        after: object = None
        while len(rows) < most:
            points, after = client.scroll(
                self._given.collection, limit=min(256, most), offset=after, scroll_filter=self._filter,
                with_payload=[fields.id, fields.text],
            )  # fmt: skip
            rows += [(self._id(point), text_of(point.payload or {}, fields.text)) for point in points]
            if after is None:
                break
        return EngineSample(count, tuple(rows[:most]))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest points."""
        return self._found([(row.tolist(), self._using) for row in vectors], k)

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best points by their sparse vectors."""
        return self._found([(self._sparse(query), self._given.sparse) for query in queries], k)

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best of both rankings, asked for in one request and fused by reciprocal rank."""
        asked: list[tuple[object, str]] = []
        for query, row in zip(queries, vectors, strict=True):
            asked += [(self._sparse(query), self._given.sparse), (row.tolist(), self._using)]
        rankings = self._found(asked, max(k, FUSED_DEPTH))
        return [fused_hits(rankings[place : place + 2], k) for place in range(0, len(rankings), 2)]

    def records(self, document: str) -> list[Record]:
        """The points of a document, by id."""
        from qdrant_client import models

        wanted = models.FieldCondition(key=self._fields.document, match=models.MatchValue(value=document))
        points, _ = self._client().scroll(
            self._given.collection, limit=10_000, scroll_filter=models.Filter(must=[wanted]), with_payload=self._read
        )
        held: list[Record] = [point.payload or {} for point in points]
        return sorted(held, key=lambda record: text_of(record, self._fields.id))

    def fault(self, error: Exception) -> str:
        """By the status of the answer, or by what the client met on the way."""
        return qdrant_fault(error)

    def close(self) -> None:
        """Give back the client."""
        if self._held is not None:
            self._place.release(self._held)
            self._held = None

    def _sparse(self, query: str) -> object:
        from qdrant_client import models

        if self._given.terms != OUR_TERMS:
            return models.Document(text=query, model=self._given.terms)
        terms = sorted(set(term_numbers(query)))
        return models.SparseVector(indices=terms, values=[1.0] * len(terms))

    def _found(self, asked: Sequence[tuple[object, str]], k: int) -> list[list[EngineHit]]:
        from qdrant_client import models

        params = models.SearchParams(exact=True) if self._given.exact else None
        requests = [
            models.QueryRequest(
                query=query, using=using or None, limit=k, filter=self._filter, with_payload=self._read, params=params
            )
            for query, using in asked
        ]
        answers = self._client().query_batch_points(self._given.collection, requests=requests)
        found = []
        for (_, using), answer in zip(asked, answers, strict=True):
            l2 = using == self._using and self._sign < 0
            points: Sequence[QdrantPoint] = getattr(answer, "points", ())
            found.append(in_order(self._hit(point, -(point.score**2) if l2 else point.score) for point in points))
        return found

    def _id(self, point: QdrantPoint) -> str:
        held = text_of(point.payload or {}, self._fields.id)
        return held or str(point.id)

    def _hit(self, point: QdrantPoint, score: float) -> EngineHit:
        record = point.payload or {}
        return EngineHit(self._id(point) or hit_id(record, self._fields.id, self._fields.text), float(score), record)


def term_numbers(text: str) -> list[int]:
    """The terms of a text by our analyser for English, each as a number of 32 bits, as sparse vectors name them."""
    words = analyser(OUR_TERMS)(text)
    return [int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "little") for word in words]


def term_weights(text: str) -> dict[int, float]:
    """The sparse vector of a passage: BM25's weight of each term but for the inverse document frequency, which Qdrant
    multiplies in when it searches."""
    counts = Counter(term_numbers(text))
    length = 1 - B + B * sum(counts.values()) / AVERAGE
    return {number: count * (K1 + 1) / (count + K1 * length) for number, count in counts.items()}


def _filter(text: str) -> object:
    """Qdrant's filter, of JSON; ``None``: there is none.

    Raises:
        UserError: it is no JSON. What Qdrant makes of it is told by Qdrant.
    """
    if not text.strip():
        return None
    try:
        given = json.loads(text)
    except ValueError as problem:
        raise UserError(
            f"Cannot read filter={safe(text, 80)!r} of qdrant as JSON: {problem}. Expected "
            '{"must": [{"key": "year", "match": {"value": 2015}}]}, say.'
        ) from None
    try:
        from qdrant_client import models
    except ImportError:
        return given
    try:
        return models.Filter.model_validate(given)
    except ValueError as problem:
        said = " ".join(str(problem).split())
        raise UserError(f"qdrant's filter={safe(text, 80)!r} is none of Qdrant's: {safe(said, 300)}.") from None


def _collections(client: QdrantConnection) -> list[str]:
    return sorted(str(one.name) for one in getattr(client.get_collections(), "collections", ()))


def _dense(said: object) -> dict[str, object]:
    """The dense vectors of a collection by name; the one without a name is called ``""``."""
    held = getattr(getattr(getattr(said, "config", None), "params", None), "vectors", None)
    if held is None:
        return {}
    return dict(held) if isinstance(held, Mapping) else {"": held}


def qdrant_fault(error: Exception) -> str:
    """The kind of an error of Qdrant's client, as :class:`EngineFault` names them; empty: not known."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status_fault(status)
    called = {kind.__name__ for kind in type(getattr(error, "source", error)).__mro__}
    if "ResourceExhaustedResponse" in called:
        return "rate_limit"
    if "TimeoutException" in called or "TimeoutError" in called:
        return "timeout"
    if "TransportError" in called:
        return "connection"
    return "bad_request" if isinstance(error, ValueError | KeyError | IndexError) else ""


class QdrantPush:
    """Brings passages into a collection: see :class:`ragrounds.tools.push.PushTarget`."""

    def __init__(self, given: QdrantParameters, place: QdrantPlace) -> None:
        self._given, self._place = given, place
        self._vector = given.vector or "vector"
        self._names = flat_fields(given.fields, "qdrant")
        self._held: QdrantConnection | None = None

    def begin(self, dimensions: int, metric: Metric) -> int:
        """Make the collection where it is not there; see :meth:`ragrounds.tools.push.PushTarget.begin`."""
        from qdrant_client import models

        client, name = self._client(), self._given.collection
        if name not in _collections(client):
            distance = next(models.Distance(called) for called, one in _METRICS.items() if one == metric)
            dense = {self._vector: models.VectorParams(size=dimensions, distance=distance)} if dimensions else {}
            sparse = {self._given.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)}
            client.create_collection(name, vectors_config=dense, sparse_vectors_config=sparse)
            if not self._place.local:  # in this process there are none
                client.create_payload_index(name, self._names["document"], models.PayloadSchemaType.KEYWORD)
            return 0
        held = _dense(client.get_collection(name))
        found = getattr(held.get(self._vector), "size", None)
        if dimensions and found != dimensions:
            raise UserError(
                f"Qdrant's collection {name!r} has vectors of {found or 'no'} dimensions under {self._vector!r}, these "
                f"have {dimensions}: name another collection."
            )
        return self._count(client)

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id."""
        from qdrant_client import models

        points = []
        for row in rows:
            weights = term_weights(f"{row.title}\n{row.text}")
            sparse = models.SparseVector(indices=list(weights), values=list(weights.values()))
            vectors: dict[str, object] = {self._given.sparse: sparse}
            if row.vector is not None:
                vectors[self._vector] = row.vector.tolist()
            # Qdrant's ids are numbers or UUIDs: the same id is the same point.
            point = str(uuid.uuid5(uuid.NAMESPACE_URL, row.id))
            points.append(models.PointStruct(id=point, vector=vectors, payload=texts_of(row, self._names)))
        self._client().upsert(self._given.collection, points=points, wait=True)

    def end(self) -> int:
        """Gives the number of points; Qdrant indexes by itself."""
        return self._count(self._client())

    def fault(self, error: Exception) -> str:
        """As :meth:`QdrantEngine.fault`."""
        return qdrant_fault(error)

    def close(self) -> None:
        """Give back the client."""
        if self._held is not None:
            self._place.release(self._held)
            self._held = None

    def _client(self) -> QdrantConnection:
        if self._held is None:
            self._held = self._place.connect()
        return self._held

    def _count(self, client: QdrantConnection) -> int:
        return int(getattr(client.count(self._given.collection, exact=True), "count", 0))


def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
    given = read_parameters(spec, QdrantParameters)
    place = QdrantPlace(given)
    engine = QdrantEngine(given, place)
    return ExternalSearcher(spec, corpora.names or given.collection, given, engine, secrets=place.secrets)


def _searched(spec: Spec, name: str) -> Spec:
    place = spec.parameters.get("path")
    if isinstance(place, str) and "://" in place:  # ``--to qdrant:ADDRESS`` names a folder or a server
        spec = Spec(
            spec.name, {**{key: value for key, value in spec.parameters.items() if key != "path"}, "url": place}
        )
    return spec if "collection" in spec.parameters else spec.having(collection=name)


def _pushed(spec: Spec, name: str) -> QdrantPush:
    given = read_parameters(_searched(spec, name), QdrantParameters, searching=False)
    return QdrantPush(given, QdrantPlace(given))


QDRANT = Retriever(
    name="qdrant",
    summary="a collection of Qdrant, or of its client in this process: vectors, words (BM25), or both",
    example='qdrant[url="http://HOST:6333",collection=passages,embed=MODEL]',
    open=_open,
    parameters=external_parameters(
        QdrantParameters,
        path="folder of the client in this process, in place of a server's address",
        collection="the collection",
        vector="name of the vectors; by default the only ones",
        sparse="name of the sparse vectors, for mode=text and hybrid",
        terms="what makes sparse vectors of queries: lucene-english (as pushed), or a model such as Qdrant/bm25",
        exact="compare with all vectors, without an index",
        filter='Qdrant\'s filter as JSON: {"must": [{"key": "year", "range": {"gt": 2015}}]}',
        key_env="environment variable that holds the API key",
    ),
    cost="a request to the server; with vectors, the model once for each query",
    extra="qdrant",
    library="qdrant_client",
    caution="by its address tried against a stand-in alone; the form in this process is the real one",
    own_corpus=True,
    push=PushWay(open=_pushed, searched=_searched, address="path"),
)
