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
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from ragrounds.contracts import Searcher
from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_index import EngineFault, EngineHit, EngineSample, ExternalEngine, ExternalSearcher
from ragrounds.tools.external_parameters import (
    ExternalParameters,
    FieldMap,
    Record,
    address_of,
    external_parameters,
    query_encoding,
    read_parameters,
    secrets_in,
)
from ragrounds.tools.push import PushRow, PushTarget, PushWay
from ragrounds.tools.retriever import Retriever, SearchedCorpora

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow
    from psycopg.sql import Composable, Composed
    from psycopg_pool import ConnectionPool

WHOLE = 200_000
"""Passages up to which the version is a digest of all ids and texts, which the server makes."""
_OPERATORS: dict[Metric, str] = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
_CLASSES: dict[Metric, str] = {"cosine": "vector_cosine_ops", "ip": "vector_ip_ops", "l2": "vector_l2_ops"}
_MOST_INDEXED = 2000
"""Dimensions above which pgvector has no index for the type `vector`."""
_WAITING = 5.0
"""Seconds that a call waits for a connection."""


class PgvectorParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``pgvector[…]`` takes."""

    table: str = ""
    words: str = ""
    language: str = "english"
    breadth: int = 200


def _named(name: str) -> Composable:
    from psycopg import sql

    return sql.Identifier(*name.split("."))


def _column(name: str, columns: Sequence[str]) -> Composable:
    """A field as an expression: a column, or a path into one of JSON."""
    from psycopg import sql

    if name in columns or "." not in name:
        return sql.Identifier(name)
    first, *path = name.split(".")
    return sql.SQL("({}::jsonb #>> {})").format(sql.Identifier(first), sql.Literal(path))


class PgvectorEngine(ExternalEngine):
    """A table behind a pool of connections."""

    def __init__(self, address: str, given: PgvectorParameters, metric: Metric) -> None:
        self._given, self._fields, self._metric = given, given.fields, metric
        self._vectors = given.mode != "text"
        self._address = address
        self._opening = threading.Lock()
        self._opened: ConnectionPool[Connection[TupleRow]] | None = None
        self._columns: list[str] = []
        self._extension: tuple[int, ...] = ()

    @property
    def _pool(self) -> ConnectionPool[Connection[TupleRow]]:
        with self._opening:
            if self._opened is None:
                self._opened = opened_pool(self._address, self._given, vectors=self._vectors)
            return self._opened

    def fields(self) -> Sequence[str]:
        """The columns of the table."""
        with self._pool.connection() as connection:
            self._columns = columns_of(connection, self._given.table)
            held = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
            self._extension = tuple(int(part) for part in re.findall(r"\d+", str(held[0]))) if held else ()
        if self._given.words and self._given.words not in self._columns:
            raise UserError(
                f"pgvector has no field {self._given.words!r} for words=…. Its fields are {', '.join(self._columns)}."
            )
        return self._columns

    def sample(self, most: int) -> EngineSample:
        """Up to :data:`WHOLE` passages a digest of all, beyond that the first and the last by id."""
        from psycopg import sql

        where, table = self._where(), _named(self._given.table)
        identity, text = self._expression(self._fields.id), self._expression(self._fields.text)
        with self._pool.connection() as connection:
            found = connection.execute(sql.SQL("SELECT count(*) FROM {}{}").format(table, where)).fetchone()
            count = int(found[0]) if found else 0
            if count <= WHOLE:
                whole = sql.SQL(
                    "SELECT md5(coalesce(string_agg(md5({0}::text || ':' || coalesce({1}::text, '')), '' "
                    "ORDER BY {0}::text COLLATE \"C\"), '')) FROM {2}{3}"
                ).format(identity, text, table, where)
                row = connection.execute(whole).fetchone()
                return EngineSample(count, (("", str(row[0]) if row else ""),))
            rows: list[tuple[str, str]] = []
            for order in ("ASC", "DESC"):
                asked = sql.SQL("SELECT {}::text, {}::text FROM {}{} ORDER BY {} {} LIMIT {}").format(
                    identity, text, table, where, identity, sql.SQL(order), sql.Literal(most // 2)
                )
                rows += [(str(row[0]), str(row[1] or "")) for row in connection.execute(asked).fetchall()]
        return EngineSample(count, tuple(rows))

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """The nearest passages by the operator of the metric."""
        from psycopg import sql

        distance = sql.SQL("{} {} %s").format(self._expression(self._fields.vector), sql.SQL(_OPERATORS[self._metric]))
        asked = self._select(distance, sql.SQL("ORDER BY score LIMIT {}").format(sql.Literal(k)))
        found = []
        wide = self._given.filter or k > self._given.breadth
        with self._pool.connection() as connection:
            for vector in vectors:
                with connection.transaction() if wide else nullcontext():
                    if wide:
                        self._widen(connection, k)
                    rows = connection.execute(asked, (vector,)).fetchall()
                    if self._given.filter and len(rows) < k and self._extension < (0, 8):
                        # Before version 0.8 an index gives its candidates, of which the filter leaves fewer than asked.
                        connection.execute("SET LOCAL enable_indexscan = off")
                        rows = connection.execute(asked, (vector,)).fetchall()
                found.append([self._hit(row) for row in rows])
        return found

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """The best passages by full-text search."""
        from psycopg import sql

        language = sql.Literal(self._given.language)
        words: Composable
        if self._given.words:
            words = self._expression(self._given.words)
        else:
            parts = [self._expression(name) for name in self._shown() if name != self._fields.id]
            texts = [sql.SQL("coalesce({}::text, '')").format(part) for part in parts]
            words = sql.SQL("to_tsvector({}::regconfig, {})").format(language, sql.SQL(" || ' ' || ").join(texts))
        # Any word may match: a question as a whole stands in no passage.
        query = sql.SQL("replace(plainto_tsquery({}::regconfig, %s)::text, '&', '|')::tsquery").format(language)
        rank = sql.SQL("ts_rank({}, query, 1)").format(words)
        asked = self._select(
            rank,
            sql.SQL("ORDER BY score DESC, {} LIMIT {}").format(self._expression(self._fields.id), sql.Literal(k)),
            source=sql.SQL(", (SELECT {} AS query) AS asked").format(query),
            condition=sql.SQL("{} @@ query").format(words),
        )
        with self._pool.connection() as connection:
            return [
                [self._hit(row, distance=False) for row in connection.execute(asked, (query_text,)).fetchall()]
                for query_text in (text.replace("\0", " ") for text in queries)
            ]

    def records(self, document: str) -> list[Record]:
        """The rows of a document, by their ids, shorter ones first."""
        from psycopg import sql

        known = [name for name in (self._fields.document, self._fields.id) if self._has(name)]
        asked = self._select(
            sql.SQL("0"),
            sql.SQL("ORDER BY length({0}::text), {0}").format(self._expression(self._fields.id)),
            condition=sql.SQL("{}::text = %s").format(self._expression(known[0])),
        )
        with self._pool.connection() as connection:
            return [self._hit(row).record for row in connection.execute(asked, (document,)).fetchall()]

    def fault(self, error: Exception) -> str:
        """The kind of an error of psycopg's or of its pool's."""
        return fault_of(error)

    def close(self) -> None:
        """Close the pool."""
        if self._opened is not None:
            self._opened.close(timeout=1)

    def _has(self, name: str) -> bool:
        return name in self._columns or name.split(".")[0] in self._columns

    def _shown(self) -> list[str]:
        """The fields that a passage is made of, as far as the table has them."""
        fields = self._fields
        return [
            name for name in dict.fromkeys((fields.id, fields.title, fields.document, fields.text)) if self._has(name)
        ]

    def _expression(self, name: str) -> Composable:
        return _column(name, self._columns)

    def _where(self, condition: Composable | None = None, *, parameters: bool = False) -> Composable:
        """The filter and a condition. A statement with `parameters` reads percent signs as theirs."""
        from psycopg import sql

        own = self._given.filter.replace("%", "%%") if parameters else self._given.filter
        both: list[Composable] = [sql.SQL("({})").format(sql.SQL(own))] if own else []
        both += [condition] if condition is not None else []
        return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(both) if both else sql.SQL("")

    def _select(
        self,
        score: Composable,
        end: Composable,
        *,
        source: Composable | None = None,
        condition: Composable | None = None,
    ) -> Composed:
        from psycopg import sql

        shown = sql.SQL(", ").join([sql.SQL("{}::text").format(self._expression(name)) for name in self._shown()])
        return sql.SQL("SELECT {}, {} AS score FROM {}{}{} {}").format(
            shown, score, _named(self._given.table), source or sql.SQL(""), self._where(condition, parameters=True), end
        )

    def _hit(self, row: TupleRow, *, distance: bool = True) -> EngineHit:
        record = dict(zip(self._shown(), row, strict=False))
        score = float(row[-1])
        if distance:
            score = 1 - score if self._metric == "cosine" else -score if self._metric == "ip" else -(score**2)
        return EngineHit(str(record[self._fields.id]), score, record)

    def _widen(self, connection: Connection[TupleRow], k: int) -> None:
        """For one transaction, have an approximate index look at more candidates than :func:`opened_pool` says."""
        connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(_candidates(self._given, k)),))
        if self._given.filter and self._extension >= (0, 8):
            connection.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")


def _candidates(given: PgvectorParameters, k: int = 0) -> int:
    return min(1000, max(k, given.breadth))


def opened_pool(address: str, given: PgvectorParameters, *, vectors: bool) -> ConnectionPool[Connection[TupleRow]]:
    """A pool of connections, once the server has answered.

    Raises:
        UserError: psycopg or pgvector is not installed.
        psycopg.Error: no connection; or there is no extension `vector`, where `vectors` need it.
    """
    try:
        import psycopg
        from pgvector.psycopg import register_vector
        from psycopg_pool import ConnectionPool
    except ImportError:
        raise UserError("pgvector needs its clients: install ragrounds[pgvector].") from None

    def configure(connection: Connection[TupleRow]) -> None:
        """Prepare a new connection."""
        connection.autocommit = True
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (f"{int(given.timeout * 1000)}",))
        if vectors:
            register_vector(connection)
            lists = max(1, min(given.breadth // 10, 100))
            connection.execute(
                "SELECT set_config('hnsw.ef_search', %s, false), set_config('ivfflat.probes', %s, false)",
                (str(_candidates(given)), str(lists)),
            )

    with psycopg.connect(address, connect_timeout=max(2, int(_WAITING))) as first:  # its error says what is wrong
        if vectors and first.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
            raise EngineFault(
                "missing", "the database has no extension `vector`: CREATE EXTENSION vector, or search by mode=text"
            )
    return ConnectionPool(
        address,
        min_size=0,
        max_size=given.connections,
        open=True,
        timeout=_WAITING,
        configure=configure,
        kwargs={"connect_timeout": max(2, int(_WAITING)), "application_name": "ragrounds"},
    )


def columns_of(connection: Connection[TupleRow], table: str) -> list[str]:
    """The columns of a table.

    Raises:
        UserError: there is no such table; names those that there are.
    """
    from psycopg import sql

    found = connection.execute("SELECT to_regclass(%s)", (_named(table).as_string(connection),)).fetchone()
    if found is None or found[0] is None:
        rows = connection.execute(
            "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname NOT IN "
            "('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 40"
        ).fetchall()
        known = ", ".join(str(row[0]).removeprefix("public.") for row in rows) or "none"
        raise UserError(f"pgvector finds no table {table!r}: its tables are {known}.")
    described = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(_named(table))).description
    return [column.name for column in described or ()]


_PASSWORD = re.compile(r"authentication failed|no password supplied|no pg_hba\.conf entry", re.IGNORECASE)
_NOWHERE = re.compile(r'(database|role|user) "?[^"]*"? does not exist', re.IGNORECASE)


def fault_of(error: Exception) -> str:
    """The kind of an error of psycopg's, as :class:`~ragrounds.tools.external_index.EngineFault` names them."""
    import psycopg
    from psycopg_pool import PoolClosed, PoolTimeout

    if isinstance(error, PoolTimeout):
        return "connection"
    if isinstance(error, PoolClosed):
        return "missing"
    if not isinstance(error, psycopg.Error):
        return ""
    state = error.sqlstate or ""
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
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not state:
        return "missing" if _NOWHERE.search(str(error)) else "connection"
    return "bad_request"


