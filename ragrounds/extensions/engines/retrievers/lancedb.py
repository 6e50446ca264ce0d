"""A LanceDB table as a corpus: ``lancedb[path=FOLDER,table=passages,embed=MODEL]``.

``path`` is a folder or an object store's address (``s3://bucket/folder``) and is read in this process, by many readers
at the same time. ``mode=text`` searches the words of the text's field by BM25 (LanceDB's own full-text index; a table
without one is read through at every search), ``mode=vector`` the vectors, ``mode=hybrid`` both. ``filter`` is a
condition of SQL: ``filter="meta.year > 2015"``; what it leaves out is never searched.

A vector's score is the cosine or the inner product, or the squared distance with a minus sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.extensions.engines.external_engine import ExternalEngine, Found, Held, Vendor
from ragrounds.extensions.engines.external_index import external_retriever
from ragrounds.extensions.engines.external_parameters import ExternalParameters, Record, json_given
from ragrounds.tools.index.embedders import Metric, Vectors

_DISTANCES: Mapping[Metric, str] = {"cosine": "cosine", "ip": "dot", "l2": "l2"}
_OPTIONS = ("nprobes", "refine_factor", "ef")


class LanceParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``lancedb[…]`` takes."""

    filter: Annotated[str, 'condition in SQL: "meta.year > 2015"'] = ""
    path: Annotated[str, "folder of the database, or an object store's address such as s3://bucket/folder"] = ""
    table: Annotated[str, "the table"] = "passages"
    options: Annotated[str, f"of the search by vectors, as JSON: {', '.join(_OPTIONS)}"] = ""


class LanceEngine(ExternalEngine):
    """One table of a LanceDB database; an absent folder is an empty one."""

    parameters = LanceParameters
    given: LanceParameters
    place = "table"
    extra = "lancedb"
    _table: Vendor = None

    def __init__(self, given: ExternalParameters, spec: Spec) -> None:
        super().__init__(given, spec)
        self._options = json_given(self.given.options, "options", self.name, '{"nprobes": 20, "refine_factor": 5}')
        if wrong := set(self._options) - {*_OPTIONS}:
            raise UserError(f"lancedb has no option {min(wrong)!r}: expected some of {', '.join(_OPTIONS)}.")

    def connect(self) -> Vendor:
        """The database."""
        import lancedb

        return lancedb.connect(self.address)

    def release(self, client: Vendor) -> None:
        """Nothing is held but open files, which go with the table."""
        self._table = None

    def look(self, client: Vendor) -> Held | None:
        """The table's columns, with those of objects inside, and by what its vectors are compared."""
        if self.named not in self.others(client):
            return None
        table = self._table = client.open_table(self.named)
        # Of a dotted name the whole object is read.
        self._read = _tops(self.read, [field.name for field in table.schema])
        metrics = {called: metric for metric, called in _DISTANCES.items()}
        said = [table.index_stats(one.name) for one in table.list_indices() if list(one.columns) == [self.given.vector]]
        indexed = [str(one.distance_type or "").lower() for one in said if one]
        return Held(
            [name for field in table.schema for name in _names(field, "")],
            metrics.get(indexed[0]) if indexed else None,
        )

    def others(self, client: Vendor) -> Iterable[str]:
        """All tables."""
        found: list[str] = []
        page: str | None = None
        while True:
            answer = client.list_tables(page_token=page, limit=1_000)
            found += answer.tables
            page = answer.page_token
            if not page:
                return found

    def count(self) -> int:
        """The number of rows."""
        return int(self._table.count_rows(self.given.filter or None))

    def sample(self, count: int, most: int) -> Iterable[tuple[str, str]]:
        """All rows, or the first, with the version that LanceDB gives a table at its every change."""
        asked = self._table.search().select(_tops([self.given.id, self.given.text], self._read)).limit(most)
        yield from map(self.row_of, self._kept(asked))
        if count > most:
            yield "", str(self._table.version)

    def _kept(self, asked: Vendor) -> list[dict[str, Vendor]]:
        """What a query finds, under the filter."""
        found: list[dict[str, Vendor]] = (asked.where(self.given.filter) if self.given.filter else asked).to_list()
        return found

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[Found]]:
        """For each vector the `k` nearest rows."""
        asked = self._table.search([row.tolist() for row in vectors], vector_column_name=self.given.vector)
        asked = asked.distance_type(_DISTANCES[self.metric]).select([*self._read, "_distance"]).limit(k)
        for name, value in self._options.items():
            asked = getattr(asked, name)(value)
        found: list[list[Found]] = [[] for _ in vectors]
        one = 0.0 if self.metric == "l2" else 1.0  # LanceDB's distances are 1 - product, or squared distances
        for row in self._kept(asked):
            found[row.get("query_index", 0)].append((row, one - row["_distance"]))
        return found

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[Found]]:
        """For each query the `k` best rows by BM25; nothing in a query is read as an operator."""
        from lancedb.query import MatchQuery

        for query in queries:
            asked = self._table.search(MatchQuery(query, self.given.text), query_type="fts")
            yield [(row, row["_score"]) for row in self._kept(asked.select([*self._read, "_score"]).limit(k))]

    def records(self, document: str) -> Sequence[Record]:
        """The rows of a document."""
        if not _tops([self.given.document], self._read):
            return []
        wanted = document.replace("'", "''")
        found: list[Record] = (
            self._table.search().where(f"{self.given.document} = '{wanted}'").select(self._read).to_list()
        )
        return found

    def fault(self, error: Exception) -> str:
        """By what the message says: LanceDB tells what is wrong with a question as a ValueError, and the rest as an
        error of the system or of its runtime."""
        said = str(error).casefold()
        if "timed out" in said or "timeout" in said:
            return "timeout"
        if isinstance(error, OSError) or "connect" in said or "dns error" in said:
            return "connection"
        return "bad_request" if isinstance(error, ValueError | RuntimeError) else ""


def _tops(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns in which fields of these names stand: the very name, or the part before its first dot. Each once."""
    found = (name if name in columns else name.split(".")[0] for name in names)
    return list(dict.fromkeys(column for column in found if column in columns))


def _names(field: Vendor, before: str) -> list[str]:
    """A column's name, and with dots those of the fields inside it."""
    inside = getattr(field.type, "fields", None) or []
    return [f"{before}{field.name}", *(name for one in inside for name in _names(one, f"{before}{field.name}."))]


LANCEDB = external_retriever(
    LanceEngine,
    name="lancedb",
    summary="a table of LanceDB, in this process: vectors, words (BM25), or both",
    example="lancedb[path=FOLDER,table=passages,embed=MODEL]",
    library="lancedb",
    cost="a search of LanceDB in this process; with vectors, the model once for each query",
)
