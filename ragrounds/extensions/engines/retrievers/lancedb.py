"""Retriever ``lancedb``: a LanceDB table as a corpus, ``lancedb[path=FOLDER,table=passages,embed=MODEL]``.

``path`` is a folder or an object store's address (``s3://bucket/folder``) and is read in this process, by many readers
at the same time. ``mode=text`` searches the words of the text's field by BM25 (LanceDB's own full-text index; a table
without one is read through at every search), ``mode=vector`` the vectors, ``mode=hybrid`` both. ``filter`` is a
condition of SQL: ``filter="meta.year > 2015"``; excluded rows are never searched.

A vector's score is the cosine or the inner product, or the squared distance with a minus sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.extensions.engines.external_engine import CollectionDescription, ExternalEngine, ScoredRecord, Vendor
from ragrounds.extensions.engines.external_index import external_retriever
from ragrounds.extensions.engines.external_parameters import ExternalParameters, Record, parse_json_object
from ragrounds.tools.index.embedders import Metric, Vectors

_DISTANCES: Mapping[Metric, str] = {"cosine": "cosine", "ip": "dot", "l2": "l2"}
_OPTIONS = ("nprobes", "refine_factor", "ef")


class LanceParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of ``lancedb[…]``."""

    filter: Annotated[str, 'condition in SQL: "meta.year > 2015"'] = ""
    path: Annotated[str, "folder of the database, or an object store's address such as s3://bucket/folder"] = ""
    table: Annotated[str, "the table"] = "passages"
    options: Annotated[str, f"of the search by vectors, as JSON: {', '.join(_OPTIONS)}"] = ""


class LanceEngine(ExternalEngine):
    """Engine over one table of a LanceDB database; an absent folder is an empty database."""

    parameters = LanceParameters
    options: LanceParameters
    location_parameter = "table"
    extra = "lancedb"
    _table: Vendor = None

    def __init__(self, options: ExternalParameters, spec: Spec) -> None:
        super().__init__(options, spec)
        self._options = parse_json_object(
            self.options.options, "options", self.name, '{"nprobes": 20, "refine_factor": 5}'
        )
        if wrong := set(self._options) - {*_OPTIONS}:
            raise UserError(f"lancedb has no option {min(wrong)!r}: expected some of {', '.join(_OPTIONS)}.")

    def connect(self) -> Vendor:
        """Open the database."""
        import lancedb

        return lancedb.connect(self.address)

    def release(self, client: Vendor) -> None:
        """Release the table; it has only open files."""
        self._table = None

    def describe(self, client: Vendor) -> CollectionDescription | None:
        """Return the table's columns, with those inside objects, and the metric of its vectors."""
        if self.collection_name not in self.existing_names(client):
            return None
        table = self._table = client.open_table(self.collection_name)
        # For a dotted name the whole object is read.
        self._read = _top_level_columns(self.read_fields, [field.name for field in table.schema])
        metrics = {name: metric for metric, name in _DISTANCES.items()}
        statistics = [
            table.index_stats(index.name)
            for index in table.list_indices()
            if list(index.columns) == [self.options.vector]
        ]
        index_metrics = [
            str(index_statistics.distance_type or "").lower() for index_statistics in statistics if index_statistics
        ]
        return CollectionDescription(
            [name for field in table.schema for name in _names(field, "")],
            metrics.get(index_metrics[0]) if index_metrics else None,
        )

    def existing_names(self, client: Vendor) -> Iterable[str]:
        """Return the names of all tables."""
        tables: list[str] = []
        page: str | None = None
        while True:
            answer = client.list_tables(page_token=page, limit=1_000)
            tables += answer.tables
            page = answer.page_token
            if not page:
                return tables

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._table.count_rows(self.options.filter or None))

    def sample(self, count: int, limit: int) -> Iterable[tuple[str, str]]:
        """Yield all rows, or the first rows and the version number that LanceDB increments with every change."""
        query = (
            self._table.search()
            .select(_top_level_columns([self.options.id, self.options.text], self._read))
            .limit(limit)
        )
        yield from map(self.row_of, self._filtered(query))
        if count > limit:
            yield "", str(self._table.version)

    def _filtered(self, query: Vendor) -> list[dict[str, Vendor]]:
        """Return the rows of a query, under the filter."""
        rows: list[dict[str, Vendor]] = (query.where(self.options.filter) if self.options.filter else query).to_list()
        return rows

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Return the `k` nearest rows for each vector."""
        query = self._table.search([row.tolist() for row in vectors], vector_column_name=self.options.vector)
        query = query.distance_type(_DISTANCES[self.metric]).select([*self._read, "_distance"]).limit(k)
        for name, value in self._options.items():
            query = getattr(query, name)(value)
        rows_by_query: list[list[ScoredRecord]] = [[] for _ in vectors]
        offset = 0.0 if self.metric == "l2" else 1.0  # LanceDB's distances are 1 - product, or squared distances
        for row in self._filtered(query):
            rows_by_query[row.get("query_index", 0)].append((row, offset - row["_distance"]))
        return rows_by_query

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Yield the `k` best rows by BM25 for each query; nothing in a query is read as an operator."""
        from lancedb.query import MatchQuery

        for query in queries:
            search_query = self._table.search(MatchQuery(query, self.options.text), query_type="fts")
            yield [
                (row, row["_score"]) for row in self._filtered(search_query.select([*self._read, "_score"]).limit(k))
            ]

    def records(self, document: str) -> Sequence[Record]:
        """Return the rows of a document."""
        if not _top_level_columns([self.options.document], self._read):
            return []
        escaped = document.replace("'", "''")
        rows: list[Record] = (
            self._table.search().where(f"{self.options.document} = '{escaped}'").select(self._read).to_list()
        )
        return rows

    def fault(self, error: Exception) -> str:
        """Return the kind of an error by its message.

        LanceDB raises a ValueError for a wrong query, and other errors as OSError or RuntimeError.
        """
        message = str(error).casefold()
        if "timed out" in message or "timeout" in message:
            return "timeout"
        if isinstance(error, OSError) or "connect" in message or "dns error" in message:
            return "connection"
        return "bad_request" if isinstance(error, ValueError | RuntimeError) else ""


def _top_level_columns(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the columns that contain the fields, each once: the exact name, or the part before its first dot."""
    top_names = (name if name in columns else name.split(".")[0] for name in names)
    return list(dict.fromkeys(column for column in top_names if column in columns))


def _names(field: Vendor, prefix: str) -> list[str]:
    """Return a column's name, and the dotted names of the fields inside it."""
    inside = getattr(field.type, "fields", None) or []
    return [f"{prefix}{field.name}", *(name for child in inside for name in _names(child, f"{prefix}{field.name}."))]


LANCEDB = external_retriever(
    LanceEngine,
    name="lancedb",
    summary="a table of LanceDB, in this process: vectors, words (BM25), or both",
    example="lancedb[path=FOLDER,table=passages,embed=MODEL]",
    library="lancedb",
    cost="a search of LanceDB in this process; with vectors, the model once for each query",
)
