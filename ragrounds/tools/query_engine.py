"""An index of Elasticsearch or OpenSearch as an engine and as a target: what both adapters share."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence

from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.engine_hits import flat_fields, query_metric
from ragrounds.tools.external_index import (
    FUSED_DEPTH,
    EngineFault,
    EngineHit,
    EngineSample,
    ExternalEngine,
    fused_hits,
    status_fault,
)
from ragrounds.tools.external_parameters import Record, text_of
from ragrounds.tools.push import PushRow
from ragrounds.tools.query_dsl import (
    OWN_ID,
    WINDOW,
    Body,
    QueryParameters,
    SearchServer,
    changes_of,
    field_names,
    filter_of,
    found_by,
    page,
    put_rows,
    same_vectors,
    words_query,
)

Connecting = Callable[[], SearchServer]


class QueryEngine(ExternalEngine):
    """One index. What differs between the two, searching by vectors and fusing, is left to subclasses."""

    def __init__(self, given: QueryParameters, retriever: str, connect: Connecting) -> None:
        """Nothing is opened before the first call."""
        self.given, self._connect = given, connect
        self.filters = filter_of(given, retriever)
        self._retriever = retriever
        self._opening = threading.Lock()
        self._held: SearchServer | None = None

    @abstractmethod
    def vector_body(self, vector: Sequence[float], k: int) -> Body:
        """A search by a vector, without :func:`ragrounds.tools.query_dsl.page`."""

    @abstractmethod
    def fused_body(self, text: str, vector: Sequence[float], k: int) -> Body:
        """A search by words and a vector that the engine fuses."""

    def words_body(self, text: str) -> Body:
        """A search by words."""
        return {"query": words_query(self.given, text, self.filters)}

    def fields(self) -> Sequence[str]:
        """The fields of the mapping, with dots.

        Raises:
            UserError: there is no such index.
        """
        server = self._server()
        if not server.exists():
            raise UserError(f"{self._retriever} has no index {self.given.index!r} there.")
        return field_names(server.mapping())

    def sample(self, most: int) -> EngineSample:
        """The number of documents, and ids and texts of all, or how often each shard was changed.

        Raises:
            UserError: there are more than `most`, and the server does not tell of changes.
        """
        server, fields = self._server(), self.given.fields
        query: Body = {"bool": {"filter": self.filters}} if self.filters else {"match_all": {}}
        count = server.count({"query": query})
        if count <= most:
            [hits] = found_by(server, [{"query": query, **page(self.given, most)}], fields, most)
            return EngineSample(count, tuple((hit.id, text_of(hit.record, fields.text)) for hit in hits))
        mark = changes_of(server.stats())
        if not mark:
            raise UserError(
                f"{self._retriever} does not tell how often the index {self.given.index!r} was changed (`_stats`, the "
                "privilege `monitor`). Say by yourself which version it is: version=2026-01, say."
            )
        return EngineSample(count, (), mark)

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest documents, with the engine's own scores."""
        return self._found([self.vector_body(row.tolist(), k) for row in vectors], k)

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best documents by their words."""
        return self._found([self.words_body(query) for query in queries], k)

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best of both rankings, in one request: fused by us, or by the engine where the spec
        says so."""
        pairs = [(query, row.tolist()) for query, row in zip(queries, vectors, strict=True)]
        depth = max(k, FUSED_DEPTH)
        if self.given.fusion == "engine":
            return self._found([self.fused_body(query, vector, depth) for query, vector in pairs], k)
        bodies = [body for query, vector in pairs for body in (self.words_body(query), self.vector_body(vector, depth))]
        rankings = self._found(bodies, depth)
        return [fused_hits(rankings[place : place + 2], k) for place in range(0, len(rankings), 2)]

    def records(self, document: str) -> list[Record]:
        """The documents of ours that stand under a document's id, by id."""
        name = self.given.document
        terms = [{"term": {f"{name}{keyword}": document}} for keyword in ("", ".keyword")]
        query: Body = {"bool": {"should": terms, "minimum_should_match": 1}}
        [hits] = found_by(self._server(), [{"query": query, **page(self.given, WINDOW)}], self.given.fields, WINDOW)
        return [hit.record for hit in sorted(hits, key=lambda hit: hit.id)]

    def fault(self, error: Exception) -> str:
        """By the status of the answer, or by what the client says of the connection."""
        return client_fault(error)

    def close(self) -> None:
        """Give back the connections."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _server(self) -> SearchServer:
        with self._opening:
            if self._held is None:
                self._held = self._connect()
            return self._held

    def _found(self, bodies: Sequence[Body], k: int) -> list[list[EngineHit]]:
        whole = [{**page(self.given, k), **body} for body in bodies]
        return found_by(self._server(), whole, self.given.fields, k)


class QueryPush:
    """Brings passages into an index: see :class:`ragrounds.tools.push.PushTarget`."""

    def __init__(
        self, given: QueryParameters, retriever: str, connect: Connecting,
        index_body: Callable[[dict[str, str], int, Metric], Body], dimensions_key: str,
    ) -> None:  # fmt: skip
        self._given, self._retriever = given, retriever
        self._names = flat_fields(given.fields, retriever)
        self._server = connect()
        self._index_body, self._dimensions_key = index_body, dimensions_key

    def begin(self, dimensions: int, metric: Metric) -> int:
        """Make the index where it is not there; see :meth:`ragrounds.tools.push.PushTarget.begin`."""
        if not self._server.exists():
            self._server.create(self._index_body(self._names, dimensions, metric))
            return 0
        mapping = self._server.mapping()
        if dimensions:
            same_vectors(mapping, self._names["vector"], self._dimensions_key, dimensions, self._given.index)
        return self._server.count({"query": {"match_all": {}}})

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id."""
        put_rows(self._server, rows, self._given.fields, self._given.index)

    def end(self) -> int:
        """Make everything searchable; gives the number of documents."""
        self._server.refresh()
        return self._server.count({"query": {"match_all": {}}})

    def fault(self, error: Exception) -> str:
        """As :meth:`QueryEngine.fault`."""
        return client_fault(error)

    def close(self) -> None:
        """Give back the connections."""
        self._server.close()


