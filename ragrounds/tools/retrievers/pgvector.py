"""A table of PostgreSQL with pgvector as a corpus, by psycopg.

``pgvector[url=postgresql://USER@HOST/DATABASE,table=passages,embed=MODEL]``. The password comes from PGPASSWORD, a
``.pgpass`` file, or stands in an address of its own in the environment (``url_env=NAME``). The table may be
``schema.table``; a field may lie in a JSON column: ``title=metadata.title``.

* ``mode=vector`` — the operator of the metric: ``<=>`` (score: cosine), ``<#>`` (inner product), ``<->`` (the squared
  distance with a minus sign). An HNSW or IVFFlat index is used where there is one, with `breadth` candidates or lists.
* ``mode=text`` — full-text search: every word of the query may match, ranked by ``ts_rank`` over the weight of the
  words that do, divided by 1 + log(length). ``words=COLUMN`` names a column of the type ``tsvector``; without it the
  vectors of words are made of title and text, row by row, in `language`.
* ``mode=hybrid`` — both, fused by reciprocal rank.

``filter=…`` is a condition of SQL: ``filter="year > 2015"``. It is a part of the user's own command, and is put into
the query as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_engine import EngineFault, EngineHit, EngineSample, ExternalEngine, Vendor, query_metric
from ragrounds.tools.external_index import external_retriever
from ragrounds.tools.external_parameters import ExternalParameters, Record, read_parameters
from ragrounds.tools.push import PushRow

WHOLE = 200_000
"""Passages up to which the version is a digest of all ids and texts, which the server makes."""
_OPERATORS: dict[Metric, str] = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
_CLASSES: dict[Metric, str] = {"cosine": "vector_cosine_ops", "ip": "vector_ip_ops", "l2": "vector_l2_ops"}
_MOST_INDEXED = 2000
"""Dimensions above which pgvector has no index for the type `vector`."""
_WAITING = 5.0
"""Seconds that a call waits for a connection."""
_PASSWORD = re.compile(r"authentication failed|no password supplied|no pg_hba\.conf entry", re.IGNORECASE)
_NOWHERE = re.compile(r'(database|role|user) "?[^"]*"? does not exist', re.IGNORECASE)


class PgvectorParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``pgvector[…]`` takes."""

    table: str = ""
    words: str = ""
    language: str = "english"
    breadth: int = 200


