"""A LanceDB table as a corpus: ``lancedb[path=FOLDER,table=passages,embed=MODEL]``.

``path`` is a folder or an object store's address (``s3://bucket/folder``) and is read in this process, by many readers
at the same time. ``mode=text`` searches the words of the text's field by BM25 (LanceDB's own full-text index; a table
without one is read through at every search), ``mode=vector`` the vectors, ``mode=hybrid`` both. ``filter`` is a
condition of SQL: ``filter="meta.year > 2015"``; what it leaves out is never searched.

A vector's score is the cosine or the inner product, or the squared distance with a minus sign.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from ragrounds.errors import UserError, nearest
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.engine_hits import flat_fields, hit_id, in_order, query_metric, tops
from ragrounds.tools.external_index import EngineFault, EngineHit, EngineSample, ExternalEngine, ExternalSearcher
from ragrounds.tools.external_parameters import (
    ExternalParameters,
    Record,
    check_url,
    external_parameters,
    read_parameters,
    text_of,
)
from ragrounds.tools.push import PushRow, PushWay
from ragrounds.tools.retriever import Retriever, SearchedCorpora

_DISTANCES: Mapping[Metric, str] = {"cosine": "cosine", "ip": "dot", "l2": "l2"}
_METRICS: Mapping[str, Metric] = {"cosine": "cosine", "dot": "ip", "l2": "l2"}
_MARKS = ("_distance", "_score", "query_index")
"""What LanceDB adds to a row."""
SCANNED = 100_000
"""Vectors up to which a table is searched exactly, without an index over them."""
Row = dict[str, object]


class LanceParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``lancedb[…]`` takes."""

    path: str = ""
    table: str = "passages"
    nprobes: int = 0
    refine: int = 0


class LanceQuery(Protocol):
    """LanceDB's builder of a query."""

    select: Callable[..., LanceQuery]
    limit: Callable[..., LanceQuery]
    where: Callable[..., LanceQuery]
    distance_type: Callable[..., LanceQuery]
    nprobes: Callable[..., LanceQuery]
    refine_factor: Callable[..., LanceQuery]
    to_list: Callable[..., list[Row]]


class LanceField(Protocol):
    """A column as Arrow describes it."""

    name: str
    type: object


class LanceIndex(Protocol):
    """What LanceDB says of an index."""

    name: str
    columns: Sequence[str]
    distance_type: str | None


class LanceTable(Protocol):
    """LanceDB's table, as far as it is used here."""

    schema: Sequence[LanceField]
    version: int
    search: Callable[..., LanceQuery]
    take_offsets: Callable[..., LanceQuery]
    count_rows: Callable[..., int]
    list_indices: Callable[..., Sequence[LanceIndex]]
    index_stats: Callable[..., LanceIndex | None]
    merge_insert: Callable[..., LanceMerge]
    create_index: Callable[..., None]
    optimize: Callable[..., object]


class LanceMerge(Protocol):
    """LanceDB's builder of an upsert."""

    when_matched_update_all: Callable[..., LanceMerge]
    when_not_matched_insert_all: Callable[..., LanceMerge]
    execute: Callable[..., object]


class LanceDatabase(Protocol):
    """LanceDB's connection, as far as it is used here."""

    open_table: Callable[..., LanceTable]
    create_table: Callable[..., LanceTable]
    list_tables: Callable[..., LanceTables]


class LanceTables(Protocol):
    """A page of names."""

    tables: list[str]
    page_token: str | None