class PgvectorPush:
    """Fills a table: see :class:`~ragrounds.tools.push.PushTarget`."""

    def __init__(self, address: str, given: PgvectorParameters) -> None:
        self._address, self._given, self._fields = address, given, given.fields
        self._pool: ConnectionPool[Connection[TupleRow]] | None = None
        self._dimensions = 0
        self._metric: Metric = "cosine"
        dotted = [name for name in (*self._names(FieldMap()), given.words) if "." in name]
        dotted += [name for name in self._names(self._fields) if "." in name]
        if dotted:
            raise UserError(f"pgvector cannot make the field {dotted[0]!r}: give a column's name, without a dot.")

    def begin(self, dimensions: int, metric: Metric) -> int:
        """Make extension and table, or check the table that is there."""
        import psycopg
        from psycopg import sql

        self._dimensions, self._metric = dimensions, metric
        fields, table = self._fields, _named(self._given.table)
        with psycopg.connect(self._address, connect_timeout=max(2, int(_WAITING)), autocommit=True) as first:
            if dimensions:
                first.execute("CREATE EXTENSION IF NOT EXISTS vector")
            vector = sql.SQL(f", {{}} vector({dimensions})") if dimensions else sql.SQL("")
            made = sql.SQL(
                "CREATE TABLE IF NOT EXISTS {table} ({id} text PRIMARY KEY, {document} text, {title} text, "
                "{text} text NOT NULL, {words} tsvector GENERATED ALWAYS AS (to_tsvector({language}::regconfig, "
                "coalesce({title}, '') || ' ' || {text})) STORED{vector})"
            ).format(
                table=table,
                id=sql.Identifier(fields.id),
                document=sql.Identifier(fields.document),
                title=sql.Identifier(fields.title),
                text=sql.Identifier(fields.text),
                words=sql.Identifier(self._given.words),
                language=sql.Literal(self._given.language),
                vector=vector.format(sql.Identifier(fields.vector)) if dimensions else vector,
            )
            first.execute(made)
            columns = columns_of(first, self._given.table)
            lacking = [name for name in self._names(fields) if name not in columns]
            if lacking:
                raise UserError(
                    f"The table {self._given.table!r} is there and has no column {lacking[0]!r}: its columns are "
                    f"{', '.join(columns)}. Give the names of its fields, or push to another table."
                )
            held = self._held_dimensions(first) if dimensions else 0
            if held > 0 and held != dimensions:
                raise UserError(
                    f"The table {self._given.table!r} holds vectors of {held} dimensions; those of the model have "
                    f"{dimensions}. Push to another table."
                )
        if self._pool is None:
            self._pool = opened_pool(self._address, self._given, vectors=bool(dimensions))
        return self._count()

    def put(self, rows: Sequence[PushRow]) -> None:
        """Copy the rows to the server, then insert or replace them, in one transaction."""
        from psycopg import sql

        names = [sql.Identifier(name) for name in self._names(self._fields)]
        listed = sql.SQL(", ").join(names)
        replaced = sql.SQL(", ").join([sql.SQL("{0} = excluded.{0}").format(name) for name in names[1:]])
        fill = {"temp": sql.Identifier("ragrounds_push"), "table": _named(self._given.table), "listed": listed}
        with self._opened().connection() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                sql.SQL("CREATE TEMP TABLE {temp} ON COMMIT DROP AS SELECT {listed} FROM {table} LIMIT 0").format(
                    **fill
                )
            )
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
        from psycopg import sql

        table = self._given.table.split(".")[-1]
        with self._opened().connection() as connection:
            connection.execute("SET statement_timeout = 0")
            try:
                connection.execute(
                    sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING gin ({})").format(
                        sql.Identifier(f"{table}_{self._given.words}"[:60]),
                        _named(self._given.table),
                        sql.Identifier(self._given.words),
                    )
                )
                if 0 < self._dimensions <= _MOST_INDEXED:
                    connection.execute(
                        sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw ({} {})").format(
                            sql.Identifier(f"{table}_{self._fields.vector}_{self._metric}"[:60]),
                            _named(self._given.table),
                            sql.Identifier(self._fields.vector),
                            sql.SQL(_CLASSES[self._metric]),
                        )
                    )
                connection.execute(sql.SQL("ANALYZE {}").format(_named(self._given.table)))
            finally:
                connection.execute(
                    "SELECT set_config('statement_timeout', %s, false)", (str(int(self._given.timeout * 1000)),)
                )
        return self._count()

    def fault(self, error: Exception) -> str:
        """As :meth:`PgvectorEngine.fault`."""
        return fault_of(error)

    def close(self) -> None:
        """Close the pool."""
        if self._pool is not None:
            self._pool.close(timeout=1)

    def _names(self, fields: FieldMap) -> list[str]:
        names = [fields.id, fields.document, fields.title, fields.text]
        return [*names, fields.vector] if self._dimensions else names

    def _opened(self) -> ConnectionPool[Connection[TupleRow]]:
        if self._pool is None:
            raise UserError("Nothing can be pushed before the table is there.")
        return self._pool

    def _held_dimensions(self, connection: Connection[TupleRow]) -> int:
        """The dimensions that the table's column of vectors takes; -1: any."""
        found = connection.execute(
            "SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s",
            (_named(self._given.table).as_string(connection), self._fields.vector),
        ).fetchone()
        return int(found[0]) if found else -1

    def _count(self) -> int:
        from psycopg import sql

        with self._opened().connection() as connection:
            found = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(_named(self._given.table))).fetchone()
        return int(found[0]) if found else 0


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    given = read_parameters(spec, PgvectorParameters)
    if not given.table:
        raise UserError("pgvector needs its table: pgvector[url=…,table=NAME].")
    address = address_of(given, spec.name)
    metric = "cosine" if given.mode == "text" else query_encoding(given).metric
    return ExternalSearcher(
        spec,
        corpora.names or given.table,
        given,
        PgvectorEngine(address, given, metric),
        secrets=secrets_in(address),
    )


