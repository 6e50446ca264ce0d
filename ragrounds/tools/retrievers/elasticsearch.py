"""An index of Elasticsearch as a corpus: ``elasticsearch[url="https://HOST:9200",index=NAME,key_env=ES_KEY]``.

``mode=text`` searches words (BM25; ``searched="title^2,text"`` names the fields and their weights), ``mode=vector`` a
field of the type ``dense_vector`` by approximate search, ``mode=hybrid`` both, fused by reciprocal rank.
``filter`` is a query as JSON, or in the syntax of ``query_string``. Scores are Elasticsearch's; of the cosine that is
(1 + cosine) / 2.

``key_env`` names the variable with an API key, or with ``user:password``.

Built from the documented API (8.14 and later) and the official client; it was not tried on a real server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragrounds.tools.embedders import Metric
from ragrounds.tools.external_engine import Vendor
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.query_engine import Body, QueryEngine

_SIMILARITIES: Mapping[Metric, str] = {"cosine": "cosine", "ip": "max_inner_product", "l2": "l2_norm"}


class ElasticEngine(QueryEngine):
    """One index of Elasticsearch."""

    extra = "elasticsearch"
    dimensions_key = "dims"

    def connect(self) -> Vendor:
        """The official client, which tries nothing again by itself."""
        from elasticsearch import Elasticsearch

        more: dict[str, Vendor] = {"ca_certs": self.given.ca} if self.given.ca else {}
        return Elasticsearch(
            self.plain, basic_auth=self.user, api_key=self.token or None, request_timeout=self.given.timeout,
            max_retries=0, retry_on_timeout=False, connections_per_node=self.given.connections, **more,
        )  # fmt: skip

    def near(self, vector: Sequence[float], k: int) -> Body:
        """A search by a vector."""
        asked = {"field": self.given.vector, "query_vector": list(vector), "k": k, "num_candidates": max(100, k)}
        return {"knn": {**asked, "filter": self.filters, **self.options}}

    def index_body(self, fields: Body) -> Body:
        """The mapping."""
        if self.dimensions:
            near = {"similarity": _SIMILARITIES[self.metric], "index": True}
            fields[self.names["vector"]] = {"type": "dense_vector", "dims": self.dimensions, **near}
        return {"mappings": {"properties": fields}}


ELASTICSEARCH = external_retriever(
    ElasticEngine,
    name="elasticsearch",
    summary="an index of Elasticsearch: words (BM25), vectors, or both",
    example='elasticsearch[url="https://HOST:9200",index=NAME,key_env=ES_KEY,mode=text]',
    library="elasticsearch",
    caution="not tried on a real server",
)
