"""Copying runs between stores with all that they rest on: questions, attempts, scores, recorded calls, texts, arenas.

A source may be a file of unknown origin, so nothing in it is believed: every row is read and checked before anything is
written. Calls, texts and questions are known by their content and are only added; a run and its own rows appear in one
transaction. A process that is killed in the middle leaves whole runs, and perhaps calls that nothing refers to yet:
the same command completes the copy, and `gc` would remove them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import sqlalchemy as sa
from msgspec import Struct, field

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_notes import LONGEST_NOTE
from ragrounds.evals.store.codec import (
    Fetch,
    StoredQuestion,
    decompress,
    decompress_untrusted,
    hash_of,
    run_body,
    run_of,
    unpack,
)
from ragrounds.evals.store.database import insert_new, said, shown, snapshot, stream, upsert, writing, writing_failed
from ragrounds.evals.store.garbage import BATCH, Marks, Progress, reported
from ragrounds.evals.store.journal import arena_payer
from ragrounds.evals.store.run_names import find_runs
from ragrounds.evals.store.servers import adopt_servers
from ragrounds.records import Run

ARENA_TABLES: tuple[sa.Table, ...] = (schema.judgements, schema.votes)
"""Tables whose rows belong to an arena and are copied with it."""
_ID = re.compile(r"(?=.*[^\W_])[\w.-]{1,200}")
"""What any version has given a run as its id. It is a name in the store: files get theirs where they are written."""
_Plain: TypeAlias = dict[str, Any]
_Rows: TypeAlias = Iterator[Any]
"""Rows of another store: whatever stands in their columns."""
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError)


class VerifiedArena(Struct, frozen=True):
    """An arena in which only the chosen runs played, with its row without the number."""

    number: int
    id: str
    fingerprint: str
    row: dict[str, object]


class VerifiedSource(Struct, frozen=True):
    """What is to be copied, checked."""

    runs: dict[int, Run] = field(default_factory=dict)
    """By their numbers in the source."""
    sets: tuple[str, ...] = ()
    """Names of the question sets that they answer."""
    arenas: tuple[VerifiedArena, ...] = ()


def read_runs(engine: sa.Engine) -> list[Run]:
    """The runs of a store of unknown origin, oldest first.

    Raises:
        UserError: one of them cannot be read.
    """
    found: list[Run] = []
    with engine.connect() as reading:
        try:
            for row in stream(reading, sa.select(schema.runs).order_by(schema.runs.c.number)):
                _check_types(schema.runs, row)
                run = msgspec.msgpack.decode(decompress_untrusted(row.body), type=Run)
                if run.id != row.id or run.fingerprint != row.fingerprint:
                    raise ValueError(f"the run {row.id} is not what its row says")
                if not _ID.fullmatch(run.id):
                    raise ValueError(f"{run.id!r} is no id of a run")
                _check_shown(run.agent, run.benchmark)
                found.append(run)
        except sa.exc.DatabaseError as error:
            raise UserError(f"{shown(engine)} cannot be read: {said(error)}.") from error
        except _BROKEN as error:
            raise UserError(f"{shown(engine)} cannot be read: runs: {error}.") from error
    return found


def choose_runs(engine: sa.Engine, references: Sequence[str]) -> list[Run]:
    """The runs of a store of unknown origin that some references name, each once; all of them where none is given.

    Raises:
        UserError: a run cannot be read, a reference names none or several, or there is no run at all.
    """
    known = read_runs(engine)
    chosen = [fitting[-1] for fitting in find_runs(references, known, shown(engine))] or known
    if not chosen:
        raise UserError(f"{shown(engine)} holds no runs.")
    return list({run.id: run for run in chosen}.values())


class SourceVerifier:
    """Reads and checks all that some runs rest on, in one pass, and marks the calls and texts."""

    def __init__(
        self, reading: sa.Connection, place: str, marks: Marks, final: frozenset[str], report: Progress
    ) -> None:
        self._reading = reading
        self._place = place
        self._marks = marks
        self._final = final
        self._report = report
        self._at = ""

    def read(self, runs: Sequence[Run]) -> VerifiedSource:
        """Check and mark all that these runs refer to.

        Raises:
            UserError: something is broken or missing; names the place.
        """
        try:
            return self._read(runs)
        except sa.exc.DatabaseError as error:
            raise self._broken(said(error)) from error
        except _BROKEN as error:
            raise self._broken(str(error) or type(error).__name__) from error

    def _read(self, runs: Sequence[Run]) -> VerifiedSource:
        chosen: dict[int, Run] = {}
        for run in runs:
            self._at = f"run {run.id}"
            number = self._reading.execute(sa.select(schema.runs.c.number).where(schema.runs.c.id == run.id)).scalar()
            if number is None:
                raise ValueError("it is not there any more")
            chosen[int(number)] = run
        sets = tuple(dict.fromkeys(run.questions for run in runs))
        for name in sets:
            self._questions(name, [run for run in runs if run.questions == name])
        for number, run in chosen.items():
            self._run(number, run)
        arenas = tuple(self._arenas({run.id for run in runs}))
        self._marks.of_payers()
        self._calls()
        self._marks.flush()
        self._texts()
        return VerifiedSource(chosen, sets, arenas)

    def _questions(self, name: str, runs: Sequence[Run]) -> None:
        self._at = "questions"
        table, count = schema.questions, 0
        named = sa.select(sa.func.count(table.c.question_id.distinct())).where(table.c.set == name)
        distinct = self._reading.execute(named).scalar_one()
        asked = sa.select(table).where(table.c.set == name).order_by(table.c.position)
        for position, row in enumerate(self._rows(table, asked)):
            item = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
            _check_shown(row.question_id, item.question.benchmark)
            if row.position != position or item.question.id != row.question_id:
                raise ValueError(f"the questions {name[:12]} are not in order")
            count += 1
        for run in runs:
            if not count == distinct == run.count:
                raise ValueError(f"the run {run.id} has {run.count:,} questions, and {distinct:,} of them are here")

    def _run(self, number: int, run: Run) -> None:
        questions = sa.select(schema.questions.c.question_id).where(schema.questions.c.set == run.questions)
        for table in (schema.attempts, schema.scores, schema.earlier_attempts, schema.notes):
            self._at = f"{table.name} of {run.id}"
            strangers = sa.select(sa.func.count()).where(
                table.c.run == number,
                table.c.question_id.not_in(questions) | (table.c.epoch < 0) | (table.c.epoch >= run.epochs),
            )
            if count := self._reading.execute(strangers).scalar_one():
                raise ValueError(f"{count:,} of them are of questions that the run does not have")
        for table in (*RUN_TABLES, schema.notes):
            self._at = f"{table.name} of {run.id}"
            for row in self._rows(table, own(table, "run", number)):
                _check_shown(*(str(getattr(row, name) or "") for name in _SHOWN if name in table.c))
                if table is schema.notes and len(row.text) > LONGEST_NOTE:
                    raise ValueError(f"a note has {len(row.text):,} characters")
                self._marks.of(table, row)
        self._marks.unfinished(number, run, self._final)

    def _arenas(self, runs: set[str]) -> Iterator[VerifiedArena]:
        for row in self._rows(schema.arenas, sa.select(schema.arenas).order_by(schema.arenas.c.number)):
            self._at = f"arena {row.id}"
            arena = msgspec.msgpack.decode(decompress_untrusted(row.body))
            _check_shown(row.id, *(system["name"] for system in arena["systems"]), *arena["judges"])
            played = {system["run"] for system in arena["systems"] if system.get("run")}
            if not played or not played <= runs:
                continue
            self._marks.mark(self._marks.payers, [arena_payer(row.fingerprint)])
            for one in self._rows(schema.judgements, own(schema.judgements, "arena", row.number)):
                self._marks.of(schema.judgements, one)
            for _ in self._rows(schema.votes, own(schema.votes, "arena", row.number)):
                pass  # their types are all there is to check
            kept = {name: value for name, value in row._mapping.items() if name != "number"}
            yield VerifiedArena(row.number, row.id, row.fingerprint, kept)

    def _calls(self) -> None:
        self._at = "recorded calls"
        marked, calls = self._marks.calls, schema.calls
        for row in self._rows(calls, sa.select(calls).join(marked, calls.c.key == marked.c.mark)):
            self._marks.of(schema.calls, row)
        self._missing(marked, calls.c.key, "recorded calls")

    def _texts(self) -> None:
        self._at = "texts"
        marked, blobs = self._marks.blobs, schema.blobs
        for row in self._rows(blobs, sa.select(blobs).join(marked, blobs.c.hash == marked.c.mark), 20):
            text = decompress_untrusted(row.data)
            if hash_of(text) != row.hash:
                raise ValueError("a text is not what its hash says")
            text.decode("utf-8")
        self._missing(marked, blobs.c.hash, "texts")

    def _missing(self, marked: sa.Table, column: sa.Column[Any], what: str) -> None:
        held = sa.exists().where(column == marked.c.mark)
        lacking = sa.select(sa.func.count()).select_from(marked).where(~held)
        if count := self._reading.execute(lacking).scalar_one():
            raise ValueError(f"{count:,} {what} that the runs refer to are missing")

    def _rows(self, table: sa.Table, statement: sa.Select[Any], size: int = 100) -> _Rows:
        for row in reported(stream(self._reading, statement, size), f"reading {self._at}", self._report):
            _check_types(table, row)
            yield row

    def _broken(self, why: str) -> UserError:
        return UserError(f"{self._place} cannot be read: {self._at}: {why}. Nothing was written.")


def own(table: sa.Table, column: str, number: int) -> sa.Select[Any]:
    """The statement that selects the rows of a run or an arena."""
    return sa.select(table).where(table.c[column] == number)


def own_rows(connection: sa.Connection, table: sa.Table, column: str, number: int) -> _Rows:
    """The rows of a run or an arena, as they come."""
    return stream(connection, own(table, column, number))


def digest(connection: sa.Connection, table: sa.Table, column: str, number: int) -> tuple[int, int]:
    """How many rows a run or an arena has in a table, and a hash of them that does not depend on their order."""
    count = total = 0
    for row in own_rows(connection, table, column, number):
        # Scores are made again where their code has changed (`code`): what they are is in the other columns.
        values = [value for name, value in row._mapping.items() if name not in (column, "code", "checksum")]
        count += 1
        total += int.from_bytes(hashlib.sha256(msgspec.msgpack.encode(values)).digest()[:16], "big")
    return count, total % 2**128


_TYPES: dict[type[Any], tuple[type, ...]] = {
    sa.Text: (str,),
    sa.Integer: (int,),
    sa.Float: (float, int),
    sa.LargeBinary: (bytes,),
}


_SHOWN = ("scorer", "code", "chosen", "author", "mark")
"""Columns of names that tables show."""


def _check_shown(*names: str) -> None:
    """Raise ValueError for names with control characters: tables show names as they are, and ours have none."""
    for name in names:
        if not name.isprintable():
            raise ValueError(f"a name holds control characters: {name!r}")


def _check_types(table: sa.Table, row: Any) -> None:
    # SQLite keeps whatever it is given in any column.
    for column, value in zip(table.columns, row, strict=True):
        if value is None and column.nullable:
            continue
        if not isinstance(value, _TYPES[type(column.type)]) or (isinstance(value, str) and "\0" in value):
            raise ValueError(f"{table.name}.{column.name} holds {type(value).__name__} of the wrong kind")


RUN_TABLES: tuple[sa.Table, ...] = (
    schema.attempts,
    schema.earlier_attempts,
    schema.scores,
    schema.gradings,
    schema.regradings,
    schema.stoppings,
)
"""Tables whose rows belong to a run and are copied with it. Readers' notes are too; two stores may differ in them."""
_BYTES = 8 << 20
"""Bytes of rows written at a time."""


