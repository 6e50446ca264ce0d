"""An index of OpenSearch as a corpus: ``opensearch[url="https://HOST:9200",index=NAME,key_env=OS_LOGIN]``.

``mode=text`` searches words (BM25; ``searched="title^2,text"`` names the fields and their weights), ``mode=vector`` a
field of the type ``knn_vector``, ``mode=hybrid`` both, fused by reciprocal rank. ``filter`` is a query as JSON, or in
the syntax of ``query_string``. Scores are OpenSearch's; of the cosine that is (1 + cosine) / 2.

``key_env`` names the variable with ``user:password``, or with a token.

Built from the documented API (2.19 and 3) and the official client; it was not tried on a real server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragrounds.tools.embedders import Metric
from ragrounds.tools.external_engine import Vendor
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.query_engine import Body, QueryEngine

_SPACES: Mapping[Metric, str] = {"cosine": "cosinesimil", "ip": "innerproduct", "l2": "l2"}


class OpenSearchEngine(QueryEngine):
    """One index of OpenSearch."""

    extra = "opensearch"
    dimensions_key = "dimension"

    def connect(self) -> Vendor:
        """The official client, which tries nothing again by itself."""
        from opensearchpy import OpenSearch

        more: dict[str, Vendor] = {"ca_certs": self.given.ca} if self.given.ca else {}
        return OpenSearch(
            [self.plain], http_auth=self.user, timeout=self.given.timeout, max_retries=0, retry_on_timeout=False,
            headers={"Authorization": f"Bearer {self.token}"} if self.token else None, retry_on_status=(),
            pool_maxsize=self.given.connections, **more,
        )  # fmt: skip

    def near(self, vector: Sequence[float], k: int) -> Body:
        """A search by a vector."""
        asked: Body = {"vector": list(vector), "k": k, **self.options}
        if self.filters:
            asked["filter"] = self.filters[0]
        return {"query": {"knn": {self.given.vector: asked}}}

    def index_body(self, fields: Body) -> Body:
        """The mapping, and that there are vectors."""
        if self.dimensions:
            method = {"name": "hnsw", "engine": "faiss"}
            near = {"space_type": _SPACES[self.metric], "method": method}
            fields[self.names["vector"]] = {"type": "knn_vector", "dimension": self.dimensions, **near}
        return {"settings": {"index": {"knn": bool(self.dimensions)}}, "mappings": {"properties": fields}}


OPENSEARCH = external_retriever(
    OpenSearchEngine,
    name="opensearch",
    summary="an index of OpenSearch: words (BM25), vectors, or both",
    example='opensearch[url="https://HOST:9200",index=NAME,key_env=OS_LOGIN,mode=text]',
    library="opensearchpy",
    caution="not tried on a real server",
)