class LanceEngine(ExternalEngine):
    """One table of a LanceDB database."""

    def __init__(self, given: LanceParameters) -> None:
        """Nothing is opened before the first call."""
        self._given = given
        self._fields = given.fields
        self._opening = threading.Lock()
        self._held: LanceTable | None = None
        self._metric: Metric = given.metric or "cosine"
        self._read: list[str] = []

    def _table(self) -> LanceTable:
        """The table, opened once.

        Raises:
            UserError: there is no such folder or table: names the tables there are.
        """
        with self._opening:
            if self._held is None:
                table = open_lance_table(self._given)
                columns = [field.name for field in table.schema]
                named = self._fields
                # Vectors are never sent along; of a dotted name the whole object is read.
                self._read = tops([named.id, named.text, named.title, named.document], columns)
                self._metric = self._given.metric or _indexed_metric(table, named.vector) or query_metric(self._given)
                self._held = table
            return self._held

    def fields(self) -> Sequence[str]:
        """The columns, and the fields of those that are objects, with dots."""
        return [name for field in self._table().schema for name in _names(field, "")]

    def sample(self, most: int) -> EngineSample:
        """The number of rows, and ids and texts: of all, or of the first, with the version that LanceDB gives a table
        at its every change."""
        where, fields = self._given.filter, self._fields
        table = self._table()
        count = table.count_rows(where or None)
        asked = table.search().select(tops([fields.id, fields.text], self._read)).limit(most)
        rows = (asked.where(where) if where else asked).to_list()
        texts = tuple((hit_id(row, fields.id, fields.text), text_of(row, fields.text)) for row in rows)
        return EngineSample(count, texts, "" if count <= most else str(table.version))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest rows."""
        asked = self._table().search([row.tolist() for row in vectors], vector_column_name=self._fields.vector)
        asked = asked.distance_type(_DISTANCES[self._metric]).select([*self._read, "_distance"]).limit(k)
        if self._given.nprobes:
            asked = asked.nprobes(self._given.nprobes)
        if self._given.refine:
            asked = asked.refine_factor(self._given.refine)
        if self._given.filter:
            asked = asked.where(self._given.filter)
        found: list[list[EngineHit]] = [[] for _ in vectors]
        one = 0.0 if self._metric == "l2" else 1.0  # LanceDB's distances are 1 - product, or squared distances
        for row in asked.to_list():
            found[int(str(row.get("query_index", 0)))].append(self._hit(row, one - float(str(row["_distance"]))))
        return [in_order(hits) for hits in found]

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best rows by BM25; nothing in a query is read as an operator."""
        from lancedb.query import MatchQuery

        found = []
        for query in queries:
            asked = self._table().search(MatchQuery(query, self._fields.text), query_type="fts")
            asked = asked.select([*self._read, "_score"]).limit(k)
            if self._given.filter:
                asked = asked.where(self._given.filter)
            found.append(in_order(self._hit(row, float(str(row["_score"]))) for row in asked.to_list()))
        return found

    def records(self, document: str) -> list[Record]:
        """The rows of a document, by id."""
        table = self._table()
        if not tops([self._fields.document], self._read):
            return []
        wanted = document.replace("'", "''")
        asked = table.search().where(f"{self._fields.document} = '{wanted}'").select(self._read)
        return sorted(asked.to_list(), key=lambda row: text_of(row, self._fields.id))

    def fault(self, error: Exception) -> str:
        """By what the message says: LanceDB has no errors of its own."""
        return lance_fault(error)

    def close(self) -> None:
        """Nothing is held but open files, which go with the table."""
        self._held = None

    def _hit(self, row: Row, score: float) -> EngineHit:
        record = {name: value for name, value in row.items() if name not in _MARKS}
        return EngineHit(hit_id(record, self._fields.id, self._fields.text), score, record)


def lance_fault(error: Exception) -> str:
    """The kind of an error of LanceDB's, which tells what is wrong with a question as a ValueError, and the rest as an
    error of the system or of its runtime."""
    said = str(error).casefold()
    if "timed out" in said or "timeout" in said:
        return "timeout"
    if isinstance(error, OSError) or "connect" in said or "dns error" in said:
        return "connection"
    return "bad_request" if isinstance(error, ValueError | RuntimeError) else ""


def open_lance_table(given: LanceParameters) -> LanceTable:
    """Open the table that a spec names.

    Raises:
        UserError: LanceDB is not installed; or there is no such folder or table: names the tables there are.
    """
    database = lance_database(given.path)
    names = lance_tables(database)
    if given.table not in names:
        held = ", ".join(safe(name, 60) for name in names[:20]) or "none"
        raise UserError(
            f"{safe(given.path, 200)!r} has no table {given.table!r}.{nearest(given.table, names)} Its tables: {held}."
        )
    return database.open_table(given.table)


def _indexed_metric(table: LanceTable, column: str) -> Metric | None:
    """The metric that a column of vectors is indexed by; ``None``: it is not."""
    for index in table.list_indices():
        if list(index.columns) == [column] and (known := table.index_stats(index.name)):
            return _METRICS.get(str(known.distance_type or "").lower())
    return None


def lance_database(path: str) -> LanceDatabase:
    """Connect to a LanceDB database; an absent folder is an empty one.

    Raises:
        UserError: LanceDB is not installed, or no place was given.
    """
    if not path:
        raise UserError("lancedb needs the folder of its database: lancedb[path=FOLDER,table=NAME].")
    if "://" in path:
        check_url(path, "lancedb")
    try:
        import lancedb
    except ImportError:
        raise UserError("lancedb needs LanceDB's client: install ragrounds[lancedb].") from None
    made: LanceDatabase = lancedb.connect(path if "://" in path else str(Path(path).expanduser()))
    return made


def lance_tables(database: LanceDatabase) -> list[str]:
    """The names of all tables, in alphabetical order."""
    found: list[str] = []
    page: str | None = None
    while True:
        answer = database.list_tables(page_token=page, limit=1_000)
        found += answer.tables
        page = answer.page_token
        if not page:
            return sorted(found)


