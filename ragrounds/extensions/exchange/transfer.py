"""Transfer of runs between stores, with everything that they depend on: questions, attempts, scores, recorded calls,
texts, arenas.

The rows that belong to a run or an arena follow from the foreign keys of :mod:`ragrounds.evals.store.schema`: they
contain its number, which is different in every store. A source may be a file of unknown origin, so nothing in it is
trusted: every row is read and checked before anything is written. Calls, texts and questions are identified by their
content and are only added; a run and its rows appear in one transaction. A process that is killed in the middle leaves
whole runs, and perhaps calls without a reference: the same command completes the copy, and `gc` would remove them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.chunks import in_batches
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import BATCH, UNREADABLE, Marks, Progress, reported
from ragrounds.evals.store.care.row_checks import check_names, check_row
from ragrounds.evals.store.codec import (
    Fetch,
    StoredQuestion,
    decompress,
    decompress_untrusted,
    run_of,
    run_row,
    unpack,
)
from ragrounds.evals.store.database import (
    database_message,
    fetch_rows,
    insert_new,
    snapshot,
    store_location,
    stream,
    upsert,
    writing,
)
from ragrounds.evals.store.journal import arena_payer
from ragrounds.evals.store.run_names import find_runs
from ragrounds.evals.store.servers import adopt_servers

_ID = re.compile(r"(?=.*[^\W_])[\w.-]{1,200}")
"""Pattern of run ids of every version. An id is a name in the store; file names are derived where files are written."""
_BYTES = 8 << 20
"""Number of bytes of rows written at a time."""


def tables_of(owner: sa.Table) -> dict[sa.Table, sa.Column[Any]]:
    """Return the tables whose rows belong to a run or an arena, each with the column of its number."""
    links = [
        (table, key.parent)
        for table in schema.metadata.sorted_tables
        if table not in schema.DERIVED
        for key in table.foreign_keys
        if key.column.table is owner
    ]
    return dict(links)


class _Owner(Struct, frozen=True):
    """Run or arena of the source."""

    table: sa.Table
    number: int
    row: dict[str, Any]
    """Row without the number."""

    @property
    def id(self) -> str:
        return str(self.row["id"])

    def find(self, connection: sa.Connection) -> Any:
        """Return the row of the same run or arena in another store; ``None`` if it is not there."""
        same = next(column for column in self.table.c if column.unique)
        return connection.execute(sa.select(self.table).where(same == self.row[same.name])).first()


class TransferResult(Struct, frozen=True, kw_only=True):
    """Result of copying runs to the target."""

    runs: tuple[str, ...]
    """Ids of the runs that were added."""
    present: tuple[str, ...]
    """Ids of the runs that existed already, equal in every row."""
    arenas: tuple[str, ...]
    """Ids of the arenas that were added."""
    calls: int
    """Number of recorded calls that were added."""
    texts: int
    differing: int
    """Number of calls that the target had recorded with another reply; the target's reply is kept, and traces show it.
    """


def read_runs(engine: sa.Engine) -> list[Run]:
    """Return the runs of a store of unknown origin, oldest first.

    Raises:
        UserError: one of them cannot be read.
    """
    runs: list[Run] = []
    with engine.connect() as reading, _untrusted_source(store_location(engine), lambda: "runs"):
        for row in stream(reading, sa.select(schema.runs).order_by(schema.runs.c.number)):
            check_row(schema.runs, row)
            run = msgspec.msgpack.decode(decompress_untrusted(row.body), type=Run)
            if run.id != row.id or run.fingerprint != row.fingerprint:
                raise ValueError(f"the run {row.id} is not what its row says")
            if not _ID.fullmatch(run.id):
                raise ValueError(f"{run.id!r} is no id of a run")
            check_names(run.agent, run.benchmark)
            runs.append(run)
    return runs


def choose_runs(engine: sa.Engine, references: Sequence[str]) -> list[Run]:
    """Return the runs of a store of unknown origin that some references name, each once; all of them without
    references.

    Raises:
        UserError: a run cannot be read, a reference names none or several, or there is no run at all.
    """
    stored = read_runs(engine)
    selected = [fitting[-1] for fitting in find_runs(references, stored, store_location(engine))] or stored
    if not selected:
        raise UserError(f"{store_location(engine)} contains no runs.")
    return list({run.id: run for run in selected}.values())


def copy_runs(
    source: sa.Engine,
    target: sa.Engine,
    runs: Sequence[Run],
    final: frozenset[str],
    report: Progress = lambda step, rows: None,
) -> TransferResult:
    """Copy runs from `source` to `target`, with every arena in which only they played.

    Args:
        source: the store that has them.
        target: the store that gets them.
        runs: as :func:`read_runs` returns them.
        final: statuses of attempts that are not made again; of the others, the calls already paid for are copied.
        report: called with the step and the number of rows that are done.

    Raises:
        UserError: the source is broken or lacks something, or the target has a run of the same id with other content,
            or knows another server where one of the runs was answered; nothing was written.
        StopRun: the target cannot be written.
    """
    with snapshot(source) as reading:
        marks = Marks(reading)
        checked = _Source(reading, marks, final, report)
        with _untrusted_source(store_location(source), lambda: checked.location, " Nothing was written."):
            owners = checked.read(runs)
        with snapshot(target) as target_reading:
            present = [owner for owner in owners if _is_present(owner, reading, target_reading, store_location(target))]
        new = [owner for owner in owners if owner not in present]
        ids = {owner.id for owner in new if owner.table is schema.runs}
        added = [run for run in runs if run.id in ids]
        adopt_servers(target, added, check=True)
        writer = _Writer(reading, target, report)
        sets = {run.questions for run in runs}
        writer.add(schema.questions, sa.select(schema.questions).where(schema.questions.c.set.in_(sets)))
        texts, calls = (writer.add(table, _marked(table, marks)) for table in (schema.blobs, schema.calls))
        for owner in new:
            writer.write_transaction(owner)
        for owner in present:
            writer.notes(owner)
    adopt_servers(target, added, check=False)
    return TransferResult(
        runs=tuple(run.id for run in added),
        present=tuple(sorted(owner.id for owner in present if owner.table is schema.runs)),
        arenas=tuple(owner.id for owner in new if owner.table is schema.arenas),
        calls=calls,
        texts=texts,
        differing=writer.differing,
    )


class _Source:
    """Reader of everything that some runs depend on. It checks the rows, and marks the calls and texts; `at` is its
    current position.
    """

    def __init__(self, reading: sa.Connection, marks: Marks, final: frozenset[str], report: Progress) -> None:
        self._reading, self._marks, self._final, self._report = reading, marks, final, report
        self.location = ""

    def read(self, runs: Sequence[Run]) -> list[_Owner]:
        """Check and mark everything that these runs refer to, and the arenas in which only they played.

        Raises:
            UNREADABLE: something is broken or missing.
        """
        numbers = {
            id: int(number) for id, number in self._reading.execute(sa.select(schema.runs.c.id, schema.runs.c.number))
        }
        owners = []
        for name in dict.fromkeys(run.questions for run in runs):
            self._questions(name, [run for run in runs if run.questions == name])
        for run in runs:
            self.location = f"run {run.id}"
            if run.id not in numbers:
                raise ValueError("it was removed meanwhile")
            owners.append(_Owner(schema.runs, numbers[run.id], run_row(run)))
            self._owned(owners[-1], run)
            self._marks.unfinished(numbers[run.id], run, self._final)
        owners += self._arenas({run.id for run in runs})
        self._marks.of_payers()
        for table, kind_words in ((schema.calls, "recorded calls"), (schema.blobs, "texts")):
            self.location, statement = kind_words, _marked(table, self._marks)
            self._rows(table, statement)
            self._marks.flush()
            marked = self._marks.calls if table is schema.calls else self._marks.blobs
            is_present = sa.exists().where(next(iter(table.primary_key)) == marked.c.mark)
            if count := self._count(sa.select(sa.func.count()).select_from(marked).where(~is_present)):
                raise ValueError(f"{count:,} {kind_words} that the runs refer to are missing")
        return owners

    def _questions(self, name: str, runs: Sequence[Run]) -> None:
        self.location, table, position = "questions", schema.questions, -1
        distinct = self._count(sa.select(sa.func.count(table.c.question_id.distinct())).where(table.c.set == name))
        statement = sa.select(table).where(table.c.set == name).order_by(table.c.position)
        for position, row in enumerate(self._stream(table, statement)):
            stored = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
            check_names(stored.question.benchmark)
            if row.position != position or stored.question.id != row.question_id:
                raise ValueError(f"the questions {name[:12]} are not in order")
        for run in runs:
            if not position + 1 == distinct == run.count:
                raise ValueError(f"the run {run.id} has {run.count:,} questions, and {distinct:,} of them are present")

    def _owned(self, owner: _Owner, run: Run | None = None) -> None:
        """Check and mark the rows of a run or an arena."""
        for table, column in tables_of(owner.table).items():
            self.location = f"{table.name} of {owner.id}"
            if run is not None and {"question_id", "epoch"} <= set(table.c.keys()):
                question_ids = sa.select(schema.questions.c.question_id).where(schema.questions.c.set == run.questions)
                wrong = table.c.question_id.not_in(question_ids) | (table.c.epoch < 0) | (table.c.epoch >= run.epochs)
                if count := self._count(sa.select(sa.func.count()).where(column == owner.number, wrong)):
                    raise ValueError(f"{count:,} of them are of questions that the run does not have")
            self._rows(table, sa.select(table).where(column == owner.number))

    def _arenas(self, runs: set[str]) -> Iterator[_Owner]:
        for row in self._stream(schema.arenas, sa.select(schema.arenas).order_by(schema.arenas.c.number)):
            self.location = f"arena {row.id}"
            arena = msgspec.msgpack.decode(decompress_untrusted(row.body))
            check_names(*(system["name"] for system in arena["systems"]), *arena["judges"])
            played = {system["run"] for system in arena["systems"] if system.get("run")}
            if played and played <= runs:
                self._marks.mark(self._marks.payers, [arena_payer(row.fingerprint)])
                row_values = {name: value for name, value in row._mapping.items() if name != "number"}
                owner = _Owner(schema.arenas, row.number, row_values)
                self._owned(owner)
                yield owner

    def _rows(self, table: sa.Table, statement: sa.Select[Any]) -> None:
        for row in self._stream(table, statement):
            self._marks.mark_row(table, row)

    def _stream(self, table: sa.Table, statement: sa.Select[Any]) -> Iterator[Any]:
        size = 20 if table is schema.blobs else 100
        for row in reported(stream(self._reading, statement, size), f"reading {self.location}", self._report):
            check_row(table, row)
            yield row

    def _count(self, statement: sa.Select[Any]) -> int:
        return int(self._reading.execute(statement).scalar_one())


def _marked(table: sa.Table, marks: Marks) -> sa.Select[Any]:
    """Return a statement for the recorded calls, or the texts, that are marked."""
    marked = marks.calls if table is schema.calls else marks.blobs
    return sa.select(table).join(marked, next(iter(table.primary_key)) == marked.c.mark)


@contextmanager
def _untrusted_source(location: str, position: Callable[[], str], end: str = "") -> Iterator[None]:
    """Raise a UserError with the position if reading a store of unknown origin fails in the block."""
    try:
        yield
    except (sa.exc.DatabaseError, *UNREADABLE) as error:
        problem = (
            database_message(error) if isinstance(error, sa.exc.DatabaseError) else str(error) or type(error).__name__
        )
        raise UserError(f"{location} cannot be read: {position()}: {problem.rstrip('.')}.{end}") from error


def _is_present(owner: _Owner, reading: sa.Connection, target_reading: sa.Connection, target: str) -> bool:
    """Return True if a store has a run or an arena already, with equal rows. Readers' notes may differ.

    Raises:
        UserError: it has one of the same id with other rows.
    """
    existing = owner.find(target_reading)
    if existing is None:
        return False
    differing = ""
    if owner.table is schema.runs and run_of(existing.body) != run_of(owner.row["body"]):
        differing = "another run"
    for table, column in tables_of(owner.table).items():
        if differing or table is schema.notes:
            continue
        (count, mine), (n_there, other) = (
            _digest(reading, column, owner.number),
            _digest(target_reading, column, existing.number),
        )
        if count != n_there:
            differing = f"{n_there:,} {table.name} there, {count:,} in what is copied"
        elif mine != other:
            differing = f"other {table.name}"
    if differing:
        kind = owner.table.name.removesuffix("s")
        remedy = f" Remove one of them (`ragrounds runs rm {quote(owner.id)}`), or give only the others."
        raise UserError(
            f"{target} already has {'a' if kind == 'run' else 'the'} {kind} {owner.id}, and it differs: "
            f"{differing}. Nothing was written.{remedy if kind == 'run' else ''}"
        )
    return True


def _digest(connection: sa.Connection, column: sa.Column[Any], number: int) -> tuple[int, int]:
    """Return the number of rows of a run or an arena in a table, and a hash of them that does not depend on their
    order.
    """
    count = total = 0
    for row in stream(connection, sa.select(column.table).where(column == number)):
        # Scores are made again when their code changes (`code`): their content is in the other columns.
        values = [value for name, value in row._mapping.items() if name not in (column.name, "code", "checksum")]
        count += 1
        total += int.from_bytes(hashlib.sha256(msgspec.msgpack.encode(values)).digest()[:16], "big")
    return count, total % 2**128


class _Writer:
    """Writer of rows in bounded batches, each in a transaction; a run or arena with its rows is one transaction."""

    def __init__(self, reading: sa.Connection, target: sa.Engine, report: Progress) -> None:
        self._reading, self._target, self._report = reading, target, report
        self.differing = 0

    def add(self, table: sa.Table, statement: sa.Select[Any]) -> int:
        """Write the rows whose key the target does not have yet, and return their number."""
        new = done = 0
        for batch in self._batches(statement, 20 if table is schema.blobs else 100):
            done += len(batch)
            fresh = self._new(table, batch)
            if fresh:
                with writing(self._target) as connection:
                    connection.execute(insert_new(self._target, table), fresh)
            new += len(fresh)
            self._report(f"writing {table.name}", done)
        return new

    def _new(self, table: sa.Table, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if table is schema.questions:
            return batch
        key = next(iter(table.primary_key.columns))
        replies = [table.c.response] if table is schema.calls else []
        statement = sa.select(key, *replies).where(key.in_([row[key.name] for row in batch]))
        present = {bytes(row[0]): row for row in fetch_rows(self._target, statement)}
        if table is schema.calls:
            both = [(row["response"], present[row["key"]].response) for row in batch if row["key"] in present]
            self.differing += sum(not self._same(mine, theirs) for mine, theirs in both)
        return [row for row in batch if row[key.name] not in present]

    def _same(self, mine: bytes, theirs: bytes) -> bool:
        # The parts of a text that are stored separately depend on the texts that were stored before.
        if decompress(mine) == decompress(theirs):
            return True
        with self._target.connect() as connection:
            return bool(unpack(mine, dict, _texts(self._reading)) == unpack(theirs, dict, _texts(connection)))

    def write_transaction(self, owner: _Owner) -> None:
        """Write a run or an arena with its rows in one transaction."""
        done = 0
        with writing(self._target) as connection:
            connection.execute(sa.insert(owner.table), owner.row)
            number = owner.find(connection).number
            for table, column in tables_of(owner.table).items():
                for batch in self._batches(sa.select(table).where(column == owner.number)):
                    connection.execute(sa.insert(table), [{**row, column.name: number} for row in batch])
                    done += len(batch)
                    self._report(f"writing {owner.id}", done)

    def notes(self, owner: _Owner) -> None:
        """Add readers' notes to an existing run. If an author has two at an attempt, the later one is kept."""
        table = schema.notes
        if owner.table is not schema.runs:
            return
        for batch in self._batches(sa.select(table).where(table.c.run == owner.number)):
            with writing(self._target) as connection:
                number = owner.find(connection).number
                later = upsert(self._target, table, newest=table.c.at)
                connection.execute(later, [{**row, "run": number} for row in batch])

    def _batches(self, statement: sa.Select[Any], size: int = 100) -> Iterator[list[dict[str, Any]]]:
        rows = (dict(row._mapping) for row in stream(self._reading, statement, size))
        return in_batches(rows, BATCH, _n_bytes, _BYTES)


def _n_bytes(row: Mapping[str, object]) -> int:
    return sum(len(value) for value in row.values() if isinstance(value, bytes | str))


def _texts(connection: sa.Connection) -> Fetch:
    def _fetch(hashes: Iterable[bytes]) -> dict[bytes, str]:
        statement = sa.select(schema.blobs).where(schema.blobs.c.hash.in_(list(hashes)))
        return {bytes(row.hash): decompress(row.data).decode() for row in connection.execute(statement)}

    return _fetch
