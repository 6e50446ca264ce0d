"""Everything that a store holds, looked at row by row (`ragrounds doctor --store`): what is damaged, missing or odd.

Rows are streamed and what they refer to is marked in temporary tables, so a store of any size is walked in little
memory. Nothing is changed, and one fault hides no other: what a row says is only used where it can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from shlex import quote
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import UNREADABLE, Marks, Progress, reported
from ragrounds.evals.store.codec import StoredQuestion, decompress_untrusted, run_of
from ragrounds.evals.store.database import dialect_of, said, snapshot, stream
from ragrounds.evals.store.leases import is_stale

Grade = Literal["damage", "note"]
"""``damage``: something does not match its checksum, or is missing. ``note``: nothing is lost; for information."""
MOST = 200
"""Findings of one kind that are kept with their places; of all more only the number is."""


class Finding(Struct, frozen=True):
    """One thing that was found."""

    grade: Grade
    kind: str
    """Such as ``attempt``, ``score``, ``text``, ``recorded call``, ``lease``."""
    place: str
    """Where: a run with a question and an epoch, a key."""
    what: str
    """What is wrong with it."""


_KINDS = {"calls": "recorded call", "blobs": "text"}
"""Tables whose rows have another name."""
_REFERRED = {"calls": "attempts or judgements refer to it", "blobs": "a record refers to it"}
"""Tables all of whose marked rows must be there."""


class Findings:
    """What was looked at and what was found, bounded in memory."""

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter()
        self.found: Counter[tuple[Grade, str]] = Counter()
        self.kept: list[Finding] = []

    def add(self, grade: Grade, kind: str, place: str, what: object) -> None:
        """Keep a finding."""
        self.found[grade, kind] += 1
        if self.found[grade, kind] <= MOST:
            self.kept.append(Finding(grade, kind, place, " ".join(str(what).split())[:300]))


class Verification:
    """One walk through a store."""

    def __init__(self, engine: sa.Engine, findings: Findings, report: Progress = lambda step, rows: None) -> None:
        self._engine = engine
        self._findings = findings
        self._report = report
        self.runs: dict[int, Run] = {}
        """The runs that can be read, by their numbers."""
        self.unreadable = False
        """Whether pages of the database itself cannot be read."""
        self._asked: Counter[str] = Counter()
        """Set → how many of its questions were read."""

    def walk(self) -> None:
        """Look at everything."""
        self._part("database", self._database)
        with snapshot(self._engine) as reading:
            self._reading, self._marks = reading, Marks(reading)
            # Runs name the places of other rows; recorded calls and texts are looked at once all else has named them.
            ends = {schema.runs: 0, schema.questions: 1, schema.calls: 3, schema.blobs: 4}
            for table in sorted(schema.metadata.sorted_tables, key=lambda one: ends.get(one, 2)):
                self._part(table.name, partial(self._table, table))
            self._part("database", self._marks.drop)

    def _part(self, name: str, part: Callable[[], None]) -> None:
        try:
            part()
        except sa.exc.DatabaseError as error:  # a page of the file cannot be read: what is behind it is unseen
            self._findings.add("damage", "database", name, said(error))
            self.unreadable = True

    def _database(self) -> None:
        """What the database says of its own pages, indexes and references."""
        self._report("pages and indexes", 0)
        for kind, place, what in dialect_of(self._engine).faults(self._engine, MOST):
            self._findings.add("damage", kind, place, what)

    def _table(self, table: sa.Table) -> None:
        """Every row of a table by itself, then what is missing in it or too much."""
        kind = _KINDS.get(table.name, table.name.removesuffix("s"))
        what = f"{kind}s" if table.name in _KINDS else table.name
        self._findings.checked[what] += 0  # also what the store has none of was looked at
        self._marks.flush()
        keys = table.primary_key.columns
        statement = sa.select(table).order_by(*keys) if table is schema.questions else sa.select(table)
        stale: Callable[[Any], bool] = is_stale if table is schema.leases else lambda row: False
        for row in reported(stream(self._reading, statement, 20 if table is schema.blobs else 100), what, self._report):
            self._findings.checked[what] += 1
            try:
                self._row(table, row)
                self._marks.of(table, row)
            except UNREADABLE as error:
                self._findings.add("damage", kind, self._place(table, row), error)
            if stale(row):
                held = f"held by process {row.pid} on {row.host}, which has ended; the same command resumes"
                self._findings.add("note", "lease", row.run, held)
        if table is schema.questions:
            for run in self.runs.values():
                if (here := self._asked[run.questions]) != run.count:
                    lack = f"{run.count:,} questions were asked, and {here:,} are present"
                    self._findings.add("damage", "question set", run.id, lack)
        if {"run", "question_id", "epoch"} <= set(table.c.keys()):
            for number, run in self.runs.items():
                self._of_run(table, kind, number, run)
        if why := _REFERRED.get(table.name):
            marked = self._marks.calls if table is schema.calls else self._marks.blobs
            held_here = sa.exists().where(next(iter(keys)) == marked.c.mark)
            for (mark,) in stream(self._reading, sa.select(marked.c.mark).where(~held_here)):
                self._findings.add("damage", kind, bytes(mark).hex(), f"{why}, and it is missing")

    def _row(self, table: sa.Table, row: Any) -> None:
        """Check a run's row, or a question's, against others."""
        if table is schema.runs:
            run = run_of(row.body)
            if (run.id, run.fingerprint, run.created) != (row.id, row.fingerprint, row.created):
                raise ValueError("its columns do not match their checksums")
            self.runs[row.number] = run
        elif table is schema.questions:
            position = self._asked[row.set]
            self._asked[row.set] += 1
            item = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
            if item.question.id != row.question_id or row.position != position:
                raise ValueError("its columns do not match their checksums, or one before it is missing")

    def _of_run(self, table: sa.Table, kind: str, number: int, run: Run) -> None:
        """Rows of questions and epochs that a run does not have; attempts without a score, and scores without one."""
        asked, scores, attempts = schema.questions.c, schema.scores, schema.attempts
        mine = table.c.run == number
        known = table.c.question_id.in_(sa.select(asked.question_id).where(asked.set == run.questions))
        stranger = sa.and_(mine, sa.or_(~known, table.c.epoch < 0, table.c.epoch >= run.epochs))
        self._counted(table, stranger, "damage", kind, run, "are of questions or epochs that the run does not have")

        def has(other: sa.Table) -> sa.ColumnElement[bool]:
            places = sa.select(other.c.question_id, other.c.epoch).where(other.c.run == number)
            return sa.tuple_(table.c.question_id, table.c.epoch).in_(places)

        if table is attempts:
            bare = mine & (table.c.status == "completed") & ~has(scores)
            self._counted(table, bare, "note", "attempts without a score", run, f"`ragrounds score {quote(run.id)}`")
        elif table is scores:
            self._counted(table, mine & ~has(attempts), "damage", kind, run, "belong to missing attempts")

    def _counted(
        self, table: sa.Table, which: sa.ColumnElement[bool], grade: Grade, kind: str, run: Run, what: str
    ) -> None:
        count = self._reading.execute(sa.select(sa.func.count()).select_from(table).where(which)).scalar_one()
        if count:
            self._findings.add(grade, kind, run.id, f"{count:,}{' ' if grade == 'damage' else ': '}{what}")

    def _place(self, table: sa.Table, row: Any) -> str:
        """Where a row is: an id, or its key with the run's id, a scorer last."""
        if "id" in table.c:
            return str(row.id)
        names = sorted((column.name for column in table.primary_key.columns), key=lambda name: name == "scorer")
        return ", ".join(self._key(name, getattr(row, name)) for name in names)

    def _key(self, name: str, value: Any) -> str:
        if name == "run" and isinstance(value, int):
            return self.runs[value].id if value in self.runs else f"run {value}"
        if name == "epoch":
            return f"epoch {value}"
        return value.hex() if isinstance(value, bytes) else repr(value) if name == "question_id" else str(value)
