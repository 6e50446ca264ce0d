"""Runs moved between stores, with all that they rest on: attempts, scores, questions, recorded calls, texts, arenas.

Everything is read and checked before anything is written. Calls, texts and questions are found by their content and
only add; a run and what is its own appears in one transaction. Whoever is killed in the middle leaves whole runs, and
perhaps calls that nothing refers to yet: the same command goes on, and `gc` would remove them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.checking import ARENA_TABLES, SourceVerifier, VerifiedSource, digest, own_rows
from ragrounds.evals.store.database import insert_new, shown, writing_failed
from ragrounds.evals.store.marking import BATCH, Marks, snapshot, stream
from ragrounds.evals.store.packing import Fetch, decompress, unpack
from ragrounds.evals.store.rows import run_body
from ragrounds.records import Run

MOVED: tuple[sa.Table, ...] = (schema.attempts, schema.scores, schema.gradings, schema.stoppings)
"""Tables whose rows belong to a run and move with it."""
_BYTES = 8 << 20
"""Bytes of rows written at a time."""
Tell = Callable[[str, int], None]
"""Told what is being done and how much of it is done."""


class TransferResult(Struct, frozen=True, kw_only=True):
    """What a move has brought."""

    runs: tuple[str, ...]
    """Ids of the runs that are new there."""
    present: tuple[str, ...]
    """Ids of the runs that were there already, equal in every row."""
    arenas: tuple[str, ...]
    """Ids of the arenas that are new there."""
    calls: int
    """Recorded calls that are new there."""
    texts: int
    differing: int
    """Calls that the other store has recorded with another reply: its own was left, and traces show that one."""


def move(
    source: sa.Engine, target: sa.Engine, runs: Sequence[Run], final: frozenset[str], tell: Tell = lambda what, n: None
) -> TransferResult:
    """Copy runs from `source` to `target`, and every arena that only they played in.

    `final`: statuses of attempts that are not made again; for the others the calls already paid are taken along.

    Raises:
        UserError: the source is broken or lacks something, or the target has a run of the same id with other content;
            nothing was written.
        StopRun: the target cannot be written.
    """
    with snapshot(source) as reading:
        marks = Marks(reading)
        chosen = SourceVerifier(reading, shown(source), marks, final, tell).read(runs)
        present = _present(reading, target, chosen)
        writing = _Writing(reading, target, tell)
        for table in (schema.questions,):
            for name in chosen.sets:
                writing.add(table, stream(reading, sa.select(table).where(table.c.set == name)))
        marked = sa.select(schema.blobs).join(marks.blobs, schema.blobs.c.hash == marks.blobs.c.mark)
        texts = writing.add(schema.blobs, stream(reading, marked, 20))
        marked = sa.select(schema.calls).join(marks.calls, schema.calls.c.key == marks.calls.c.mark)
        calls = writing.add(schema.calls, stream(reading, marked))
        new = [run for run in chosen.runs.values() if run.id not in present]
        for number, run in chosen.runs.items():
            if run.id not in present:
                writing.run(run, {table: own_rows(reading, table, "run", number) for table in MOVED})
        arenas = [arena for arena in chosen.arenas if arena.id not in present]
        for arena in arenas:
            rows = {table: own_rows(reading, table, "arena", arena.number) for table in ARENA_TABLES}
            writing.arena(arena.row, rows)
    return TransferResult(
        runs=tuple(run.id for run in new),
        present=tuple(sorted(present & {run.id for run in chosen.runs.values()})),
        arenas=tuple(arena.id for arena in arenas),
        calls=calls,
        texts=texts,
        differing=writing.differing,
    )


def _present(reading: sa.Connection, target: sa.Engine, chosen: VerifiedSource) -> set[str]:
    """Ids of runs and arenas that the target has already, row for row.

    Raises:
        UserError: it has one of the same id that is not equal.
    """
    present: set[str] = set()
    with snapshot(target) as there:
        known = {row.id: row for row in there.execute(sa.select(schema.runs))}
        for number, run in chosen.runs.items():
            if run.id in known:
                mine = {table.name: digest(reading, table, "run", number) for table in MOVED}
                other = {table.name: digest(there, table, "run", known[run.id].number) for table in MOVED}
                same = decompress(known[run.id].body) == decompress(run_body(run))
                if not same or mine != other:
                    what = "another run" if not same else _difference(mine, other)
                    raise UserError(
                        f"{shown(target)} has a run {run.id} already, and it is not the same: {what}. Nothing was "
                        f"written. Remove one of them (`ragrounds runs rm {run.id}`), or move the others by name."
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
    return f"{here:,} {name} there, {there:,} in what is moved" if here != there else f"other {name}"


class _Writing:
    """Writes rows in bounded batches, each a transaction of its own; runs and arenas in one each."""

    def __init__(self, reading: sa.Connection, target: sa.Engine, tell: Tell) -> None:
        self._reading = reading
        self._target = target
        self._tell = tell
        self.differing = 0

    def add(self, table: sa.Table, rows: Iterator[Any]) -> int:
        """Write those rows whose key is not there yet; gives how many."""
        new = done = 0
        for batch in _batches(rows):
            done += len(batch)
            fresh = self._fresh(table, batch)
            if fresh:
                try:
                    with self._target.begin() as connection:
                        connection.execute(insert_new(self._target, table), fresh)
                except sa.exc.SQLAlchemyError as error:
                    raise writing_failed(self._target, error) from error
            new += len(fresh)
            self._tell(f"writing {table.name}", done)
        return new

    def _fresh(self, table: sa.Table, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
        # Which parts of a text stand apart depends on what was stored before it.
        if decompress(mine) == decompress(theirs):
            return True
        with self._target.connect() as connection:
            return bool(unpack(mine, dict, _texts(self._reading)) == unpack(theirs, dict, _texts(connection)))

    def run(self, run: Run, own: Mapping[sa.Table, Iterator[Any]]) -> None:
        """Write a run with what is its own, whole or not at all."""
        row = {"id": run.id, "fingerprint": run.fingerprint, "created": run.created, "body": run_body(run)}
        self._whole(schema.runs, row, schema.runs.c.id == run.id, "run", own, f"writing {run.id}")

    def arena(self, row: Mapping[str, Any], own: Mapping[sa.Table, Iterator[Any]]) -> None:
        """Write an arena with its judgements and votes, whole or not at all."""
        same = schema.arenas.c.fingerprint == row["fingerprint"]
        self._whole(schema.arenas, row, same, "arena", own, f"writing {row['id']}")

    def _whole(
        self,
        table: sa.Table,
        row: Mapping[str, Any],
        same: sa.ColumnElement[bool],
        column: str,
        own: Mapping[sa.Table, Iterator[Any]],
        what: str,
    ) -> None:
        done = 0
        try:
            with self._target.begin() as connection:
                connection.execute(sa.insert(table), row)
                number = connection.execute(sa.select(table.c.number).where(same)).scalar_one()
                for other, rows in own.items():
                    for batch in _batches(rows):
                        connection.execute(sa.insert(other), [{**one, column: number} for one in batch])
                        done += len(batch)
                        self._tell(what, done)
        except sa.exc.SQLAlchemyError as error:
            raise writing_failed(self._target, error) from error


def _texts(connection: sa.Connection) -> Fetch:
    def fetch(hashes: Iterable[bytes]) -> dict[bytes, str]:
        wanted = sa.select(schema.blobs).where(schema.blobs.c.hash.in_(list(hashes)))
        return {bytes(row.hash): decompress(row.data).decode() for row in connection.execute(wanted)}

    return fetch


def _batches(rows: Iterator[Any]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        batch.append(dict(row._mapping))
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(batch) >= BATCH or size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
