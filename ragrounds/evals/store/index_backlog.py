"""Attempts that the full-text index or the facts do not know yet, and how these are made from the journal.

A run writes facts with each attempt, and leaves the index to who looks for something. Neither is ever copied between
stores: of an imported run both are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_facts import facts_row
from ragrounds.evals.store.attempt_texts import attempt_texts
from ragrounds.evals.store.codec import StoredQuestion, decompress
from ragrounds.evals.store.database import autocommit, dialect_of, exclusive_transaction, upsert, writing_failed
from ragrounds.evals.store.garbage import Progress
from ragrounds.evals.store.recorded_calls import AttemptReader, Place
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.text_index import add_texts, clear, has_words
from ragrounds.records import Run

STEP = "making the full-text index"
"""What progress is told."""
_BATCH = 100
"""Attempts that are written together."""
_A, _F, _T = schema.attempts, schema.facts, schema.text_attempts


class Backlog(Struct, frozen=True):
    """What was made."""

    made: int
    """Attempts that joined."""
    unreadable: int
    """Attempts that cannot be read: `ragrounds doctor --store` names them."""


def missing(engine: sa.Engine, numbers: Sequence[int], *, texts: bool = True) -> int:
    """How many attempts of these runs (by their numbers) have no facts or, with `texts`, are not in the index."""
    with autocommit(engine) as connection:
        return missing_of(connection, numbers, texts=texts and has_words(connection))


def missing_of(connection: sa.Connection, numbers: Sequence[int], *, texts: bool) -> int:
    """As :func:`missing`; `texts` only where the store has an index."""
    statement = sa.select(sa.func.count()).select_from(_A).where(_A.c.run.in_(list(numbers)), ~_whole(texts))
    return int(connection.execute(statement).scalar_one())


def index_missing(
    store: Store,
    runs: Sequence[Run],
    progress: Progress = lambda step, rows: None,
    *,
    texts: bool = True,
    anew: bool = False,
) -> Backlog:
    """Make the facts that attempts of these runs lack and, with `texts`, what the full-text index lacks of them.

    It opens connections of its own and may run in any thread, beside a run that is being made. Some hundred attempts
    are one transaction: where it is broken off, the next call goes on. An index that is damaged is emptied first.

    Args:
        store: where the runs are.
        runs: which; their order is kept.
        progress: called with what is being done and how many attempts are done, over all runs.
        texts: whether words are asked for; else facts alone are.
        anew: empty the index first, also of other runs.

    Raises:
        StopRun: the store cannot be written.
    """
    if anew:
        _empty(store.engine)
    try:
        return _index(store, runs, progress, texts)
    except sa.exc.DatabaseError as error:
        if not dialect_of(store.engine).words.is_damage(error):
            raise writing_failed(store.engine, error) from error
    _empty(store.engine)
    try:
        return _index(store, runs, progress, texts)
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(store.engine, error) from error


def _empty(engine: sa.Engine) -> None:
    try:
        with exclusive_transaction(engine) as connection:
            clear(connection)
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(engine, error) from error


def _index(store: Store, runs: Sequence[Run], progress: Progress, texts: bool) -> Backlog:
    made = unreadable = 0
    with autocommit(store.engine) as reading:
        if texts and not has_words(reading):  # a SQLite without FTS5 made the store
            with exclusive_transaction(store.engine) as connection:
                if not has_words(connection):
                    dialect_of(store.engine).words.make(connection)
        texts = texts and has_words(reading)
        for run in runs:
            work = _RunBacklog(store, reading, run, texts)
            lacking = list(_missing(reading, work.number, texts))
            for start in range(0, len(lacking), _BATCH):
                batch = lacking[start : start + _BATCH]
                read = work.add(batch)
                made, unreadable = made + read, unreadable + len(batch) - read
                progress(STEP, made + unreadable)
    return Backlog(made, unreadable)


class _RunBacklog:
    """The attempts of one run."""

    def __init__(self, store: Store, reading: sa.Connection, run: Run, texts: bool) -> None:
        self.number = store.number(run)
        self._engine = store.engine
        self._reading = reading
        self._run = run
        self._texts = texts
        self._reader = AttemptReader()
        self._positions: dict[str, int] | None = None

    def add(self, places: Sequence[Place]) -> int:
        """Write what these attempts lack; gives how many could be read. One that another process has written again
        meanwhile is left to it."""
        read = self._reader.read(self._reading, self._run, self.number, places)
        asked = self._questions([question_id for question_id, _ in read])
        rows = []
        for (question_id, _), (attempt, traced) in read.items():
            item = asked[question_id]
            facts = facts_row(attempt, traced, item.gold, self.number)[1]
            texts = attempt_texts(attempt, traced, item.question, self._run) if self._texts else None
            rows.append((attempt, facts, texts))
        with exclusive_transaction(self._engine) as connection:
            # One that another process has written again meanwhile, or indexed, is left to it.
            still = _missing(connection, self.number, self._texts, sorted(asked))
            kept = [row for row in rows if still.get((row[0].question_id, row[0].epoch)) == (row[0].at, row[0].retry)]
            if kept:
                connection.execute(upsert(self._engine, _F), [dict(facts) for _, facts, _ in kept])
            add_texts(
                connection,
                [
                    ((self.number, one.question_id, one.epoch), one.at, texts)
                    for one, _, texts in kept
                    if texts is not None
                ],
            )
        return len(read)

    def _questions(self, ids: Sequence[str]) -> dict[str, StoredQuestion]:
        table = schema.questions
        if self._positions is None:  # questions have no index by id
            asked = sa.select(table.c.question_id, table.c.position).where(table.c.set == self._run.questions)
            self._positions = {row.question_id: row.position for row in self._reading.execute(asked)}
        places = sorted({self._positions[id] for id in ids})
        wanted = sa.select(table.c.body).where(table.c.set == self._run.questions, table.c.position.in_(places))
        items = [
            msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion) for row in self._reading.execute(wanted)
        ]
        return {item.question.id: item for item in items}


def _missing(
    connection: sa.Connection, number: int, texts: bool, among: Sequence[str] | None = None
) -> dict[Place, tuple[float, int]]:
    """The attempts of a run that lack something, in the order of their key, with when they were made and which time.

    `among` are the questions that are looked at; on PostgreSQL nobody changes these attempts until the commit.
    """
    statement = sa.select(_A.c.question_id, _A.c.epoch, _A.c.at, _A.c.retry).where(_A.c.run == number, ~_whole(texts))
    statement = statement.order_by(_A.c.question_id, _A.c.epoch)
    if among is not None:
        statement = statement.where(_A.c.question_id.in_(among)).with_for_update(read=True, of=_A)
    return {(row.question_id, row.epoch): (row.at, row.retry) for row in connection.execute(statement)}


def _whole(texts: bool) -> sa.ColumnElement[bool]:
    """Whether an attempt has its facts and, with `texts`, is in the index as it is now."""
    facts = sa.exists().where(*_same(_F))
    return sa.and_(facts, sa.exists().where(*_same(_T), _T.c.at == _A.c.at)) if texts else facts


def _same(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    return tuple(table.c[name] == _A.c[name] for name in ("run", "question_id", "epoch"))
