"""Verification of a store, row by row (`ragrounds doctor --store`): damaged, missing and unusual rows.

Rows are streamed and their references are marked in temporary tables, so a store of any size is walked in little
memory. Nothing is changed, and one fault hides no other: the content of a row is only used if it can be read.
"""

from __future__ import annotations

import os
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
from ragrounds.evals.store.care.key_search import KEY, KeySearch, plain_bytes
from ragrounds.evals.store.codec import StoredQuestion, decompress_untrusted, run_of
from ragrounds.evals.store.database import database_message, dialect_of, snapshot, stream
from ragrounds.evals.store.leases import is_stale
from ragrounds.evals.store.row_sums import meta_value
from ragrounds.evals.store.servers import missing_servers

Grade = Literal["damage", "note"]
"""Severity of a finding. ``damage``: a row does not match its checksum, or is missing. ``note``: nothing is lost; for
information.
"""
MOST = 200
"""Number of findings of one kind that are stored with their places; further ones are only counted."""


class Finding(Struct, frozen=True):
    """One finding of a verification."""

    grade: Grade
    kind: str
    """Kind of the object, such as ``attempt``, ``score``, ``text``, ``recorded call``, ``lease``."""
    place: str
    """Location of the object: a run with a question and an epoch, or a key."""
    what: str
    """Description of the problem."""


_KINDS = {"calls": "recorded call", "blobs": "text"}
"""Tables whose rows have another name in messages."""
_REFERRED = {"calls": "attempts or judgements refer to it", "blobs": "a record refers to it"}
"""Tables all of whose marked rows must exist."""


class Findings:
    """Numbers of checked rows and findings, and the stored findings, bounded in memory."""

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter()
        self.counts: Counter[tuple[Grade, str]] = Counter()
        self.findings: list[Finding] = []

    def add(self, grade: Grade, kind: str, location: str, description: object) -> None:
        """Store a finding."""
        self.counts[grade, kind] += 1
        if self.counts[grade, kind] <= MOST:
            self.findings.append(Finding(grade, kind, location, " ".join(str(description).split())[:300]))