def _names(field: LanceField, before: str) -> list[str]:
    """A column's name, and with dots those of the fields inside it."""
    inside = getattr(field.type, "fields", None) or []
    return [f"{before}{field.name}", *(name for one in inside for name in _names(one, f"{before}{field.name}."))]


class LancePush:
    """Brings passages into a table: see :class:`ragrounds.tools.push.PushTarget`."""

    def __init__(self, given: LanceParameters) -> None:
        self._given = given
        self._names = flat_fields(given.fields, "lancedb")
        self._database = lance_database(given.path)
        self._table: LanceTable | None = None
        self._metric: Metric = "cosine"
        self._dimensions = 0

    def begin(self, dimensions: int, metric: Metric) -> int:
        """Make the table where it is not there; see :meth:`ragrounds.tools.push.PushTarget.begin`."""
        import pyarrow as pa

        self._metric, self._dimensions = metric, dimensions
        if self._given.table not in lance_tables(self._database):
            columns = [(self._names[one], pa.string()) for one in ("id", "document", "title", "text")]
            if dimensions:
                columns.append((self._names["vector"], pa.list_(pa.float32(), dimensions)))
            self._table = self._database.create_table(self._given.table, schema=pa.schema(columns))
            return 0
        self._table = self._database.open_table(self._given.table)
        found = {field.name: field.type for field in self._table.schema}
        wanted = [name for one, name in self._names.items() if one != "vector" or dimensions]
        if absent := [name for name in wanted if name not in found]:
            raise UserError(
                f"The table {self._given.table!r} of {safe(self._given.path, 200)!r} has no column {absent[0]!r}; its "
                f"columns are {', '.join(found)}. Name another table, or the columns: lancedb[text=…,title=…]."
            )
        if dimensions and (held := getattr(found[self._names["vector"]], "list_size", None)) != dimensions:
            raise UserError(
                f"The vectors of {self._given.table!r} have {held} dimensions, these {dimensions}: name another table."
            )
        return self._table.count_rows()

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id."""
        import pyarrow as pa

        columns: dict[str, object] = {
            self._names[one]: pa.array([getattr(row, one) for row in rows], pa.string())
            for one in ("id", "document", "title", "text")
        }
        if self._dimensions:
            flat = np.concatenate([_vector(row) for row in rows])
            columns[self._names["vector"]] = pa.FixedSizeListArray.from_arrays(pa.array(flat), self._dimensions)
        merge = self._opened().merge_insert(self._names["id"]).when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.table(columns))

    def end(self) -> int:
        """Index the words, and the vectors of more than :data:`SCANNED` passages; gives the number of rows."""
        from lancedb.index import FTS

        table = self._opened()
        table.optimize()  # many small batches are put together
        table.create_index(self._names["text"], config=FTS(), replace=True)
        count = table.count_rows()
        if self._dimensions and count > SCANNED:
            table.create_index(
                _DISTANCES[self._metric], vector_column_name=self._names["vector"], index_type="IVF_HNSW_SQ"
            )
        return count

    def fault(self, error: Exception) -> str:
        """As :meth:`LanceEngine.fault`."""
        return lance_fault(error)

    def close(self) -> None:
        """Nothing is held but open files."""
        self._table = None

    def _opened(self) -> LanceTable:
        if self._table is None:
            self._table = open_lance_table(self._given)
        return self._table


def _vector(row: PushRow) -> Vectors:
    if row.vector is None:
        raise EngineFault("malformed", f"the passage {row.id!r} has no vector")
    return row.vector


def _given(spec: Spec, name: str) -> LanceParameters:
    """The parameters of a push; without a table, one of the index' name."""
    return read_parameters(_searched(spec, name), LanceParameters, searching=False)


def _searched(spec: Spec, name: str) -> Spec:
    return spec if "table" in spec.parameters else spec.having(table=name)


def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
    given = read_parameters(spec, LanceParameters)
    return ExternalSearcher(spec, corpora.names or given.table, given, LanceEngine(given))


LANCEDB = Retriever(
    name="lancedb",
    summary="a table of LanceDB, in this process: vectors, words (BM25), or both",
    example="lancedb[path=FOLDER,table=passages,embed=MODEL]",
    open=_open,
    parameters=external_parameters(
        LanceParameters,
        path="folder of the database, or an object store's address such as s3://bucket/folder",
        table="the table",
        nprobes="parts of an IVF index that are looked through; 0: LanceDB's choice",
        refine="candidates for each hit, ranked again by whole vectors; 0: none",
        filter='condition in SQL: "meta.year > 2015"',
    ),
    cost="a search of LanceDB in this process; with vectors, the model once for each query",
    extra="lancedb",
    library="lancedb",
    own_corpus=True,
    push=PushWay(open=lambda spec, name: LancePush(_given(spec, name)), searched=_searched, address="path"),
)
