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
import math
import threading
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ragrounds.errors import UserError
from ragrounds.text import safe
from ragrounds.tools.analysers import analyser
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_engine import (
    FUSED_DEPTH,
    EngineHit,
    EngineSample,
    ExternalEngine,
    Vendor,
    client_fault,
    fused_hits,
    in_order,
    paths_in,
)
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.external_parameters import ExternalParameters, Record, json_filter, text_of
from ragrounds.tools.push import PushRow

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


class QdrantEngine(ExternalEngine):
    """One collection of Qdrant. In this process a folder has one client, which all share."""

    parameters = QdrantParameters
    given: QdrantParameters
    extra = "qdrant"
    _shared: ClassVar[dict[str, tuple[Vendor, int]]] = {}
    _lock = threading.Lock()

    def __init__(self, given: ExternalParameters, name: str, *, filling: bool = False) -> None:
        super().__init__(given, name, filling=filling)
        self._json = json_filter(given.filter, name, '{"must": [{"key": "year", "match": {"value": 2015}}]}')
        self._filter: Vendor = None
        self._vectors: list[str] = []
        self._using, self._sign = given.vector, 1.0
        if filling:
            self._using = self.names["vector"] = given.vector or "vector"

    def connect(self) -> Vendor:
        """A client; :meth:`release` gives it back.

        Raises:
            UserError: another process holds the folder.
        """
        from qdrant_client import QdrantClient, models

        self._models: Vendor = models
        if not self.local:
            return QdrantClient(
                url=self.address, api_key=self.key or None, timeout=math.ceil(self.given.timeout),
                check_compatibility=False,
            )  # fmt: skip
        folder = str(Path(self.address).resolve())
        with self._lock:
            held, users = self._shared.get(folder, (None, 0))
            if held is None:
                try:
                    held = QdrantClient(path=folder, force_disable_check_same_thread=True)
                except RuntimeError as problem:
                    if "already accessed" not in str(problem):
                        raise
                    raise UserError(
                        f"Another process has {safe(folder, 200)!r} open: Qdrant's folder is for one at a time. "
                        "Wait for it, or start a Qdrant server and give its url."
                    ) from None
            self._shared[folder] = held, users + 1
            return held

    def release(self, client: Vendor) -> None:
        """Give a client back; the last user of a folder closes it."""
        if not self.local:
            client.close()
            return
        folder = str(Path(self.address).resolve())
        with self._lock:
            held, users = self._shared.get(folder, (client, 1))
            if users > 1:
                self._shared[folder] = held, users - 1
            else:
                self._shared.pop(folder, None)
                held.close()

    def look(self, client: Vendor) -> None:
        """What the collection says of its vectors, and the filter as Qdrant reads it."""
        if self._json is not None:
            try:
                self._filter = self._models.Filter.model_validate(self._json)
            except ValueError as problem:
                said = safe(" ".join(str(problem).split()), 300)
                raise UserError(
                    f"qdrant's filter={safe(self.given.filter, 80)!r} is none of Qdrant's: {said}."
                ) from None
        self.check_named(_collections(client))
        dense = _dense(client.get_collection(self.named))
        self._vectors = list(dense)
        if self.given.mode == "text":
            return
        if not self._using and len(dense) == 1:
            self._using = self._vectors[0]
        if self._using not in dense:
            listed = ", ".join(safe(one, 60) or "one without a name" for one in dense) or "none"
            raise UserError(
                f"Qdrant's collection {self.named!r} has no vectors {self._using!r}: name them as vector=…. Its "
                f"vectors: {listed}."
            )
        distance = str(dense[self._using].distance.value)
        if distance not in _METRICS:
            raise UserError(f"Qdrant's collection {self.named!r} compares by {distance!r}, which is not read here.")
        self._sign = -1.0 if _METRICS[distance] == "l2" else 1.0

    def fields(self) -> Sequence[str]:
        """The fields in the payload of the first points, with dots, and the names of the vectors."""
        points, _ = self.client.scroll(self.named, limit=100, with_payload=True)
        inside = (name for point in points for name in paths_in(point.payload or {}))
        # The vectors were looked for already, by the name that the spec gives them.
        return list(dict.fromkeys([*inside, *self._vectors, self.given.vector, *([] if points else self.read())]))

    def sample(self, most: int) -> EngineSample:
        """The number of points, and ids and texts of the first by Qdrant's own ids."""
        client = self.client
        count = client.count(self.named, count_filter=self._filter, exact=True).count
        rows: list[tuple[str, str]] = []
        after: object = None
        while len(rows) < most:
            points, after = client.scroll(
                self.named, limit=min(256, most), offset=after, scroll_filter=self._filter,
                with_payload=[self.map.id, self.map.text],
            )  # fmt: skip
            rows += [(self._id(point), text_of(point.payload or {}, self.map.text)) for point in points]
            if after is None:
                break
        return EngineSample(int(count), tuple(rows[:most]))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest points."""
        return self._found([(row.tolist(), self._using) for row in vectors], k)

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best points by their sparse vectors."""
        return self._found([(self._sparse(query), self.given.sparse) for query in queries], k)

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best of both rankings, asked for in one request and fused by reciprocal rank."""
        asked: list[tuple[object, str]] = []
        for query, row in zip(queries, vectors, strict=True):
            asked += [(self._sparse(query), self.given.sparse), (row.tolist(), self._using)]
        rankings = self._found(asked, max(k, FUSED_DEPTH))
        return [fused_hits(rankings[place : place + 2], k) for place in range(0, len(rankings), 2)]

    def records(self, document: str) -> list[Record]:
        """The points of a document, by id."""
        client, models = self.client, self._forms
        wanted = models.FieldCondition(key=self.map.document, match=models.MatchValue(value=document))
        points, _ = client.scroll(
            self.named, limit=10_000, scroll_filter=models.Filter(must=[wanted]), with_payload=self.read()
        )
        held: list[Record] = [point.payload or {} for point in points]
        return sorted(held, key=lambda record: text_of(record, self.map.id))

    def fault(self, error: Exception) -> str:
        """By the status of the answer, or by what the client met on the way."""
        called = {kind.__name__ for kind in type(error).__mro__}
        if "ResourceExhaustedResponse" in called:
            return "rate_limit"
        if found := client_fault(getattr(error, "source", error)):
            return found
        return "bad_request" if isinstance(error, ValueError | KeyError | IndexError) else ""

    @property
    def _forms(self) -> Vendor:
        """The forms of what the client sends, which come with it."""
        return self._models if self.client else None

    def _sparse(self, query: str) -> object:
        if self.given.terms != OUR_TERMS:
            return self._forms.Document(text=query, model=self.given.terms)
        terms = sorted(set(term_numbers(query)))
        return self._forms.SparseVector(indices=terms, values=[1.0] * len(terms))

    def _found(self, asked: Sequence[tuple[object, str]], k: int) -> list[list[EngineHit]]:
        client, models = self.client, self._forms
        params = models.SearchParams(exact=True) if self.given.exact else None
        requests = [
            models.QueryRequest(
                query=query, using=using or None, limit=k, filter=self._filter, with_payload=self.read(), params=params
            )
            for query, using in asked
        ]
        found = []
        for (_, using), answer in zip(asked, client.query_batch_points(self.named, requests=requests), strict=True):
            l2 = using == self._using and self._sign < 0
            scored = ((point, -(point.score**2) if l2 else point.score) for point in answer.points)
            found.append(
                in_order(EngineHit(self._id(point), float(score), point.payload or {}) for point, score in scored)
            )
        return found

    def _id(self, point: Vendor) -> str:
        return text_of(point.payload or {}, self.map.id) or str(point.id)

    def there(self) -> tuple[Sequence[str], int] | None:
        """Payloads have any fields; the vectors by their name."""
        if self.named not in _collections(self.client):
            return None
        held = _dense(self.client.get_collection(self.named)).get(self._using)
        return list(self.names.values()), int(held.size) if held is not None else 0

    def create(self) -> None:
        """Vectors, and a sparse vector of the words."""
        client, models = self.client, self._forms
        distance = next(models.Distance(called) for called, one in _METRICS.items() if one == self.metric)
        dense = {self._using: models.VectorParams(size=self.dimensions, distance=distance)} if self.dimensions else {}
        sparse = {self.given.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)}
        client.create_collection(self.named, vectors_config=dense, sparse_vectors_config=sparse)
        if not self.local:  # in this process there are none
            client.create_payload_index(self.named, self.names["document"], models.PayloadSchemaType.KEYWORD)

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id."""
        client, models = self.client, self._forms
        points = []
        for row in rows:
            weights = term_weights(f"{row.title}\n{row.text}")
            sparse = models.SparseVector(indices=list(weights), values=list(weights.values()))
            vectors: dict[str, object] = {self.given.sparse: sparse}
            if row.vector is not None:
                vectors[self._using] = row.vector.tolist()
            # Qdrant's ids are numbers or UUIDs: the same id is the same point.
            point = str(uuid.uuid5(uuid.NAMESPACE_URL, row.id))
            points.append(models.PointStruct(id=point, vector=vectors, payload=self.texts_of(row)))
        client.upsert(self.named, points=points, wait=True)

    def end(self) -> int:
        """Gives the number of points; Qdrant indexes by itself."""
        return self.count()

    def count(self) -> int:
        """The number of points."""
        return int(self.client.count(self.named, exact=True).count)


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


