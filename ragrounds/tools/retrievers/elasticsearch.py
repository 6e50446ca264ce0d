"""An index of Elasticsearch as a corpus: ``elasticsearch[url="https://HOST:9200",index=NAME,key_env=ES_KEY]``.

``mode=text`` searches words (BM25; ``searched="title^2,text"`` names the fields and their weights), ``mode=vector`` a
field of the type ``dense_vector`` by approximate search, ``mode=hybrid`` both, fused by us: Elasticsearch's own
reciprocal rank fusion, ``fusion=engine``, is a part of its paid licences. ``filter`` is a query as JSON, or in the
syntax of ``query_string``. Scores are Elasticsearch's; of the cosine that is (1 + cosine) / 2.

``key_env`` names the variable with an API key, or with ``user:password``.

Built from the documented API (8.14 and later) and the official client; it was not tried on a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.embedders import Metric
from ragrounds.tools.external_index import FUSED, ExternalSearcher
from ragrounds.tools.external_parameters import address_of, external_parameters, key_of, read_parameters, secrets_in
from ragrounds.tools.push import PushWay
from ragrounds.tools.query_dsl import QUERY_WORDS, Answer, Body, QueryParameters, SearchServer, checked, words_query
from ragrounds.tools.query_engine import QueryEngine, QueryPush, indexed, login_of, text_fields
from ragrounds.tools.retriever import Retriever, SearchedCorpora

_SIMILARITIES: Mapping[Metric, str] = {"cosine": "cosine", "ip": "max_inner_product", "l2": "l2_norm"}


class ElasticIndices(Protocol):
    """The client's calls about indices."""

    exists: Callable[..., object]
    get_mapping: Callable[..., object]
    stats: Callable[..., object]
    create: Callable[..., object]
    refresh: Callable[..., object]


class ElasticClient(Protocol):
    """Elasticsearch's client, as far as it is used here."""

    indices: ElasticIndices
    search: Callable[..., object]
    msearch: Callable[..., object]
    count: Callable[..., object]
    bulk: Callable[..., object]
    close: Callable[..., None]


class ElasticServer:
    """One index, asked by the official client."""

    def __init__(self, client: ElasticClient, index: str) -> None:
        self._client, self._index = client, index

    def search(self, body: Body) -> Answer:
        """The answer to one search."""
        return _body(self._client.search(index=self._index, body=body))

    def msearch(self, bodies: Sequence[Body]) -> Sequence[object]:
        """The answers to several searches, in one request."""
        header: Body = {"index": self._index}
        lines = [line for body in bodies for line in (header, body)]
        return cast(list[object], _body(self._client.msearch(searches=lines)).get("responses") or [])

    def count(self, body: Body) -> int:
        """How many documents a query finds."""
        return int(str(_body(self._client.count(index=self._index, body=body))["count"]))

    def mapping(self) -> object:
        """The mapping of the index."""
        return _body(self._client.indices.get_mapping(index=self._index))

    def stats(self) -> object:
        """How often each shard was changed."""
        return _body(self._client.indices.stats(index=self._index, level="shards", metric="docs"))

    def exists(self) -> bool:
        """Whether there is such an index."""
        return bool(self._client.indices.exists(index=self._index))

    def create(self, body: Body) -> None:
        """Make the index."""
        self._client.indices.create(index=self._index, mappings=body)

    def bulk(self, lines: Sequence[Body]) -> Answer:
        """Carry out many changes in one request."""
        return _body(self._client.bulk(operations=lines))

    def refresh(self) -> None:
        """Make what was put in searchable."""
        self._client.indices.refresh(index=self._index)

    def close(self) -> None:
        """Give back the connections."""
        self._client.close()


def _body(answer: object) -> Answer:
    """The body of the client's answer, which is an object of its own."""
    body = getattr(answer, "body", answer)
    return body if isinstance(body, Mapping) else {}


class ElasticEngine(QueryEngine):
    """One index of Elasticsearch."""

    def vector_body(self, vector: Sequence[float], k: int) -> Body:
        """A search by a vector."""
        return {"knn": self._knn(vector, k)}

    def fused_body(self, text: str, vector: Sequence[float], k: int) -> Body:
        """A search by words and a vector, fused on the server."""
        words: Body = {"standard": {"query": words_query(self.given, text, self.filters)}}
        near: Body = {"knn": self._knn(vector, k)}
        return {"retriever": {"rrf": {"retrievers": [words, near], "rank_constant": FUSED, "rank_window_size": k}}}

    def _knn(self, vector: Sequence[float], k: int) -> Body:
        looked_at = self.given.candidates or max(k, 100)
        asked: Body = {
            "field": self.given.vector, "query_vector": list(vector), "k": k, "num_candidates": max(looked_at, k)
        }  # fmt: skip
        return {**asked, "filter": self.filters} if self.filters else asked


def elastic_server(given: QueryParameters) -> tuple[SearchServer, list[str]]:
    """The index that a spec names, which is not asked yet; and what no error may show.

    Raises:
        UserError: the client is not installed, or there is no address or key.
    """
    address, key = address_of(given, "elasticsearch"), key_of(given, "elasticsearch")
    where, login, token = login_of(address, key)
    try:
        from elasticsearch import Elasticsearch
    except ImportError:
        raise UserError("elasticsearch needs its client: install ragrounds[elasticsearch].") from None
    more: dict[str, object] = {"ca_certs": given.ca} if given.ca else {}
    client: ElasticClient = Elasticsearch(
        where, basic_auth=login, api_key=token or None, request_timeout=given.timeout, max_retries=0,
        retry_on_timeout=False, connections_per_node=given.connections, **more,
    )  # fmt: skip
    return ElasticServer(client, given.index), secrets_in(address, key, *(login[1:] if login else ()))


def _index_body(names: dict[str, str], dimensions: int, metric: Metric) -> Body:
    fields = text_fields(names)
    if dimensions:
        fields[names["vector"]] = {
            "type": "dense_vector", "dims": dimensions, "index": True, "similarity": _SIMILARITIES[metric]
        }  # fmt: skip
    return {"properties": fields}


def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
    given = checked(read_parameters(spec, QueryParameters), "elasticsearch")
    server, secrets = elastic_server(given)
    engine = ElasticEngine(given, "elasticsearch", lambda: server)
    return ExternalSearcher(spec, corpora.names or given.index, given, engine, secrets=secrets)


def _pushed(spec: Spec, name: str) -> QueryPush:
    given = checked(read_parameters(indexed(spec, name), QueryParameters, searching=False), "elasticsearch")
    return QueryPush(given, "elasticsearch", lambda: elastic_server(given)[0], _index_body, "dims")


ELASTICSEARCH = Retriever(
    name="elasticsearch",
    summary="an index of Elasticsearch: words (BM25), vectors, or both",
    example='elasticsearch[url="https://HOST:9200",index=NAME,key_env=ES_KEY,mode=text]',
    open=_open,
    parameters=external_parameters(QueryParameters, **QUERY_WORDS),
    cost="a request to the server; with vectors, the model once for each query",
    extra="elasticsearch",
    library="elasticsearch",
    caution="not tried on a real server",
    push=PushWay(open=_pushed, searched=indexed),
    own_corpus=True,
)
