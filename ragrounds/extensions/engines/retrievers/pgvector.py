"""A table of PostgreSQL with pgvector as a corpus, by psycopg.

``pgvector[url=postgresql://USER@HOST/DATABASE,table=passages,embed=MODEL]``. The password comes from PGPASSWORD, a
``.pgpass`` file, or stands in an address of its own in the environment (``url_env=NAME``). The table may be
``schema.table``; a field may lie in a JSON column: ``title=metadata.title``.

* ``mode=vector`` — the operator of the metric: ``<=>`` (score: cosine), ``<#>`` (inner product), ``<->`` (the squared
  distance with a minus sign). An HNSW or IVFFlat index is used where there is one, with 200 candidates or `k`, or 20
  lists; ``options`` sets others (``{"hnsw.ef_search": 400}``).
* ``mode=text`` — full-text search: every word of the query may match, ranked by ``ts_rank`` over the weight of the
  words that do, divided by 1 + log(length). ``words=COLUMN`` names a column of the type ``tsvector``; without it the
  vectors of words are made of title and text, row by row, in `language`.
* ``mode=hybrid`` — both, fused by reciprocal rank.

``filter=…`` is a condition of SQL: ``filter="year > 2015"``. It is a part of the user's own command, and is put into
the query as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.extensions.engines.external_engine import EngineFault, ExternalEngine, Found, Held, Vendor
from ragrounds.extensions.engines.external_index import external_retriever
from ragrounds.extensions.engines.external_parameters import ExternalParameters, Record, json_given
from ragrounds.tools.index.embedders import Metric, Vectors

WHOLE = 200_000
"""Passages up to which the version is a digest of all ids and texts, which the server makes."""
_OPERATORS: dict[Metric, str] = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
_WAITING = 5
"""Seconds that a call waits for a connection."""
_PASSWORD = re.compile(r"authentication failed|no password supplied|no pg_hba\.conf entry", re.IGNORECASE)
_NOWHERE = re.compile(r'(database|role|user) "?[^"]*"? does not exist', re.IGNORECASE)
_STATES = {
    "57014": "timeout", "53300": "rate_limit", "28": "auth", "08": "connection", "57P": "connection", "53": "server",
    "40001": "server", "40P01": "server",
}  # fmt: skip
"""How PostgreSQL's states begin → the kind of the fault."""


class PgvectorParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``pgvector[…]`` takes."""

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
    """A table behind a pool of connections."""

    parameters = PgvectorParameters
    given: PgvectorParameters
    place = "table"
    extra = "pgvector"

    def __init__(self, given: ExternalParameters, spec: Spec) -> None:
        super().__init__(given, spec)
        self._columns: list[str] = []
        self._options = json_given(self.given.options, "options", self.name, '{"hnsw.ef_search": 400}')
        self._settings: dict[str, object] = {"ivfflat.probes": 20}

    def connect(self) -> Vendor:
        """A pool of connections, once the server has answered.

        Raises:
            psycopg.Error: no connection.
            EngineFault: there is no extension `vector`, where vectors need it.
        """
        import psycopg
        from pgvector.psycopg import register_vector
        from psycopg import sql
        from psycopg_pool import ConnectionPool

        self._sql: Vendor = sql
        vectors = self.given.mode != "text"

        def configure(connection: Vendor) -> None:
            """Prepare a new connection: no statement takes longer than the spec says."""
            connection.autocommit = True
            connection.execute("SELECT set_config('statement_timeout', %s, false)", (self._patience,))
            if vectors:
                register_vector(connection)

        with psycopg.connect(self.address, connect_timeout=_WAITING, autocommit=True) as first:
            # Its error says what is wrong, where a pool's says that it waited.
            held = first.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
            if vectors and held is None:
                raise EngineFault(
                    "missing", "the database has no extension `vector`: CREATE EXTENSION vector, or search by mode=text"
                )
            if held and self.given.filter:
                # Before version 0.8 an index gives its candidates, of which the filter leaves fewer than asked.
                old = tuple(int(part) for part in re.findall(r"\d+", str(held[0]))) < (0, 8)
                self._settings |= {"enable_indexscan": "off"} if old else {"hnsw.iterative_scan": "strict_order"}
        return ConnectionPool(
            self.address, min_size=0, max_size=self.given.connections, open=True, timeout=_WAITING, configure=configure,
            kwargs={"connect_timeout": _WAITING, "application_name": "ragrounds"},
        )  # fmt: skip

    @property
    def _patience(self) -> str:
        return str(int(self.given.timeout * 1000))

    def release(self, client: Vendor) -> None:
        """Close the pool."""
        client.close(timeout=1)

    def look(self, client: Vendor) -> Held | None:
        """The table's columns."""
        with client.connection() as connection:
            table, words = self._table(), self.given.words
            [there] = connection.execute("SELECT to_regclass(%s)", (table.as_string(connection),)).fetchone()
            if there is None:
                return None
            described = connection.execute(self._sql.SQL("SELECT * FROM {} LIMIT 0").format(table)).description
            self._columns = [column.name for column in described]
        if words and words not in self._columns:
            raise UserError(f"pgvector has no field {words!r} for words=…. Its fields are {', '.join(self._columns)}.")
        return Held(self._columns)

    def others(self, client: Vendor) -> Iterable[str]:
        """The first tables."""
        rows = self._rows(
            "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname NOT IN "
            "('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 40",
            client=client,
        )
        return [str(row[0]).removeprefix("public.") for row in rows]

    def _rows(self, asked: Vendor, values: Sequence[object] | None = None, client: Vendor = None) -> list[Vendor]:
        with (client or self.client).connection() as connection:
            found: list[Vendor] = connection.execute(asked, values).fetchall()
        return found

    def _table(self) -> Vendor:
        return self._sql.Identifier(*self.named.split("."))

    def count(self) -> int:
        """The number of rows."""
        [[held]] = self._rows(self._sql.SQL("SELECT count(*) FROM {}{}").format(self._table(), self._where()))
        return int(held)

    def sample(self, count: int, most: int) -> Iterable[tuple[str, str]]:
        """Up to :data:`WHOLE` rows a digest of all, beyond that the first and the last by id."""
        sql, fill = self._sql, {"table": self._table(), "where": self._where()}
        fill |= {"id": self._column(self.given.id), "text": self._column(self.given.text)}
        if count <= WHOLE:
            [[digest]] = self._rows(
                sql.SQL(
                    "SELECT md5(string_agg(md5({id}::text || ':' || coalesce({text}::text, '')), '' "
                    'ORDER BY {id}::text COLLATE "C")) FROM {table}{where}'
                ).format(**fill)
            )
            return [("", str(digest))]
        asked = sql.SQL("SELECT {id}::text, {text}::text FROM {table}{where} ORDER BY {id} {order} LIMIT {most}")
        ends = [sql.SQL(order) for order in ("ASC", "DESC")]
        rows = [row for end in ends for row in self._rows(asked.format(**fill, order=end, most=sql.Literal(most // 2)))]
        return [(str(row[0]), str(row[1] or "")) for row in rows]

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[Found]]:
        """The nearest passages by the operator of the metric."""
        sql = self._sql
        settings = {"hnsw.ef_search": min(1000, max(k, 200)), **self._settings, **self._options}
        distance = sql.SQL("{} {} %s").format(self._column(self.given.vector), sql.SQL(_OPERATORS[self.metric]))
        asked = self._select(distance, sql.SQL("ORDER BY score LIMIT {}").format(sql.Literal(k)))
        with self.client.connection() as connection:
            for name, value in settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
            found = [connection.execute(asked, (vector,)).fetchall() for vector in vectors]
        return [[(self._record(row), self._score(float(row[-1]))) for row in rows] for rows in found]

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[Found]]:
        """The best passages by full-text search."""
        sql, language = self._sql, self._sql.Literal(self.given.language)
        if self.given.words:
            words = self._column(self.given.words)
        else:
            parts = [self._column(name) for name in self._shown if name != self.given.id]
            texts = [sql.SQL("coalesce({}::text, '')").format(part) for part in parts]
            words = sql.SQL("to_tsvector({}::regconfig, {})").format(language, sql.SQL(" || ' ' || ").join(texts))
        # Any word may match: a question as a whole stands in no passage.
        query = sql.SQL("replace(plainto_tsquery({}::regconfig, %s)::text, '&', '|')::tsquery").format(language)
        asked = self._select(
            sql.SQL("ts_rank({}, query, 1)").format(words),
            sql.SQL("ORDER BY score DESC, {} LIMIT {}").format(self._column(self.given.id), sql.Literal(k)),
            source=sql.SQL(", (SELECT {} AS query) AS asked").format(query),
            condition=sql.SQL("{} @@ query").format(words),
        )
        for text in queries:
            yield [(self._record(row), row[-1]) for row in self._rows(asked, (text.replace("\0", " "),))]

    def records(self, document: str) -> Sequence[Record]:
        """The rows of a document."""
        sql = self._sql
        known = [name for name in (self.given.document, self.given.id) if name in self._shown]
        same = sql.SQL("{}::text = %s").format(self._column(known[0]))
        return [
            self._record(row)
            for row in self._rows(self._select(sql.SQL("0"), sql.SQL(""), condition=same), (document,))
        ]

    def fault(self, error: Exception) -> str:
        """By the state that PostgreSQL gives its errors, or by what psycopg says of the connection."""
        called = {kind.__name__ for kind in type(error).__mro__}
        if "PoolClosed" in called or "PoolTimeout" in called:
            return "missing" if "PoolClosed" in called else "connection"
        if "Error" not in called:  # psycopg's own, of which all its errors are
            return super().fault(error)
        state: str = getattr(error, "sqlstate", "") or ""
        if _PASSWORD.search(str(error)):
            return "auth"
        if kind := next((kind for begins, kind in _STATES.items() if state.startswith(begins)), ""):
            return kind
        if called & {"OperationalError", "InterfaceError"} and not state:
            return "missing" if _NOWHERE.search(str(error)) else "connection"
        return "bad_request"

    @property
    def _shown(self) -> list[str]:
        """The fields that a passage is made of, as far as the table has them."""
        return [name for name in self.read if name in self._columns or name.split(".")[0] in self._columns]

    def _column(self, name: str) -> Vendor:
        """A field as an expression: a column, or a path into one of JSON."""
        sql = self._sql
        if name in self._columns or "." not in name:
            return sql.Identifier(name)
        first, *path = name.split(".")
        return sql.SQL("({}::jsonb #>> {})").format(sql.Identifier(first), sql.Literal(path))

    def _where(self, condition: Vendor = None, *, parameters: bool = False) -> Vendor:
        """The filter and a condition. A statement with `parameters` reads percent signs as theirs."""
        sql = self._sql
        own = self.given.filter.replace("%", "%%") if parameters else self.given.filter
        both = [sql.SQL("({})").format(sql.SQL(own))] if own else []
        both += [condition] if condition is not None else []
        return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(both) if both else sql.SQL("")

    def _select(self, score: Vendor, end: Vendor, *, source: Vendor = None, condition: Vendor = None) -> Vendor:
        sql = self._sql
        shown = sql.SQL(", ").join([sql.SQL("{}::text").format(self._column(name)) for name in self._shown])
        return sql.SQL("SELECT {}, {} AS score FROM {}{}{} {}").format(
            shown, score, self._table(), source or sql.SQL(""), self._where(condition, parameters=True), end
        )

    def _record(self, row: Vendor) -> Record:
        return dict(zip(self._shown, row, strict=False))

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
