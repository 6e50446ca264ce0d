"""A LanceDB table as a corpus: ``lancedb[path=FOLDER,table=passages,embed=MODEL]``.

``path`` is a folder or an object store's address (``s3://bucket/folder``) and is read in this process, by many readers
at the same time. ``mode=text`` searches the words of the text's field by BM25 (LanceDB's own full-text index; a table
without one is read through at every search), ``mode=vector`` the vectors, ``mode=hybrid`` both. ``filter`` is a
condition of SQL: ``filter="meta.year > 2015"``; what it leaves out is never searched.

A vector's score is the cosine or the inner product, or the squared distance with a minus sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_engine import (
    EngineFault,
    EngineHit,
    EngineSample,
    ExternalEngine,
    Vendor,
    in_order,
    query_metric,
    tops,
)
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.external_parameters import ExternalParameters, Record, text_of
from ragrounds.tools.push import PushRow

_DISTANCES: Mapping[Metric, str] = {"cosine": "cosine", "ip": "dot", "l2": "l2"}
_METRICS: Mapping[str, Metric] = {"cosine": "cosine", "dot": "ip", "l2": "l2"}
_MARKS = ("_distance", "_score", "query_index")
"""What LanceDB adds to a row."""
SCANNED = 100_000
"""Vectors up to which a table is searched exactly, without an index over them."""


class LanceParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``lancedb[…]`` takes."""

    path: str = ""
    table: str = "passages"
    nprobes: int = 0
    refine: int = 0