class PgvectorEngine(ExternalEngine):
    """A table behind a pool of connections."""

    parameters = PgvectorParameters
    given: PgvectorParameters
    place = "table"
    extra = "pgvector"

    def __init__(self, given: ExternalParameters, name: str, *, filling: bool = False) -> None:
        super().__init__(given, name, filling=filling)
        self._columns: list[str] = []
        self._extension: tuple[int, ...] = ()
        if filling and "." in self.given.words:
            raise UserError(f"pgvector cannot make the field {self.given.words!r}: give a plain name, without a dot.")

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
        given = self.given
        vectors = bool(self.dimensions) if self.filling else given.mode != "text"

        def configure(connection: Vendor) -> None:
            """Prepare a new connection."""
            connection.autocommit = True
            self._limit(connection)
            if vectors:
                register_vector(connection)
                lists = max(1, min(given.breadth // 10, 100))
                connection.execute(
                    "SELECT set_config('hnsw.ef_search', %s, false), set_config('ivfflat.probes', %s, false)",
                    (str(self._candidates(0)), str(lists)),
                )

        wait = max(2, int(_WAITING))
        with psycopg.connect(self.address, connect_timeout=wait, autocommit=True) as first:
            # Its error says what is wrong, where a pool's says that it waited.
            if vectors and self.filling:
                first.execute("CREATE EXTENSION IF NOT EXISTS vector")
            elif vectors and first.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
                raise EngineFault(
                    "missing", "the database has no extension `vector`: CREATE EXTENSION vector, or search by mode=text"
                )
        return ConnectionPool(
            self.address, min_size=0, max_size=given.connections, open=True, timeout=_WAITING, configure=configure,
            kwargs={"connect_timeout": wait, "application_name": "ragrounds"},
        )  # fmt: skip

    def release(self, client: Vendor) -> None:
        """Close the pool."""
        client.close(timeout=1)

    def look(self, client: Vendor) -> None:
        """The table's columns, the metric of the model, and how old the extension is."""
        self.metric = query_metric(self.given)
        with client.connection() as connection:
            found = self._columns_of(connection)
            if found is None:
                rows = connection.execute(
                    "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname NOT IN "
                    "('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 40"
                ).fetchall()
                self.check_named(str(row[0]).removeprefix("public.") for row in rows)
            self._columns = found or []
            held = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
            self._extension = tuple(int(part) for part in re.findall(r"\d+", str(held[0]))) if held else ()

    def _columns_of(self, connection: Vendor) -> list[str] | None:
        """The columns of the table; ``None``: there is no such table."""
        table = self._table()
        [there] = connection.execute("SELECT to_regclass(%s)", (table.as_string(connection),)).fetchone()
        if there is None:
            return None
        described = connection.execute(self._sql.SQL("SELECT * FROM {} LIMIT 0").format(table)).description
        return [column.name for column in described]

    def _table(self) -> Vendor:
        return self._sql.Identifier(*self.named.split("."))

    def fields(self) -> Sequence[str]:
        """The columns of the table."""
        words = self.given.words
        if self.client and words and words not in self._columns:
            raise UserError(f"pgvector has no field {words!r} for words=…. Its fields are {', '.join(self._columns)}.")
        return self._columns

    def sample(self, most: int) -> EngineSample:
        """Up to :data:`WHOLE` passages a digest of all, beyond that the first and the last by id."""
        with self.client.connection() as connection:
            sql, where, table = self._sql, self._where(), self._table()
            identity, text = self._column(self.map.id), self._column(self.map.text)
            [count] = connection.execute(sql.SQL("SELECT count(*) FROM {}{}").format(table, where)).fetchone()
            if count <= WHOLE:
                whole = sql.SQL(
                    "SELECT md5(coalesce(string_agg(md5({0}::text || ':' || coalesce({1}::text, '')), '' "
                    "ORDER BY {0}::text COLLATE \"C\"), '')) FROM {2}{3}"
                ).format(identity, text, table, where)
                [digest] = connection.execute(whole).fetchone()
                return EngineSample(count, (("", str(digest)),))
            rows: list[tuple[str, str]] = []
            for order in ("ASC", "DESC"):
                asked = sql.SQL("SELECT {0}::text, {1}::text FROM {2}{3} ORDER BY {0} {4} LIMIT {5}").format(
                    identity, text, table, where, sql.SQL(order), sql.Literal(most // 2)
                )
                rows += [(str(row[0]), str(row[1] or "")) for row in connection.execute(asked).fetchall()]
        return EngineSample(count, tuple(rows))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """The nearest passages by the operator of the metric."""
        found = []
        wide = self.given.filter or k > self.given.breadth
        with self.client.connection() as connection:
            sql = self._sql
            distance = sql.SQL("{} {} %s").format(self._column(self.map.vector), sql.SQL(_OPERATORS[self.metric]))
            asked = self._select(distance, sql.SQL("ORDER BY score LIMIT {}").format(sql.Literal(k)))
            for vector in vectors:
                with connection.transaction() if wide else nullcontext():
                    if wide:
                        self._widen(connection, k)
                    rows = connection.execute(asked, (vector,)).fetchall()
                    if self.given.filter and len(rows) < k and self._extension < (0, 8):
                        # Before version 0.8 an index gives its candidates, of which the filter leaves fewer than asked.
                        connection.execute("SET LOCAL enable_indexscan = off")
                        rows = connection.execute(asked, (vector,)).fetchall()
                found.append([self._hit(row, self._score(float(row[-1]))) for row in rows])
        return found

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """The best passages by full-text search."""
        with self.client.connection() as connection:
            sql = self._sql
            language = sql.Literal(self.given.language)
            if self.given.words:
                words = self._column(self.given.words)
            else:
                parts = [self._column(name) for name in self._shown() if name != self.map.id]
                texts = [sql.SQL("coalesce({}::text, '')").format(part) for part in parts]
                words = sql.SQL("to_tsvector({}::regconfig, {})").format(language, sql.SQL(" || ' ' || ").join(texts))
            # Vendor word may match: a question as a whole stands in no passage.
            query = sql.SQL("replace(plainto_tsquery({}::regconfig, %s)::text, '&', '|')::tsquery").format(language)
            asked = self._select(
                sql.SQL("ts_rank({}, query, 1)").format(words),
                sql.SQL("ORDER BY score DESC, {} LIMIT {}").format(self._column(self.map.id), sql.Literal(k)),
                source=sql.SQL(", (SELECT {} AS query) AS asked").format(query),
                condition=sql.SQL("{} @@ query").format(words),
            )
            return [
                [self._hit(row, row[-1]) for row in connection.execute(asked, (text.replace("\0", " "),)).fetchall()]
                for text in queries
            ]

    def records(self, document: str) -> list[Record]:
        """The rows of a document, by their ids, shorter ones first."""
        with self.client.connection() as connection:
            sql = self._sql
            known = [name for name in (self.map.document, self.map.id) if self._has(name)]
            asked = self._select(
                sql.SQL("0"),
                sql.SQL("ORDER BY length({0}::text), {0}").format(self._column(self.map.id)),
                condition=sql.SQL("{}::text = %s").format(self._column(known[0])),
            )
            return [self._hit(row, 0.0).record for row in connection.execute(asked, (document,)).fetchall()]

    def fault(self, error: Exception) -> str:
        """By the state that PostgreSQL gives its errors, or by what psycopg says of the connection."""
        called = {kind.__name__ for kind in type(error).__mro__}
        if "PoolClosed" in called or "PoolTimeout" in called:
            return "missing" if "PoolClosed" in called else "connection"
        if "Error" not in called:  # psycopg's own, of which all its errors are
            return ""
        state: str = getattr(error, "sqlstate", "") or ""
        if state == "57014":
            return "timeout"
        if state == "53300":
            return "rate_limit"
        if state.startswith("28") or _PASSWORD.search(str(error)):
            return "auth"
        if state.startswith(("08", "57P")):
            return "connection"
        if state.startswith("53") or state in ("40001", "40P01"):
            return "server"
        if called & {"OperationalError", "InterfaceError"} and not state:
            return "missing" if _NOWHERE.search(str(error)) else "connection"
        return "bad_request"

    def _has(self, name: str) -> bool:
        return name in self._columns or name.split(".")[0] in self._columns

    def _shown(self) -> list[str]:
        """The fields that a passage is made of, as far as the table has them."""
        named = (self.map.id, self.map.title, self.map.document, self.map.text)
        return [name for name in dict.fromkeys(named) if self._has(name)]

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
        shown = sql.SQL(", ").join([sql.SQL("{}::text").format(self._column(name)) for name in self._shown()])
        return sql.SQL("SELECT {}, {} AS score FROM {}{}{} {}").format(
            shown, score, self._table(), source or sql.SQL(""), self._where(condition, parameters=True), end
        )

    def _hit(self, row: Vendor, score: float) -> EngineHit:
        return self.hit(dict(zip(self._shown(), row, strict=False)), score)

    def _score(self, distance: float) -> float:
        if self.metric == "cosine":
            return 1 - distance
        return -distance if self.metric == "ip" else -(distance**2)

    def _candidates(self, k: int) -> int:
        return min(1000, max(k, self.given.breadth))

    def _limit(self, connection: Vendor) -> None:
        """No statement takes longer than the spec says."""
        milliseconds = str(int(self.given.timeout * 1000))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (milliseconds,))

    def _widen(self, connection: Vendor, k: int) -> None:
        """For one transaction, have an approximate index look at more candidates than a new connection does."""
        connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(self._candidates(k)),))
        if self.given.filter and self._extension >= (0, 8):
            connection.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")

    @classmethod
    def filled(cls, spec: Spec, name: str) -> Spec:
        """With the names of the table and of the column of words that are made."""
        given = read_parameters(spec, PgvectorParameters, searching=False)
        made = spec.having(table=given.table or re.sub(r"\W", "_", name).lower(), words=given.words or "words")
        return made if given.embed else made.having(mode="text")

    def there(self) -> tuple[Sequence[str], int] | None:
        """The table's columns, and the dimensions that its column of vectors takes."""
        with self.client.connection() as connection:
            columns = self._columns_of(connection)
            if columns is None:
                return None
            found = connection.execute(
                "SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s",
                (self._table().as_string(connection), self.names["vector"]),
            ).fetchone()
        return columns, int(found[0]) if found else 0

    def create(self) -> None:
        """The table, with a column of words that PostgreSQL makes by itself."""
        with self.client.connection() as connection:
            sql = self._sql
            columns = {one: sql.Identifier(name) for one, name in self.names.items()}
            vector = sql.SQL(f", {{}} vector({self.dimensions})").format(columns["vector"])
            connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {table} ({id} text PRIMARY KEY, {document} text, {title} text, "
                    "{text} text NOT NULL, {words} tsvector GENERATED ALWAYS AS (to_tsvector({language}::regconfig, "
                    "coalesce({title}, '') || ' ' || {text})) STORED{vectors})"
                ).format(
                    **columns, table=self._table(), words=sql.Identifier(self.given.words),
                    language=sql.Literal(self.given.language), vectors=vector if self.dimensions else sql.SQL(""),
                )
            )  # fmt: skip

    def put(self, rows: Sequence[PushRow]) -> None:
        """Copy the rows to the server, then insert or replace them, in one transaction."""
        with self.client.connection() as connection, connection.transaction(), connection.cursor() as cursor:
            sql = self._sql
            kept = ["id", "document", "title", "text", *(["vector"] if self.dimensions else [])]
            names = [sql.Identifier(self.names[one]) for one in kept]
            listed = sql.SQL(", ").join(names)
            replaced = sql.SQL(", ").join([sql.SQL("{0} = excluded.{0}").format(name) for name in names[1:]])
            fill = {"temp": sql.Identifier("ragrounds_push"), "table": self._table(), "listed": listed}
            made = sql.SQL("CREATE TEMP TABLE {temp} ON COMMIT DROP AS SELECT {listed} FROM {table} LIMIT 0")
            cursor.execute(made.format(**fill))
            with cursor.copy(sql.SQL("COPY {temp} ({listed}) FROM STDIN").format(**fill)) as copy:
                for row in rows:
                    texts = (text.replace("\0", "\ufffd") for text in (row.id, row.document, row.title, row.text))
                    copy.write_row([*texts, *([] if row.vector is None else [np.asarray(row.vector)])])
            cursor.execute(
                sql.SQL(
                    "INSERT INTO {table} ({listed}) SELECT {listed} FROM {temp} ON CONFLICT ({id}) DO UPDATE SET "
                    "{replaced}"
                ).format(**fill, id=names[0], replaced=replaced)
            )

    def end(self) -> int:
        """Build the indexes of vectors (HNSW) and of words (GIN), and refresh the planner's figures."""
        stem, words, vector = self.named.split(".")[-1], self.given.words, self.names["vector"]
        with self.client.connection() as connection:
            sql = self._sql
            made = [(words, "gin", words, "")]
            if 0 < self.dimensions <= _MOST_INDEXED:
                made.append((f"{vector}_{self.metric}", "hnsw", vector, f" {_CLASSES[self.metric]}"))
            connection.execute("SET statement_timeout = 0")
            try:
                for called, kind, column, operators in made:
                    connection.execute(
                        sql.SQL(f"CREATE INDEX IF NOT EXISTS {{}} ON {{}} USING {kind} ({{}}{operators})").format(
                            sql.Identifier(f"{stem}_{called}"[:60]), self._table(), sql.Identifier(column)
                        )
                    )
                connection.execute(sql.SQL("ANALYZE {}").format(self._table()))
            finally:
                self._limit(connection)
        return self.count()

    def count(self) -> int:
        """The number of rows."""
        with self.client.connection() as connection:
            [held] = connection.execute(self._sql.SQL("SELECT count(*) FROM {}").format(self._table())).fetchone()
        return int(held)


PGVECTOR = external_retriever(
    PgvectorEngine,
    name="pgvector",
    summary="a table of PostgreSQL with pgvector: vectors, full text, or both",
    example="pgvector[url=postgresql://USER@HOST/DB,table=passages,embed=MODEL]",
    library="psycopg_pool",
    cost="a query to the server, and the embedding model once for each query",
    words={
        "url": "postgresql://USER@HOST:PORT/DATABASE, without a password: that comes from PGPASSWORD or .pgpass",
        "filter": 'a condition of SQL: filter="year > 2015"',
        "table": "the table, or schema.table",
        "words": "column of the type tsvector, for mode=text; by default made of title and text, row by row",
        "language": "PostgreSQL's text search configuration",
        "breadth": "candidates that an HNSW index looks at (a tenth as many lists of IVFFlat), or k where that is more",
    },
)
