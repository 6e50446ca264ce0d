"""A Milvus collection as a corpus: ``milvus[url="http://HOST:19530",collection=passages,embed=MODEL]``, or
``milvus[path=FILE.db,…]``, the form that lives in this process (Milvus Lite).

``mode=vector`` searches the vector's field by the metric of its index; ``mode=text`` the sparse field that a BM25
function of the collection fills (``sparse=…``, from Milvus 2.5 on); ``mode=hybrid`` both. ``filter`` is a boolean
expression of Milvus': ``filter="meta[\\"year\\"] > 2015"``.

The key of a server, ``key_env=NAME``, is its token: ``user:password``, or an API key.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_engine import EngineFault, ExternalEngine, Found, Held, Vendor, paths_in, tops
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.external_parameters import ExternalParameters, Record, json_given
from ragrounds.tools.push import PushRow

METRICS: Mapping[Metric, str] = {"cosine": "COSINE", "ip": "IP", "l2": "L2"}
LONGEST = 65_535
"""Bytes that a field of Milvus' holds."""
_KINDS = {2: "connection", 8: "rate_limit", 100: "missing"}


class MilvusParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``milvus[…]`` takes."""

    filter: Annotated[str, 'boolean expression of Milvus\': "year > 2015"'] = ""
    key_env: Annotated[str, "environment variable that holds the token: user:password, or an API key"] = ""
    path: Annotated[str, "FILE.db of Milvus Lite, in this process, in place of a server's address"] = ""
    collection: Annotated[str, "the collection"] = "passages"
    database: Annotated[str, "the database of the server; by default its own"] = ""
    sparse: Annotated[str, "field that a BM25 function fills, for mode=text and hybrid"] = "sparse"
    options: Annotated[str, 'of the search by vectors, as JSON: {"ef": 200}'] = ""


class MilvusEngine(ExternalEngine):
    """One collection of a Milvus server, or of a file of Milvus Lite."""

    parameters = MilvusParameters
    given: MilvusParameters
    extra = "milvus"

    def __init__(self, given: ExternalParameters, spec: Spec, *, filling: bool = False) -> None:
        super().__init__(given, spec, filling=filling)
        if self.local and not self.address.endswith(".db"):
            raise UserError(f"Milvus Lite keeps its data in FILE.db: {safe(self.address, 200)!r} does not end so.")
        self._options = json_given(self.given.options, "options", self.name, '{"ef": 200}')
        self._columns: list[str] = []
        self._read: list[str] = []
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
        return pymilvus.MilvusClient(uri=self.address, token=self.key, db_name=self.given.database, **self._wait)

    def look(self, client: Vendor) -> Held | None:
        """The schema's fields, those of the first records, and by what the vectors are compared."""
        if self.named not in self.others(client):
            return None
        # A collection that nobody has loaded since the server began is not searched.
        client.load_collection(self.named, **self._wait)
        said = client.describe_collection(self.named, **self._wait)
        rows = {str(row["name"]): row for row in said["fields"]}
        self._columns = list(rows)
        self._read = tops(self.read, self._columns)
        if dynamic := said.get("enable_dynamic_field") is True:
            self._read = list(dict.fromkeys(name.split(".")[0] for name in self.read))
        first = client.query(self.named, filter="", limit=10, output_fields=["*"], **self._wait) if dynamic else []
        inside = (name for row in first for name in paths_in({**row, self.given.sparse: None}))
        indexed = [
            str((client.describe_index(self.named, name, **self._wait) or {}).get("metric_type", "")).upper()
            for name in client.list_indexes(self.named, self.given.vector)
        ]
        metric: Metric | None = next((one for one, called in METRICS.items() if called in indexed), None)
        dimensions = rows.get(self.given.vector, {}).get("params", {}).get("dim", 0)
        return Held(list(dict.fromkeys([*rows, *inside])), int(dimensions), metric)

    def others(self, client: Vendor) -> Iterable[str]:
        """All collections."""
        found: list[str] = client.list_collections(**self._wait)
        return found

    def count(self) -> int:
        """The number of records."""
        return int(self._query(filter=self.given.filter, output_fields=["count(*)"])[0]["count(*)"])

    def sample(self, count: int, most: int) -> Iterable[tuple[str, str]]:
        """All records, or the first by the primary key."""
        read = tops([self.given.id, self.given.text], self._read)
        asked = {"filter": self.given.filter, "limit": most, "output_fields": read}
        if count <= most:
            return map(self.row_of, self._query(**asked))
        pages = self.client.query_iterator(self.named, batch_size=1_000, **asked, **self._wait)
        rows: list[Record] = []
        while len(rows) < most and (page := pages.next()):
            rows += page
        pages.close()
        return map(self.row_of, rows[:most])

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[Found]]:
        """For each vector the `k` nearest records."""
        sign = -1.0 if self.metric == "l2" else 1.0
        near = self._search([row.tolist() for row in vectors], self.given.vector, k, params=self._options)
        return [[(record, sign * score) for record, score in one] for one in near]

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[Found]]:
        """For each query the `k` best records by BM25."""
        if self.given.sparse not in self._columns:
            raise EngineFault(
                "missing",
                f"the collection has no field {self.given.sparse!r} that a BM25 function fills; name it as sparse=…, "
                f"or search by mode=vector. Its fields are {', '.join(self._columns)}",
            )
        # Milvus gives BM25's scores, Milvus Lite 3.2 gives them with a minus sign; they are never below 0.
        found = self._search(list(queries), self.given.sparse, k)
        return [[(record, abs(score)) for record, score in one] for one in found]

    def records(self, document: str) -> Sequence[Record]:
        """The records of a document."""
        name = self.given.document
        if "." in name or name not in self._read:
            return []
        wanted = document.replace("\\", "\\\\").replace('"', '\\"')
        found: list[Record] = self._query(filter=f'{name} == "{wanted}"', output_fields=self._read, limit=10_000)
        return found

    def fault(self, error: Exception) -> str:
        """By Milvus' codes; those of its transport stand in the message."""
        code, said = getattr(error, "code", None), str(error).casefold()
        if "unauthenticated" in said or "auth check failure" in said or "permission deny" in said:
            return "auth"
        if code != 8 and ("deadline_exceeded" in said or "timeout" in said):
            return "timeout"
        if "unavailable" in said or "fail connecting" in said or "closed channel" in said:
            return "connection"
        return _KINDS.get(code, "bad_request") if isinstance(code, int) else ""

    def _query(self, **asked: object) -> Vendor:
        return self.client.query(self.named, **asked, **self._wait)

    def _search(self, data: list[Vendor], field: str, k: int, **more: object) -> list[list[Found]]:
        found = self.client.search(
            self.named, data=data, anns_field=field, limit=k, filter=self.given.filter, output_fields=self._read,
            search_params=more, **self._wait,
        )  # fmt: skip
        # The primary key stands beside the other fields, under its own name.
        return [[({**row, **row.get("entity", {})}, float(row["distance"])) for row in hits] for hits in found]

    @classmethod
    def filled(cls, spec: Spec, name: str) -> Spec:
        """Milvus' names are letters, digits and underscores."""
        return super().filled(spec, re.sub(r"\W", "_", name, flags=re.ASCII))

    def create(self) -> None:
        """A collection whose words are indexed by a BM25 function, its vectors by HNSW, in Milvus Lite exactly."""
        client, names, kinds = self.client, self.names, self._pymilvus.DataType
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(names["id"], kinds.VARCHAR, is_primary=True, max_length=1_024)
        schema.add_field(names["document"], kinds.VARCHAR, max_length=1_024)
        schema.add_field(names["title"], kinds.VARCHAR, max_length=LONGEST)
        # Milvus Lite has no stems and no list of stop words.
        words = {"tokenizer": "standard"} if self.local else {"type": "english"}
        schema.add_field(names["text"], kinds.VARCHAR, max_length=LONGEST, enable_analyzer=True, analyzer_params=words)
        schema.add_field(self.given.sparse, kinds.SPARSE_FLOAT_VECTOR)
        made = {"input_field_names": [names["text"]], "output_field_names": [self.given.sparse]}
        schema.add_function(self._pymilvus.Function("bm25", self._pymilvus.FunctionType.BM25, **made))
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
        for row in rows:
            if (size := len(row.text.encode())) > LONGEST:
                raise EngineFault(
                    "too_large",
                    f"the text of {row.id!r} has {size:,} bytes; a field of Milvus' holds {LONGEST:,}. Cut the "
                    "passages smaller: `ragrounds index build --chunker`",
                )
        vectors = [{} if row.vector is None else {self.names["vector"]: row.vector.tolist()} for row in rows]
        made = [{**self.texts_of(row), **vector} for row, vector in zip(rows, vectors, strict=True)]
        self.client.upsert(self.named, made, **self._wait)

    def finish(self) -> None:
        """Write everything out."""
        self.client.flush(self.named, **self._wait)
        self.client.load_collection(self.named, **self._wait)


MILVUS = external_retriever(
    MilvusEngine,
    name="milvus",
    summary="a collection of Milvus, or of Milvus Lite in this process: vectors, words (BM25), or both",
    example='milvus[url="http://HOST:19530",collection=passages,embed=MODEL]',
    library="pymilvus",
    caution="tried in its form inside this process, not on a real server",
)