class TransferResult(Struct, frozen=True, kw_only=True):
    """What copying has added to the target."""

    runs: tuple[str, ...]
    """Ids of the runs that were added."""
    present: tuple[str, ...]
    """Ids of the runs that were there already, equal in every row."""
    arenas: tuple[str, ...]
    """Ids of the arenas that were added."""
    calls: int
    """Recorded calls that were added."""
    texts: int
    differing: int
    """Calls that the target had recorded with another reply: that one stays, and traces show it."""


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
        report: called with the step and the rows it has passed.

    Raises:
        UserError: the source is broken or lacks something, or the target has a run of the same id with other content,
            or knows another server where one of the runs was answered; nothing was written.
        StopRun: the target cannot be written.
    """
    with snapshot(source) as reading:
        marks = Marks(reading)
        chosen = SourceVerifier(reading, shown(source), marks, final, report).read(runs)
        present = _present(reading, target, chosen)
        new = [run for run in chosen.runs.values() if run.id not in present]
        adopt_servers(target, new, check=True)
        writer = _Writer(reading, target, report)
        for table in (schema.questions,):
            for name in chosen.sets:
                writer.add(table, stream(reading, sa.select(table).where(table.c.set == name)))
        marked = sa.select(schema.blobs).join(marks.blobs, schema.blobs.c.hash == marks.blobs.c.mark)
        texts = writer.add(schema.blobs, stream(reading, marked, 20))
        marked = sa.select(schema.calls).join(marks.calls, schema.calls.c.key == marks.calls.c.mark)
        calls = writer.add(schema.calls, stream(reading, marked))
        for number, run in chosen.runs.items():
            if run.id not in present:
                tables = (*RUN_TABLES, schema.notes)
                writer.run(run, {table: own_rows(reading, table, "run", number) for table in tables})
            else:
                writer.notes(run, own_rows(reading, schema.notes, "run", number))
        arenas = [arena for arena in chosen.arenas if arena.id not in present]
        for arena in arenas:
            rows = {table: own_rows(reading, table, "arena", arena.number) for table in ARENA_TABLES}
            writer.arena(arena.row, rows)
    adopt_servers(target, new, check=False)
    return TransferResult(
        runs=tuple(run.id for run in new),
        present=tuple(sorted(present & {run.id for run in chosen.runs.values()})),
        arenas=tuple(arena.id for arena in arenas),
        calls=calls,
        texts=texts,
        differing=writer.differing,
    )


def _present(reading: sa.Connection, target: sa.Engine, chosen: VerifiedSource) -> set[str]:
    """Ids of the runs and arenas that the target holds already with equal rows.

    Raises:
        UserError: the target holds one of the same id with other rows.
    """
    present: set[str] = set()
    with snapshot(target) as there:
        known = {row.id: row for row in there.execute(sa.select(schema.runs))}
        for number, run in chosen.runs.items():
            if run.id in known:
                mine = {table.name: digest(reading, table, "run", number) for table in RUN_TABLES}
                other = {table.name: digest(there, table, "run", known[run.id].number) for table in RUN_TABLES}
                same = run_of(known[run.id].body) == run
                if not same or mine != other:
                    what = "another run" if not same else _difference(mine, other)
                    raise UserError(
                        f"{shown(target)} has a run {run.id} already, and it is not the same: {what}. Nothing was "
                        f"written. Remove one of them (`ragrounds runs rm {run.id}`), or name the others alone."
                    )
                present.add(run.id)
        arenas = {row.fingerprint: row for row in there.execute(sa.select(schema.arenas))}
        for arena in chosen.arenas:
            if (row := arenas.get(arena.fingerprint)) is not None:
                mine = {table.name: digest(reading, table, "arena", arena.number) for table in ARENA_TABLES}
                other = {table.name: digest(there, table, "arena", row.number) for table in ARENA_TABLES}
                if mine != other:
                    raise UserError(
                        f"{shown(target)} has the arena {arena.id} already, and it is not the same: "
                        f"{_difference(mine, other)}. Nothing was written."
                    )
                present.add(arena.id)
    return present


def _difference(mine: Mapping[str, tuple[int, int]], other: Mapping[str, tuple[int, int]]) -> str:
    name = next(name for name in mine if mine[name] != other[name])
    here, there = other[name][0], mine[name][0]
    return f"{here:,} {name} there, {there:,} in what is copied" if here != there else f"other {name}"


class _Writer:
    """Writes rows in bounded batches, a transaction each; a run or arena with its rows is one transaction."""

    def __init__(self, reading: sa.Connection, target: sa.Engine, report: Progress) -> None:
        self._reading = reading
        self._target = target
        self._report = report
        self.differing = 0

    def add(self, table: sa.Table, rows: _Rows) -> int:
        """Write the rows whose key the target does not hold yet; returns how many."""
        new = done = 0
        for batch in _batches(rows):
            done += len(batch)
            fresh = self._new(table, batch)
            if fresh:
                with writing(self._target) as connection:
                    connection.execute(insert_new(self._target, table), fresh)
            new += len(fresh)
            self._report(f"writing {table.name}", done)
        return new

    def _new(self, table: sa.Table, batch: list[_Plain]) -> list[_Plain]:
        if table is schema.questions:
            return batch
        key = next(iter(table.primary_key.columns)).name
        shown_too = [table.c.response] if table is schema.calls else []
        wanted = sa.select(table.c[key], *shown_too).where(table.c[key].in_([row[key] for row in batch]))
        with self._target.connect() as connection:
            known = {bytes(row[0]): row for row in connection.execute(wanted)}
        if table is schema.calls:
            both = [(row["response"], known[row[key]].response) for row in batch if row[key] in known]
            self.differing += sum(not self._same(mine, theirs) for mine, theirs in both)
        return [row for row in batch if row[key] not in known]

    def _same(self, mine: bytes, theirs: bytes) -> bool:
        # Which parts of a text are stored apart depends on what was stored before it.
        if decompress(mine) == decompress(theirs):
            return True
        with self._target.connect() as connection:
            return bool(unpack(mine, dict, _texts(self._reading)) == unpack(theirs, dict, _texts(connection)))

    def run(self, run: Run, own: Mapping[sa.Table, _Rows]) -> None:
        """Write a run with its own rows, whole or not at all."""
        row = {"id": run.id, "fingerprint": run.fingerprint, "created": run.created, "body": run_body(run)}
        self._whole(schema.runs, row, schema.runs.c.id == run.id, "run", own, f"writing {run.id}")

    def notes(self, run: Run, rows: _Rows) -> None:
        """Add readers' notes to a run that is there: of one author's two at an attempt, the later one stays."""
        table = schema.notes
        statement = upsert(self._target, table)
        try:
            for batch in _batches(rows):
                with self._target.begin() as connection:
                    named = sa.select(schema.runs.c.number).where(schema.runs.c.id == run.id)
                    number = connection.execute(named).scalar_one()
                    there = connection.execute(sa.select(table).where(table.c.run == number))
                    known = {(row.question_id, row.epoch, row.author): row.at for row in there}
                    places = [(row["question_id"], row["epoch"], row["author"]) for row in batch]
                    later = [
                        {**row, "run": number}
                        for row, place in zip(batch, places, strict=True)
                        if place not in known or row["at"] > known[place]
                    ]
                    if later:
                        connection.execute(statement, later)
        except sa.exc.SQLAlchemyError as error:
            raise writing_failed(self._target, error) from error

    def arena(self, row: Mapping[str, object], own: Mapping[sa.Table, _Rows]) -> None:
        """Write an arena with its judgements and votes, whole or not at all."""
        same = schema.arenas.c.fingerprint == row["fingerprint"]
        self._whole(schema.arenas, row, same, "arena", own, f"writing {row['id']}")

    def _whole(
        self,
        table: sa.Table,
        row: Mapping[str, object],
        same: sa.ColumnElement[bool],
        column: str,
        own: Mapping[sa.Table, _Rows],
        what: str,
    ) -> None:
        done = 0
        with writing(self._target) as connection:
            connection.execute(sa.insert(table), row)
            number = connection.execute(sa.select(table.c.number).where(same)).scalar_one()
            for other, rows in own.items():
                for batch in _batches(rows):
                    connection.execute(sa.insert(other), [{**one, column: number} for one in batch])
                    done += len(batch)
                    self._report(what, done)


def _texts(connection: sa.Connection) -> Fetch:
    def _fetch(hashes: Iterable[bytes]) -> dict[bytes, str]:
        wanted = sa.select(schema.blobs).where(schema.blobs.c.hash.in_(list(hashes)))
        return {bytes(row.hash): decompress(row.data).decode() for row in connection.execute(wanted)}

    return _fetch


def _batches(rows: _Rows) -> Iterator[list[_Plain]]:
    batch: list[_Plain] = []
    size = 0
    for row in rows:
        batch.append(dict(row._mapping))
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(batch) >= BATCH or size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