def _pushed(spec: Spec, name: str) -> Spec:
    """The spec with the names of the table and of the column of words that are made."""
    given = read_parameters(spec, PgvectorParameters, searching=False)
    table = given.table or re.sub(r"\W", "_", name).lower()
    made = spec.having(table=table, words=given.words or "words")
    return made if given.embed else made.having(mode="text")


def _open_push(spec: Spec, name: str) -> PushTarget:
    full = read_parameters(_pushed(spec, name), PgvectorParameters, searching=False)
    return PgvectorPush(address_of(full, spec.name), full)


PGVECTOR = Retriever(
    name="pgvector",
    summary="a table of PostgreSQL with pgvector: vectors, full text, or both",
    example="pgvector[url=postgresql://USER@HOST/DB,table=passages,embed=MODEL]",
    open=_open,
    parameters=external_parameters(
        PgvectorParameters,
        url="postgresql://USER@HOST:PORT/DATABASE, without a password: that comes from PGPASSWORD or .pgpass",
        filter='a condition of SQL: filter="year > 2015"',
        table="the table, or schema.table",
        words="column of the type tsvector, for mode=text; by default made of title and text, row by row",
        language="PostgreSQL's text search configuration",
        breadth="candidates that an HNSW index looks at (a tenth as many lists of IVFFlat), or k where that is more",
    ),
    cost="a query to the server, and the embedding model once for each query",
    extra="pgvector",
    library="psycopg_pool",
    own_corpus=True,
    push=PushWay(open=_open_push, searched=_pushed),
)