def text_fields(names: dict[str, str]) -> Body:
    """The mapping of a pushed passage's texts: words are searched in text and title, the rest is kept whole."""
    found: Body = {names["document"]: {"type": "keyword"}}
    if names["id"] != OWN_ID:
        found[names["id"]] = {"type": "keyword"}
    for name in (names["title"], names["text"]):
        found[name] = {"type": "text", "analyzer": "english"}
    return found


def client_fault(error: Exception) -> str:
    """The kind of an error of either client, as :class:`EngineFault` names them; empty: not known."""
    if isinstance(error, EngineFault):
        return error.kind
    for status in (getattr(getattr(error, "meta", None), "status", None), getattr(error, "status_code", None)):
        if isinstance(status, int) and (kind := status_fault(status)):
            return kind
    called = [kind.__name__ for kind in type(error).__mro__]
    if "ConnectionTimeout" in called:
        return "timeout"
    if "SSLError" in called or "TlsError" in called:
        return "tls"
    if "ConnectionError" in called:
        return "connection"
    return "malformed" if "SerializationError" in called else ""


def login_of(address: str, key: str) -> tuple[str, tuple[str, str] | None, str]:
    """What reaches a server: its address without a login, the login, and a key alone.

    Args:
        address: As it was given; a login may stand in it.
        key: ``user:password``, a key alone, or the password of the user in the address.
    """
    from urllib.parse import unquote, urlsplit, urlunsplit

    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    plain = urlunsplit((parts.scheme, host, parts.path, "", ""))
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if key and user:
        return plain, (user, key), ""
    if ":" in key:
        name, _, secret = key.partition(":")
        return plain, (name, secret), ""
    return plain, (user, password) if user else None, key


def metric_of(given: QueryParameters) -> Metric:
    """The metric by which vectors were made."""
    return given.metric or query_metric(given)


def indexed(spec: Spec, name: str) -> Spec:
    """The spec of what is pushed: without an index, the one of our index' name, as both engines take it."""
    return spec if "index" in spec.parameters else spec.having(index=name.lower())