class LanceEngine(ExternalEngine):
    """One table of a LanceDB database; an absent folder is an empty one."""

    parameters = LanceParameters
    given: LanceParameters
    place = "table"
    extra = "lancedb"
    _table: Vendor = None

    def connect(self) -> Vendor:
        """The database."""
        import lancedb
        import pyarrow
        from lancedb.index import FTS
        from lancedb.query import MatchQuery

        self._arrow: Vendor = pyarrow
        self._matching, self._full_text = MatchQuery, FTS
        return lancedb.connect(self.address)

    def release(self, client: Vendor) -> None:
        """Nothing is held but open files, which go with the table."""
        self._table = None

    def look(self, client: Vendor) -> None:
        """The table's columns, and by what its vectors are compared."""
        self.check_named(_tables(client))
        self._table = client.open_table(self.named)
        # Of a dotted name the whole object is read.
        self._read = tops(self.read(), [field.name for field in self._table.schema])
        self.metric = self.given.metric or self._indexed_metric() or query_metric(self.given)

    def _opened(self) -> Vendor:
        """The table."""
        if self.client is not None and self._table is None:
            self._table = self.client.open_table(self.named)
        return self._table

    def _indexed_metric(self) -> Metric | None:
        for index in self._table.list_indices():
            if list(index.columns) == [self.map.vector] and (known := self._table.index_stats(index.name)):
                return _METRICS.get(str(known.distance_type or "").lower())
        return None

    def fields(self) -> Sequence[str]:
        """The columns, and the fields of those that are objects, with dots."""
        return [name for field in self._opened().schema for name in _names(field, "")]

    def sample(self, most: int) -> EngineSample:
        """The number of rows, and ids and texts: of all, or of the first, with the version that LanceDB gives a table
        at its every change."""
        table = self._opened()
        count = table.count_rows(self.given.filter or None)
        asked = table.search().select(tops([self.map.id, self.map.text], self._read)).limit(most)
        rows = map(self.row_of, self._kept(asked).to_list())
        return EngineSample(count, tuple(rows), "" if count <= most else str(table.version))

    def _kept(self, asked: Vendor) -> Vendor:
        """A query with the filter."""
        return asked.where(self.given.filter) if self.given.filter else asked

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest rows."""
        asked = self._opened().search([row.tolist() for row in vectors], vector_column_name=self.map.vector)
        asked = asked.distance_type(_DISTANCES[self.metric]).select([*self._read, "_distance"]).limit(k)
        if self.given.nprobes:
            asked = asked.nprobes(self.given.nprobes)
        if self.given.refine:
            asked = asked.refine_factor(self.given.refine)
        found: list[list[EngineHit]] = [[] for _ in vectors]
        one = 0.0 if self.metric == "l2" else 1.0  # LanceDB's distances are 1 - product, or squared distances
        for row in self._kept(asked).to_list():
            found[row.get("query_index", 0)].append(self._hit(row, one - row["_distance"]))
        return [in_order(hits) for hits in found]

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best rows by BM25; nothing in a query is read as an operator."""
        found = []
        for query in queries:
            asked = self._opened().search(self._matching(query, self.map.text), query_type="fts")
            rows = self._kept(asked.select([*self._read, "_score"]).limit(k)).to_list()
            found.append(in_order(self._hit(row, row["_score"]) for row in rows))
        return found

    def records(self, document: str) -> list[Record]:
        """The rows of a document, by id."""
        table = self._opened()
        if not tops([self.map.document], self._read):
            return []
        wanted = document.replace("'", "''")
        rows: list[Record] = table.search().where(f"{self.map.document} = '{wanted}'").select(self._read).to_list()
        return sorted(rows, key=lambda row: text_of(row, self.map.id))

    def fault(self, error: Exception) -> str:
        """By what the message says: LanceDB tells what is wrong with a question as a ValueError, and the rest as an
        error of the system or of its runtime."""
        said = str(error).casefold()
        if "timed out" in said or "timeout" in said:
            return "timeout"
        if isinstance(error, OSError) or "connect" in said or "dns error" in said:
            return "connection"
        return "bad_request" if isinstance(error, ValueError | RuntimeError) else ""

    def _hit(self, row: dict[str, Vendor], score: float) -> EngineHit:
        return self.hit({name: value for name, value in row.items() if name not in _MARKS}, score)

    def there(self) -> tuple[Sequence[str], int] | None:
        """The table's columns."""
        if self.named not in _tables(self.client):
            return None
        found = {field.name: field.type for field in self._opened().schema}
        return list(found), getattr(found.get(self.names["vector"]), "list_size", 0)

    def create(self) -> None:
        """A table with texts and vectors."""
        database, pa = self.client, self._arrow
        columns = [(self.names[one], pa.string()) for one in ("id", "document", "title", "text")]
        if self.dimensions:
            columns.append((self.names["vector"], pa.list_(pa.float32(), self.dimensions)))
        self._table = database.create_table(self.named, schema=pa.schema(columns))

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id."""
        table, pa = self._opened(), self._arrow
        columns = {
            self.names[one]: pa.array([getattr(row, one) for row in rows], pa.string())
            for one in ("id", "document", "title", "text")
        }
        if self.dimensions:
            flat = np.concatenate([_vector(row) for row in rows])
            columns[self.names["vector"]] = pa.FixedSizeListArray.from_arrays(pa.array(flat), self.dimensions)
        merge = table.merge_insert(self.names["id"]).when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.table(columns))

    def end(self) -> int:
        """Index the words, and the vectors of more than :data:`SCANNED` passages; gives the number of rows."""
        table = self._opened()
        table.optimize()  # many small batches are put together
        table.create_index(self.names["text"], config=self._full_text(), replace=True)
        count = self.count()
        if self.dimensions and count > SCANNED:
            table.create_index(
                _DISTANCES[self.metric], vector_column_name=self.names["vector"], index_type="IVF_HNSW_SQ"
            )
        return count

    def count(self) -> int:
        """The number of rows."""
        return int(self._opened().count_rows())


def _tables(database: Vendor) -> list[str]:
    """The names of all tables."""
    found: list[str] = []
    page: str | None = None
    while True:
        answer = database.list_tables(page_token=page, limit=1_000)
        found += answer.tables
        page = answer.page_token
        if not page:
            return found


def _names(field: Vendor, before: str) -> list[str]:
    """A column's name, and with dots those of the fields inside it."""
    inside = getattr(field.type, "fields", None) or []
    return [f"{before}{field.name}", *(name for one in inside for name in _names(one, f"{before}{field.name}."))]


def _vector(row: PushRow) -> Vectors:
    if row.vector is None:
        raise EngineFault("malformed", f"the passage {row.id!r} has no vector")
    return row.vector


LANCEDB = external_retriever(
    LanceEngine,
    name="lancedb",
    summary="a table of LanceDB, in this process: vectors, words (BM25), or both",
    example="lancedb[path=FOLDER,table=passages,embed=MODEL]",
    library="lancedb",
    cost="a search of LanceDB in this process; with vectors, the model once for each query",
    words={
        "path": "folder of the database, or an object store's address such as s3://bucket/folder",
        "table": "the table",
        "nprobes": "parts of an IVF index that are looked through; 0: LanceDB's choice",
        "refine": "candidates for each hit, ranked again by whole vectors; 0: none",
        "filter": 'condition in SQL: "meta.year > 2015"',
    },
)
