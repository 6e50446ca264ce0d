"""Retriever ``pgvector``: a table of PostgreSQL with pgvector as a corpus, by psycopg.

``pgvector[url=postgresql://USER@HOST/DATABASE,table=passages,embed=MODEL]``. The password comes from PGPASSWORD, a
``.pgpass`` file, or is part of an address in the environment (``url_env=NAME``). The table may be
``schema.table``; a field may lie in a JSON column: ``title=metadata.title``.

* ``mode=vector`` — the operator of the metric: ``<=>`` (score: cosine), ``<#>`` (inner product), ``<->`` (the squared
  distance with a minus sign). An HNSW or IVFFlat index is used where there is one, with 200 candidates or `k`, or 20
  lists; ``options`` sets others (``{"hnsw.ef_search": 400}``).
* ``mode=text`` — full-text search: every word of the query may match, ranked by ``ts_rank`` over the weight of the
  words that do, divided by 1 + log(length). ``words=COLUMN`` names a column of the type ``tsvector``; without it the
  vectors of words are made of title and text, row by row, in `language`.
* ``mode=hybrid`` — both, fused by reciprocal rank.

``filter=…`` is a condition of SQL: ``filter="year > 2015"``. It is a part of the user's command, and is put into
the query unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.extensions.engines.external_engine import (
    CollectionDescription,
    EngineFault,
    ExternalEngine,
    ScoredRecord,
    Vendor,
)
from ragrounds.extensions.engines.external_index import external_retriever
from ragrounds.extensions.engines.external_parameters import ExternalParameters, Record, parse_json_object
from ragrounds.tools.index.embedders import Metric, Vectors

WHOLE = 200_000
"""Largest number of passages for which the version is a digest of all ids and texts, computed by the server."""
_OPERATORS: dict[Metric, str] = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
_CONNECT_SECONDS = 5
"""Seconds that a call waits for a connection."""
_AUTH_FAILURE = re.compile(r"authentication failed|no password supplied|no pg_hba\.conf entry", re.IGNORECASE)
_MISSING_DATABASE = re.compile(r'(database|role|user) "?[^"]*"? does not exist', re.IGNORECASE)
_KIND_BY_STATE = {
    "57014": "timeout", "53300": "rate_limit", "28": "auth", "08": "connection", "57P": "connection", "53": "server",
    "40001": "server", "40P01": "server",
}  # fmt: skip
"""Kind of fault by the beginning of PostgreSQL's SQLSTATE."""


class PgvectorParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of ``pgvector[…]``."""

    url: Annotated[
        str, "postgresql://USER@HOST:PORT/DATABASE, without a password: that comes from PGPASSWORD or .pgpass"
    ] = ""
    filter: Annotated[str, 'a condition of SQL: filter="year > 2015"'] = ""
    table: Annotated[str, "the table, or schema.table"] = ""
    words: Annotated[
        str, "column of the type tsvector, for mode=text; by default made of title and text, row by row"
    ] = ""
    language: Annotated[str, "PostgreSQL's text search configuration"] = "english"
    options: Annotated[str, 'settings for a search by vectors, as JSON: {"hnsw.ef_search": 400}'] = ""


class PgvectorEngine(ExternalEngine):
    """Engine over a table behind a pool of connections."""

    parameters = PgvectorParameters
    options: PgvectorParameters
    location_parameter = "table"
    extra = "pgvector"

    def __init__(self, options: ExternalParameters, spec: Spec) -> None:
        super().__init__(options, spec)
        self._columns: list[str] = []
        self._options = parse_json_object(self.options.options, "options", self.name, '{"hnsw.ef_search": 400}')
        self._settings: dict[str, object] = {"ivfflat.probes": 20}

    def connect(self) -> Vendor:
        """Open a pool of connections after the server has answered.

        Raises:
            psycopg.Error: no connection.
            EngineFault: the extension `vector` is missing, and vectors need it.
        """
        import psycopg
        from pgvector.psycopg import register_vector
        from psycopg import sql
        from psycopg_pool import ConnectionPool

        self._sql: Vendor = sql
        vectors = self.options.mode != "text"

        def configure(connection: Vendor) -> None:
            """Prepare a new connection: set the longest time of a statement."""
            connection.autocommit = True
            connection.execute(
                "SELECT set_config('statement_timeout', %s, false)", (f"{int(self.options.timeout * 1000)}",)
            )
            if vectors:
                register_vector(connection)

        with psycopg.connect(self.address, connect_timeout=_CONNECT_SECONDS, autocommit=True) as first:
            # A single connection's error states the cause; a pool's error only states that it waited.
            extension = first.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
            if vectors and extension is None:
                raise EngineFault(
                    "missing", "the database has no extension `vector`: CREATE EXTENSION vector, or search by mode=text"
                )
            if extension and self.options.filter:
                # Before version 0.8 the filter is applied to the candidates of an index, and leaves fewer than `k`.
                is_old = tuple(int(part) for part in re.findall(r"\d+", str(extension[0]))) < (0, 8)
                self._settings |= {"enable_indexscan": "off"} if is_old else {"hnsw.iterative_scan": "strict_order"}
        return ConnectionPool(
            self.address, min_size=0, max_size=self.options.connections, open=True, timeout=_CONNECT_SECONDS,
            configure=configure, kwargs={"connect_timeout": _CONNECT_SECONDS, "application_name": "ragrounds"},
        )  # fmt: skip

    def release(self, client: Vendor) -> None:
        """Close the pool."""
        client.close(timeout=1)

    def describe(self, client: Vendor) -> CollectionDescription | None:
        """Return the table's columns; ``None`` if the table does not exist."""
        with client.connection() as connection:
            table, words = self._table(), self.options.words
            [existing] = connection.execute("SELECT to_regclass(%s)", (table.as_string(connection),)).fetchone()
            if existing is None:
                return None
            description = connection.execute(self._sql.SQL("SELECT * FROM {} LIMIT 0").format(table)).description
            self._columns = [column.name for column in description]
        if words and words not in self._columns:
            raise UserError(f"pgvector has no field {words!r} for words=…. Its fields are {', '.join(self._columns)}.")
        return CollectionDescription(self._columns)

    def existing_names(self, client: Vendor) -> Iterable[str]:
        """Return the names of the first tables."""
        rows = self._rows(
            "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname NOT IN "
            "('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 40",
            client=client,
        )
        return [str(row[0]).removeprefix("public.") for row in rows]

    def _rows(self, statement: Vendor, values: Sequence[object] | None = None, client: Vendor = None) -> list[Vendor]:
        with (client or self.client).connection() as connection:
            rows: list[Vendor] = connection.execute(statement, values).fetchall()
        return rows

    def _table(self) -> Vendor:
        return self._sql.Identifier(*self.collection_name.split("."))

    def count(self) -> int:
        """Return the number of rows."""
        [[row_count]] = self._rows(self._sql.SQL("SELECT count(*) FROM {}{}").format(self._table(), self._where()))
        return int(row_count)

    def sample(self, count: int, limit: int) -> Iterable[tuple[str, str]]:
        """Return a digest of all rows up to :data:`WHOLE` rows, or the first and the last rows by id."""
        sql, fill = self._sql, {"table": self._table(), "where": self._where()}
        fill |= {"id": self._column(self.options.id), "text": self._column(self.options.text)}
        if count <= WHOLE:
            [[digest]] = self._rows(
                sql.SQL(
                    "SELECT md5(string_agg(md5({id}::text || ':' || coalesce({text}::text, '')), '' "
                    'ORDER BY {id}::text COLLATE "C")) FROM {table}{where}'
                ).format(**fill)
            )
            return [("", str(digest))]
        statement = sql.SQL("SELECT {id}::text, {text}::text FROM {table}{where} ORDER BY {id} {order} LIMIT {most}")
        ends = [sql.SQL(order) for order in ("ASC", "DESC")]
        rows = [
            row for end in ends for row in self._rows(statement.format(**fill, order=end, most=sql.Literal(limit // 2)))
        ]
        return [(str(row[0]), str(row[1] or "")) for row in rows]

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Return the nearest passages by the operator of the metric."""
        sql = self._sql
        settings = {"hnsw.ef_search": min(1000, max(k, 200)), **self._settings, **self._options}
        distance = sql.SQL("{} {} %s").format(self._column(self.options.vector), sql.SQL(_OPERATORS[self.metric]))
        statement = self._select(distance, sql.SQL("ORDER BY score LIMIT {}").format(sql.Literal(k)))
        with self.client.connection() as connection:
            for name, value in settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
            rows_by_query = [connection.execute(statement, (vector,)).fetchall() for vector in vectors]
        return [[(self._record(row), self._score(float(row[-1]))) for row in rows] for rows in rows_by_query]

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Yield the best passages by full-text search."""
        sql, language = self._sql, self._sql.Literal(self.options.language)
        if self.options.words:
            words = self._column(self.options.words)
        else:
            parts = [self._column(name) for name in self._existing_fields if name != self.options.id]
            texts = [sql.SQL("coalesce({}::text, '')").format(part) for part in parts]
            words = sql.SQL("to_tsvector({}::regconfig, {})").format(language, sql.SQL(" || ' ' || ").join(texts))
        # Any word may match, because no passage contains a question as a whole.
        query = sql.SQL("replace(plainto_tsquery({}::regconfig, %s)::text, '&', '|')::tsquery").format(language)
        statement = self._select(
            sql.SQL("ts_rank({}, query, 1)").format(words),
            sql.SQL("ORDER BY score DESC, {} LIMIT {}").format(self._column(self.options.id), sql.Literal(k)),
            source=sql.SQL(", (SELECT {} AS query) AS asked").format(query),
            condition=sql.SQL("{} @@ query").format(words),
        )
        for text in queries:
            yield [(self._record(row), row[-1]) for row in self._rows(statement, (text.replace("\0", " "),))]

    def records(self, document: str) -> Sequence[Record]:
        """Return the rows of a document."""
        sql = self._sql
        id_fields = [name for name in (self.options.document, self.options.id) if name in self._existing_fields]
        is_document = sql.SQL("{}::text = %s").format(self._column(id_fields[0]))
        return [
            self._record(row)
            for row in self._rows(self._select(sql.SQL("0"), sql.SQL(""), condition=is_document), (document,))
        ]

    def fault(self, error: Exception) -> str:
        """Return the kind of an error by PostgreSQL's SQLSTATE, or by psycopg's class for the connection."""
        class_names = {kind.__name__ for kind in type(error).__mro__}
        if "PoolClosed" in class_names or "PoolTimeout" in class_names:
            return "missing" if "PoolClosed" in class_names else "connection"
        if "Error" not in class_names:  # psycopg's own, of which all its errors are
            return super().fault(error)
        state: str = getattr(error, "sqlstate", "") or ""
        if _AUTH_FAILURE.search(str(error)):
            return "auth"
        if kind := next((kind for begins, kind in _KIND_BY_STATE.items() if state.startswith(begins)), ""):
            return kind
        if class_names & {"OperationalError", "InterfaceError"} and not state:
            return "missing" if _MISSING_DATABASE.search(str(error)) else "connection"
        return "bad_request"

    @property
    def _existing_fields(self) -> list[str]:
        """Fields of a passage that the table has."""
        return [name for name in self.read_fields if name in self._columns or name.split(".")[0] in self._columns]

    def _column(self, name: str) -> Vendor:
        """Return a field as an SQL expression: a column, or a path into a JSON column."""
        sql = self._sql
        if name in self._columns or "." not in name:
            return sql.Identifier(name)
        first, *path = name.split(".")
        return sql.SQL("({}::jsonb #>> {})").format(sql.Identifier(first), sql.Literal(path))

    def _where(self, condition: Vendor = None, *, parameters: bool = False) -> Vendor:
        """Return the filter and a condition as SQL. In a statement with `parameters`, percent signs must be doubled."""
        sql = self._sql
        user_filter = self.options.filter.replace("%", "%%") if parameters else self.options.filter
        conditions = [sql.SQL("({})").format(sql.SQL(user_filter))] if user_filter else []
        conditions += [condition] if condition is not None else []
        return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("")

    def _select(self, score: Vendor, end: Vendor, *, source: Vendor = None, condition: Vendor = None) -> Vendor:
        sql = self._sql
        fields = sql.SQL(", ").join([sql.SQL("{}::text").format(self._column(name)) for name in self._existing_fields])
        return sql.SQL("SELECT {}, {} AS score FROM {}{}{} {}").format(
            fields, score, self._table(), source or sql.SQL(""), self._where(condition, parameters=True), end
        )

    def _record(self, row: Vendor) -> Record:
        return dict(zip(self._existing_fields, row, strict=False))

    def _score(self, distance: float) -> float:
        if self.metric == "cosine":
            return 1 - distance
        return -distance if self.metric == "ip" else -(distance**2)


PGVECTOR = external_retriever(
    PgvectorEngine,
    name="pgvector",
    summary="a table of PostgreSQL with pgvector: vectors, full text, or both",
    example="pgvector[url=postgresql://USER@HOST/DB,table=passages,embed=MODEL]",
    library="psycopg_pool",
)
