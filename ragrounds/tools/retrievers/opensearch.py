"""An index of OpenSearch as a corpus: ``opensearch[url="https://HOST:9200",index=NAME,key_env=OS_LOGIN]``.

``mode=text`` searches words (BM25; ``searched="title^2,text"`` names the fields and their weights), ``mode=vector`` a
field of the type ``knn_vector``, ``mode=hybrid`` both, fused by us, or by OpenSearch (``fusion=engine``: the query
``hybrid`` with the processor ``score-ranker-processor``, from 2.19 on). ``filter`` is a query as JSON, or in the syntax
of ``query_string``. Scores are OpenSearch's; of the cosine that is (1 + cosine) / 2.

``key_env`` names the variable with ``user:password``, or with a token.

Built from the documented API (2.19 and 3) and the official client; it was not tried on a real server.
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

_SPACES: Mapping[Metric, str] = {"cosine": "cosinesimil", "ip": "innerproduct", "l2": "l2"}


class OpenSearchIndices(Protocol):
    """The client's calls about indices."""

    exists: Callable[..., bool]
    get_mapping: Callable[..., object]
    stats: Callable[..., object]
    create: Callable[..., object]
    refresh: Callable[..., object]


class OpenSearchClient(Protocol):
    """OpenSearch's client, as far as it is used here."""

    indices: OpenSearchIndices
    search: Callable[..., Answer]
    msearch: Callable[..., Answer]
    count: Callable[..., Answer]
    bulk: Callable[..., Answer]
    close: Callable[..., None]


class OpenSearchServer:
    """One index, asked by the official client."""

    def __init__(self, client: OpenSearchClient, index: str) -> None:
        self._client, self._index = client, index

    def search(self, body: Body) -> Answer:
        """The answer to one search."""
        return self._client.search(index=self._index, body=body)

    def msearch(self, bodies: Sequence[Body]) -> Sequence[object]:
        """The answers to several searches, in one request."""
        header: Body = {"index": self._index}
        lines = [line for body in bodies for line in (header, body)]
        return cast(list[object], self._client.msearch(body=lines).get("responses") or [])

    def count(self, body: Body) -> int:
        """How many documents a query finds."""
        return int(str(self._client.count(index=self._index, body=body)["count"]))

    def mapping(self) -> object:
        """The mapping of the index."""
        return self._client.indices.get_mapping(index=self._index)

    def stats(self) -> object:
        """How often each shard was changed."""
        return self._client.indices.stats(index=self._index, metric="docs", params={"level": "shards"})

    def exists(self) -> bool:
        """Whether there is such an index."""
        return bool(self._client.indices.exists(index=self._index))

    def create(self, body: Body) -> None:
        """Make the index."""
        self._client.indices.create(index=self._index, body=body)

    def bulk(self, lines: Sequence[Body]) -> Answer:
        """Carry out many changes in one request."""
        return self._client.bulk(body=lines)

    def refresh(self) -> None:
        """Make what was put in searchable."""
        self._client.indices.refresh(index=self._index)

    def close(self) -> None:
        """Give back the connections."""
        self._client.close()


class OpenSearchEngine(QueryEngine):
    """One index of OpenSearch."""

    def vector_body(self, vector: Sequence[float], k: int) -> Body:
        """A search by a vector."""
        return {"query": self._knn(vector, k)}

    def fused_body(self, text: str, vector: Sequence[float], k: int) -> Body:
        """A search by words and a vector, fused on the server."""
        queries = [words_query(self.given, text, self.filters), self._knn(vector, k)]
        ranked: Body = {"combination": {"technique": "rrf", "rank_constant": FUSED}}
        pipeline: Body = {"phase_results_processors": [{"score-ranker-processor": ranked}]}
        return {"query": {"hybrid": {"queries": queries}}, "search_pipeline": pipeline, "size": k}

    def _knn(self, vector: Sequence[float], k: int) -> Body:
        asked: Body = {"vector": list(vector), "k": k}
        if self.filters:
            asked["filter"] = self.filters[0]
        if self.given.candidates:
            asked["method_parameters"] = {"ef_search": max(self.given.candidates, k)}
        return {"knn": {self.given.vector: asked}}


def opensearch_server(given: QueryParameters) -> tuple[SearchServer, list[str]]:
    """The index that a spec names, which is not asked yet; and what no error may show.

    Raises:
        UserError: the client is not installed, or there is no address or key.
    """
    address, key = address_of(given, "opensearch"), key_of(given, "opensearch")
    where, login, token = login_of(address, key)
    try:
        from opensearchpy import OpenSearch
    except ImportError:
        raise UserError("opensearch needs its client: install ragrounds[opensearch].") from None
    more: dict[str, object] = {"ca_certs": given.ca} if given.ca else {}
    client: OpenSearchClient = OpenSearch(
        [where], http_auth=login, headers={"Authorization": f"Bearer {token}"} if token else None,
        timeout=given.timeout, max_retries=0, retry_on_timeout=False, retry_on_status=(),
        pool_maxsize=given.connections, **more,
    )  # fmt: skip
    return OpenSearchServer(client, given.index), secrets_in(address, key, *(login[1:] if login else ()))


def _index_body(names: dict[str, str], dimensions: int, metric: Metric) -> Body:
    fields = text_fields(names)
    if dimensions:
        method = {"name": "hnsw", "engine": "faiss"}
        fields[names["vector"]] = {
            "type": "knn_vector", "dimension": dimensions, "space_type": _SPACES[metric], "method": method
        }  # fmt: skip
    return {"settings": {"index": {"knn": bool(dimensions)}}, "mappings": {"properties": fields}}


def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
    given = checked(read_parameters(spec, QueryParameters), "opensearch")
    server, secrets = opensearch_server(given)
    engine = OpenSearchEngine(given, "opensearch", lambda: server)
    return ExternalSearcher(spec, corpora.names or given.index, given, engine, secrets=secrets)


def _pushed(spec: Spec, name: str) -> QueryPush:
    given = checked(read_parameters(indexed(spec, name), QueryParameters, searching=False), "opensearch")
    return QueryPush(given, "opensearch", lambda: opensearch_server(given)[0], _index_body, "dimension")


OPENSEARCH = Retriever(
    name="opensearch",
    summary="an index of OpenSearch: words (BM25), vectors, or both",
    example='opensearch[url="https://HOST:9200",index=NAME,key_env=OS_LOGIN,mode=text]',
    open=_open,
    parameters=external_parameters(QueryParameters, **QUERY_WORDS),
    cost="a request to the server; with vectors, the model once for each query",
    extra="opensearch",
    library="opensearchpy",
    caution="not tried on a real server",
    push=PushWay(open=_pushed, searched=indexed),
    own_corpus=True,
)