def _collections(client: Vendor) -> list[str]:
    return [str(one.name) for one in client.get_collections().collections]


def _dense(said: Vendor) -> dict[str, Vendor]:
    """The dense vectors of a collection by name; the one without a name is called ``""``."""
    held = said.config.params.vectors
    return {} if held is None else dict(held) if isinstance(held, Mapping) else {"": held}


QDRANT = external_retriever(
    QdrantEngine,
    name="qdrant",
    summary="a collection of Qdrant, or of its client in this process: vectors, words (BM25), or both",
    example='qdrant[url="http://HOST:6333",collection=passages,embed=MODEL]',
    library="qdrant_client",
    caution="by its address tried against a stand-in alone; the form in this process is the real one",
    words={
        "path": "folder of the client in this process, in place of a server's address",
        "collection": "the collection",
        "vector": "name of the vectors; by default the only ones",
        "sparse": "name of the sparse vectors, for mode=text and hybrid",
        "terms": "what makes sparse vectors of queries: lucene-english (as pushed), or a model such as Qdrant/bm25",
        "exact": "compare with all vectors, without an index",
        "filter": 'Qdrant\'s filter as JSON: {"must": [{"key": "year", "range": {"gt": 2015}}]}',
        "key_env": "environment variable that holds the API key",
    },
)
