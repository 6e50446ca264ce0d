"""A Milvus collection as a corpus: ``milvus[url="http://HOST:19530",collection=passages,embed=MODEL]``, or
``milvus[path=FILE.db,…]``, the form that lives in this process (Milvus Lite).

``mode=vector`` searches the vector's field by the metric of its index; ``mode=text`` the sparse field that a BM25
function of the collection fills (``sparse=…``, from Milvus 2.5 on); ``mode=hybrid`` both, fused by Milvus' own
reciprocal rank fusion. ``filter`` is a boolean expression of Milvus': ``filter="meta[\\"year\\"] > 2015"``.

The key of a server, ``key_env=NAME``, is its token: ``user:password``, or an API key.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_engine import (
    FUSED,
    FUSED_DEPTH,
    EngineFault,
    EngineHit,
    EngineSample,
    ExternalEngine,
    Vendor,
    in_order,
    paths_in,
    query_metric,
    tops,
)
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.external_parameters import ExternalParameters, Record, text_of
from ragrounds.tools.push import PushRow

METRICS: Mapping[Metric, str] = {"cosine": "COSINE", "ip": "IP", "l2": "L2"}
LONGEST = 65_535
"""Bytes that a field of Milvus' holds."""
_UNAVAILABLE, _RATE_LIMIT, _MISSING = 2, 8, 100


class MilvusParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``milvus[…]`` takes."""

    path: str = ""
    collection: str = "passages"
    database: str = ""
    sparse: str = "sparse"


class MilvusEngine(ExternalEngine):
    """One collection of a Milvus server, or of a file of Milvus Lite."""

    parameters = MilvusParameters
    given: MilvusParameters
    extra = "milvus"

    def __init__(self, given: ExternalParameters, name: str, *, filling: bool = False) -> None:
        super().__init__(given, name, filling=filling)
        if self.local and not self.address.endswith(".db"):
            raise UserError(f"Milvus Lite keeps its data in FILE.db: {safe(self.address, 200)!r} does not end so.")
        self._columns: list[str] = []
        self._read: list[str] = []
        self._dynamic = False
        self._wait = {"timeout": given.timeout}

    def connect(self) -> Vendor:
        """A client of its own."""
        import pymilvus

        self._pymilvus: Vendor = pymilvus
        for name in ("pymilvus", "milvus_lite", "grpc._server"):
            # Each writes its errors to standard error, with a traceback.
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if self.local:
            Path(self.address).parent.mkdir(parents=True, exist_ok=True)
        return pymilvus.MilvusClient(
            uri=self.address, token=self.key, db_name=self.given.database, timeout=self.given.timeout
        )

    def look(self, client: Vendor) -> None:
        """The schema, and by what the vectors are compared."""
        self.check_named(client.list_collections(**self._wait))
        # A collection that nobody has loaded since the server began is not searched.
        client.load_collection(self.named, **self._wait)
        said = client.describe_collection(self.named, **self._wait)
        self._columns = [str(row["name"]) for row in said["fields"]]
        self._dynamic = said.get("enable_dynamic_field") is True
        named = self.read()
        self._read = (
            list(dict.fromkeys(one.split(".")[0] for one in named)) if self._dynamic else tops(named, self._columns)
        )
        self.metric = _indexed_metric(client, self.given) or self.given.metric or query_metric(self.given)

    def fields(self) -> Sequence[str]:
        """The fields of the schema, and those of the first records."""
        rows = self._query(filter="", limit=10, output_fields=["*"])
        inside = (name for row in rows for name in paths_in({**row, self.given.sparse: None}))
        return list(dict.fromkeys([*self._columns, *inside]))

    def sample(self, most: int) -> EngineSample:
        """The number of records, and ids and texts of the first by the primary key."""
        count = self.count()
        asked = {
            "filter": self.given.filter, "limit": most, "output_fields": tops([self.map.id, self.map.text], self._read)
        }  # fmt: skip
        if count <= most:
            rows = list(self._query(**asked))
        else:  # in the order of the primary key
            pages = self.client.query_iterator(self.named, batch_size=1_000, **asked, **self._wait)
            rows = []
            while len(rows) < most and (page := pages.next()):
                rows += page
            pages.close()
        return EngineSample(count, tuple(map(self.row_of, rows[:most])))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest records."""
        sign = -1.0 if self.client and self.metric == "l2" else 1.0
        return self._search([row.tolist() for row in vectors], self.map.vector, k, lambda score: sign * score)

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best records by BM25."""
        self._check_sparse()
        # Milvus gives BM25's scores, Milvus Lite 3.2 gives them with a minus sign; they are never below 0.
        return self._search(list(queries), self.given.sparse, k, abs)

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best of both rankings, fused by Milvus."""
        self._check_sparse()
        near = [row.tolist() for row in vectors]
        asked = [
            self._pymilvus.AnnSearchRequest(data, field, {}, limit=max(k, FUSED_DEPTH), expr=self.given.filter or None)
            for data, field in ((list(queries), self.given.sparse), (near, self.map.vector))
        ]
        found = self.client.hybrid_search(
            self.named, reqs=asked, ranker=self._pymilvus.RRFRanker(FUSED), limit=k, output_fields=self._read,
            **self._wait,
        )  # fmt: skip
        return [in_order(self._hit(row, float) for row in hits) for hits in found]

    def records(self, document: str) -> list[Record]:
        """The records of a document, by id."""
        name = self.map.document
        if "." in name or (name not in self._columns and not self._dynamic):
            return []
        wanted = document.replace("\\", "\\\\").replace('"', '\\"')
        rows: list[Record] = self._query(filter=f'{name} == "{wanted}"', output_fields=self._read, limit=10_000)
        return sorted(rows, key=lambda row: text_of(row, self.map.id))

    def fault(self, error: Exception) -> str:
        """By Milvus' codes; those of its transport stand in the message."""
        code, said = getattr(error, "code", None), str(error).casefold()
        number = code if isinstance(code, int) else None
        if "unauthenticated" in said or "auth check failure" in said or "permission deny" in said:
            return "auth"
        if number == _RATE_LIMIT:
            return "rate_limit"
        if "deadline_exceeded" in said or "timeout" in said:
            return "timeout"
        if number == _UNAVAILABLE or "unavailable" in said or "fail connecting" in said or "closed channel" in said:
            return "connection"
        if number == _MISSING:
            return "missing"
        return "bad_request" if number is not None else ""

    def _query(self, **asked: object) -> Vendor:
        return self.client.query(self.named, **asked, **self._wait)

    def _search(self, data: list[Vendor], field: str, k: int, scored: Vendor) -> list[list[EngineHit]]:
        found = self.client.search(
            self.named, data=data, anns_field=field, limit=k, filter=self.given.filter, output_fields=self._read,
            **self._wait,
        )  # fmt: skip
        return [in_order(self._hit(row, scored) for row in hits) for hits in found]

    def _hit(self, row: Vendor, scored: Vendor) -> EngineHit:
        # The primary key stands beside the other fields, under its own name.
        own = {key: row[key] for key in row if key not in ("entity", "distance")}
        return self.hit({**own, **(row.get("entity") or {})}, scored(float(row["distance"])))

    def _check_sparse(self) -> None:
        if self.client and self.given.sparse not in self._columns:
            raise EngineFault(
                "missing",
                f"the collection has no field {self.given.sparse!r} that a BM25 function fills; name it as sparse=…, "
                f"or search by mode=vector. Its fields are {', '.join(self._columns)}",
            )

    @classmethod
    def filled(cls, spec: Spec, name: str) -> Spec:
        """Milvus' names are letters, digits and underscores."""
        return super().filled(spec, re.sub(r"\W", "_", name, flags=re.ASCII))

    def there(self) -> tuple[Sequence[str], int] | None:
        """The schema's fields."""
        if self.named not in self.client.list_collections(**self._wait):
            return None
        fields = {str(row["name"]): row for row in self.client.describe_collection(self.named, **self._wait)["fields"]}
        self.client.load_collection(self.named, **self._wait)
        held = fields.get(self.names["vector"], {}).get("params", {})
        return list(fields), int(held.get("dim", 0))

    def create(self) -> None:
        """A collection whose words are indexed by a BM25 function, its vectors by HNSW, in Milvus Lite exactly."""
        client, names, kinds = self.client, self.names, self._pymilvus.DataType
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(names["id"], kinds.VARCHAR, is_primary=True, max_length=1_024)
        schema.add_field(names["document"], kinds.VARCHAR, max_length=1_024)
        schema.add_field(names["title"], kinds.VARCHAR, max_length=LONGEST)
        schema.add_field(
            names["text"], kinds.VARCHAR, max_length=LONGEST, enable_analyzer=True,
            # Milvus Lite has no stems and no list of stop words.
            analyzer_params={"tokenizer": "standard"} if self.local else {"type": "english"},
        )  # fmt: skip
        schema.add_field(self.given.sparse, kinds.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            self._pymilvus.Function(
                "bm25", self._pymilvus.FunctionType.BM25, input_field_names=[names["text"]],
                output_field_names=[self.given.sparse],
            )
        )  # fmt: skip
        index = client.prepare_index_params()
        index.add_index(self.given.sparse, index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        if self.dimensions:
            schema.add_field(names["vector"], kinds.FLOAT_VECTOR, dim=self.dimensions)
            kind = "FLAT" if self.local else "HNSW"
            index.add_index(names["vector"], index_type=kind, metric_type=METRICS[self.metric])
        client.create_collection(self.named, schema=schema, index_params=index, **self._wait)

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id.

        Raises:
            EngineFault: a text is longer than Milvus holds.
        """
        made: list[dict[str, object]] = []
        for row in rows:
            if (size := len(row.text.encode())) > LONGEST:
                raise EngineFault(
                    "too_large",
                    f"the text of {row.id!r} has {size:,} bytes; a field of Milvus' holds {LONGEST:,}. Cut the "
                    "passages smaller: `ragrounds index build --chunker`",
                )
            record = self.texts_of(row)
            if self.dimensions and row.vector is not None:
                record[self.names["vector"]] = row.vector.tolist()
            made.append(record)
        self.client.upsert(self.named, made, **self._wait)

    def end(self) -> int:
        """Write everything out; gives the number of records."""
        self.client.flush(self.named, **self._wait)
        self.client.load_collection(self.named, **self._wait)
        return self.count()

    def count(self) -> int:
        """The number of records, under the filter."""
        return int(self._query(filter=self.given.filter, output_fields=["count(*)"])[0]["count(*)"])


def _indexed_metric(client: Vendor, given: MilvusParameters) -> Metric | None:
    """The metric of the index over the vectors; ``None``: there is no such index."""
    for name in client.list_indexes(given.collection, given.vector):
        said = client.describe_index(given.collection, name, timeout=given.timeout) or {}
        for metric, called in METRICS.items():
            if str(said.get("metric_type", "")).upper() == called:
                return metric
    return None


MILVUS = external_retriever(
    MilvusEngine,
    name="milvus",
    summary="a collection of Milvus, or of Milvus Lite in this process: vectors, words (BM25), or both",
    example='milvus[url="http://HOST:19530",collection=passages,embed=MODEL]',
    library="pymilvus",
    caution="tried in its form inside this process, not on a real server",
    words={
        "path": "FILE.db of Milvus Lite, in this process, in place of a server's address",
        "collection": "the collection",
        "database": "the database of the server; by default its own",
        "sparse": "field that a BM25 function fills, for mode=text and hybrid",
        "filter": 'boolean expression of Milvus\': "year > 2015"',
        "key_env": "environment variable that holds the token: user:password, or an API key",
    },
)