class Verification:
    """Verification of one store."""

    def __init__(self, engine: sa.Engine, findings: Findings, report: Progress = lambda step, rows: None) -> None:
        self._engine = engine
        self._findings = findings
        self._report = report
        self.runs: dict[int, Run] = {}
        """Runs that can be read, by their numbers."""
        self.unreadable = False
        """True if pages of the database itself cannot be read."""
        self._keys = KeySearch(os.environ)
        self._key_texts: dict[bytes, list[str]] = {}
        """Names of the variables whose values are in a text, by the text's hash."""
        self._n_questions: Counter[str] = Counter()
        """Number of questions that were read, by set."""

    def walk(self) -> None:
        """Verify everything."""
        self._part("database", self._database)
        with snapshot(self._engine) as reading:
            self._reading, self._marks = reading, Marks(reading)
            # Runs name the keys of other rows, so they come first. Recorded calls and texts are checked once all other
            # tables have named them.
            ends = {schema.runs: 0, schema.questions: 1, schema.calls: 3, schema.blobs: 4}
            for table in sorted(schema.metadata.sorted_tables, key=lambda candidate: ends.get(candidate, 2)):
                self._part(table.name, partial(self._table, table))
            self._part("attempts with keys", self._key_attempts)
            self._part("database", self._marks.drop)

    def _part(self, name: str, part: Callable[[], None]) -> None:
        try:
            part()
        except sa.exc.DatabaseError as error:  # a page of the file cannot be read: the rows after it are not checked
            self._findings.add("damage", "database", name, database_message(error))
            self.unreadable = True

    def _database(self) -> None:
        """Record the faults that the database finds in its own pages, indexes and references."""
        self._report("pages and indexes", 0)
        for kind, location, description in dialect_of(self._engine).faults(self._engine, MOST):
            self._findings.add("damage", kind, location, description)

    def _table(self, table: sa.Table) -> None:
        """Check every row of a table, then missing and surplus rows."""
        kind = _KINDS.get(table.name, table.name.removesuffix("s"))
        plural = f"{kind}s" if table.name in _KINDS else table.name
        self._findings.checked[plural] += 0  # an empty table counts as checked, too
        self._marks.flush()
        keys = table.primary_key.columns
        statement = sa.select(table).order_by(*keys) if table is schema.questions else sa.select(table)
        stale: Callable[[Any], bool] = is_stale if table is schema.leases else lambda row: False
        for row in reported(
            stream(self._reading, statement, 20 if table is schema.blobs else 100), plural, self._report
        ):
            self._findings.checked[plural] += 1
            try:
                self._row(table, row)
                self._marks.mark_row(table, row)
            except UNREADABLE as error:
                self._findings.add("damage", kind, self._location(table, row), error)
            if names := self._keys.names_in(row):
                if table is schema.blobs:
                    self._key_texts[bytes(row.hash)] = names
                else:
                    self._report_keys(f"{kind} {self._location(table, row)}", names)
            if stale(row):
                message = f"held by process {row.pid} on {row.host}, which has ended; the same command resumes"
                self._findings.add("note", "lease", row.run, message)
        if table is schema.questions:
            for run in self.runs.values():
                if (n_present := self._n_questions[run.questions]) != run.count:
                    count_message = f"{run.count:,} questions were asked, and {n_present:,} are present"
                    self._findings.add("damage", "question set", run.id, count_message)
        for run, server in missing_servers(self._engine, self.runs.values()) if table is schema.servers else ():
            self._findings.add("damage", kind, run.id, f"the record of {server}, which answered the run, is missing")
        if {"run", "question_id", "epoch"} <= set(table.c.keys()):
            for number, run in self.runs.items():
                self._check_run(table, kind, number, run)
        if reference_words := _REFERRED.get(table.name):
            marked = self._marks.calls if table is schema.calls else self._marks.blobs
            held_here = sa.exists().where(next(iter(keys)) == marked.c.mark)
            for (mark,) in stream(self._reading, sa.select(marked.c.mark).where(~held_here)):
                self._findings.add("damage", kind, bytes(mark).hex(), f"{reference_words}, and it is missing")

    def _key_attempts(self) -> None:
        """Report the texts that hold keys, each with the first attempt that refers to it."""
        table = schema.attempts
        columns = (*table.primary_key.columns, table.c.body)
        for row in stream(self._reading, sa.select(*columns)) if self._key_texts else ():
            body = plain_bytes(row.body)
            for hash in [hash for hash in self._key_texts if hash in body]:
                self._report_keys(f"attempt {self._location(table, row)}", self._key_texts.pop(hash))
        for hash, names in self._key_texts.items():
            self._report_keys(f"text {hash.hex()}", names)

    def _report_keys(self, location: str, names: list[str]) -> None:
        words = f"holds {', '.join(names)} of this environment: change that key; `ragrounds runs rm` removes a run"
        self._findings.add("note", KEY, location, words)

    def _row(self, table: sa.Table, row: Any) -> None:
        """Check the row of a run or a question against other rows."""
        if table is schema.runs:
            run = run_of(row.body)
            if (run.id, run.fingerprint, run.created) != (row.id, row.fingerprint, row.created):
                raise ValueError("its columns do not match their checksums")
            self.runs[row.number] = run
        elif table is schema.questions:
            position = self._n_questions[row.set]
            self._n_questions[row.set] += 1
            stored = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
            if stored.question.id != row.question_id or row.position != position:
                raise ValueError("its columns do not match their checksums, or one before it is missing")
        # The store's version has no checksum: every version of ragrounds must be able to read it.
        elif table is schema.meta and row.key != "version" and meta_value(row.key, row.value) is None:
            raise ValueError("it does not match its checksum")

    def _check_run(self, table: sa.Table, kind: str, number: int, run: Run) -> None:
        """Report rows of questions and epochs that a run does not have, attempts without a score, and scores without an
        attempt.
        """
        questions, scores, attempts = schema.questions.c, schema.scores, schema.attempts
        of_run = table.c.run == number
        is_of_run = table.c.question_id.in_(sa.select(questions.question_id).where(questions.set == run.questions))
        stranger = sa.and_(of_run, sa.or_(~is_of_run, table.c.epoch < 0, table.c.epoch >= run.epochs))
        self._report_count(
            table, stranger, "damage", kind, run, "are of questions or epochs that the run does not have"
        )

        def has(other: sa.Table) -> sa.ColumnElement[bool]:
            keys = sa.select(other.c.question_id, other.c.epoch).where(other.c.run == number)
            return sa.tuple_(table.c.question_id, table.c.epoch).in_(keys)

        if table is attempts:
            bare = of_run & (table.c.status == "completed") & ~has(scores)
            self._report_count(
                table, bare, "note", "attempts without a score", run, f"`ragrounds score {quote(run.id)}`"
            )
        elif table is scores:
            self._report_count(table, of_run & ~has(attempts), "damage", kind, run, "belong to missing attempts")

    def _report_count(
        self, table: sa.Table, which: sa.ColumnElement[bool], grade: Grade, kind: str, run: Run, description: str
    ) -> None:
        count = self._reading.execute(sa.select(sa.func.count()).select_from(table).where(which)).scalar_one()
        if count:
            self._findings.add(grade, kind, run.id, f"{count:,}{' ' if grade == 'damage' else ': '}{description}")

    def _location(self, table: sa.Table, row: Any) -> str:
        """Return the location of a row: an id, or its key with the run's id, a scorer last."""
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
