"""Everything that a store holds, looked at row by row (`ragrounds doctor --store`): what is damaged, missing or odd.

Rows are streamed and what they refer to is marked in temporary tables, so a store of any size is walked in little
memory. Nothing is changed, and one fault hides no other: what a row says is only used where it can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.asked_again import unpacked
from ragrounds.evals.store.codec import (
    DamagedRecord,
    StoredQuestion,
    decode_without_texts,
    decompress_untrusted,
    hash_of,
    is_whole,
    run_of,
)
from ragrounds.evals.store.database import dialect_of, said, snapshot, stream
from ragrounds.evals.store.garbage import Marks, Progress, reported
from ragrounds.evals.store.index_backlog import missing_of
from ragrounds.evals.store.leases import is_stale
from ragrounds.evals.store.text_index import count_words, has_words
from ragrounds.records import AnswerStatus, Run, Status

Grade = Literal["damage", "note"]
"""``damage``: something is not what was written, or is missing. ``note``: nothing is lost, and somebody should know."""
MOST = 200
"""Findings of one kind that are kept with their places; of all more only the number is."""
_UNREADABLE = (
    DamagedRecord,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
)


class Finding(Struct, frozen=True):
    """One thing that was found."""

    grade: Grade
    kind: str
    """Such as ``attempt``, ``score``, ``text``, ``recorded call``, ``lease``."""
    place: str
    """Where: a run with a question and an epoch, a key."""
    what: str
    """What is wrong with it."""


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

    def walk(self) -> None:
        """Look at everything."""
        self._part(self._database)
        with snapshot(self._engine) as reading:
            self._reading, self._marks = reading, Marks(reading)
            for part in (
                self._runs,
                self._questions,
                self._attempts,
                self._scores,
                self._others,
                self._derived,
                self._calls,
                self._texts,
                self._leases,
            ):
                self._part(part)
            self._marks.drop()

    def _part(self, part: Callable[[], None]) -> None:
        try:
            part()
        except sa.exc.DatabaseError as error:  # a page of the file cannot be read: what is behind it is unseen
            self._findings.add("damage", "database", part.__name__.strip("_"), said(error))
            self.unreadable = True

    def _database(self) -> None:
        """What the database says of its own pages, indexes and references."""
        self._report("pages and indexes", 0)
        for kind, place, what in dialect_of(self._engine).faults(self._engine, MOST):
            self._findings.add("damage", kind, place, what)

    def _runs(self) -> None:
        for row in self._rows(schema.runs, "runs"):
            with self._reads("run", row.id):
                run = run_of(row.body)
                if (run.id, run.fingerprint, run.created) != (row.id, row.fingerprint, row.created):
                    raise ValueError("its columns are not what was written")
                self.runs[row.number] = run

    def _questions(self) -> None:
        table = schema.questions
        counts: Counter[str] = Counter()
        ordered = sa.select(table).order_by(table.c["set"], table.c.position)
        for row in self._rows(table, "questions", ordered):
            place = f"{row.set[:12]}, {row.position:,}"
            with self._reads("question", place):
                item = msgspec.msgpack.decode(decompress_untrusted(row.body), type=StoredQuestion)
                if item.question.id != row.question_id or row.position != counts[row.set]:
                    raise ValueError("its columns are not what was written, or one before it is missing")
            counts[row.set] += 1
        for run in self.runs.values():
            if counts[run.questions] != run.count:
                what = f"{run.count:,} questions were asked, and {counts[run.questions]:,} are here"
                self._findings.add("damage", "question set", run.id, what)

    def _attempts(self) -> None:
        table = schema.attempts
        for row in self._rows(table, "attempts"):
            with self._reads("attempt", self._place(row)):
                if row.status not in get_args(Status):
                    raise ValueError(f"the status {row.status!r} is none")
                self._marks.of_attempt(row)
        self._strangers(table, "attempt")
        for number, run in self.runs.items():
            scores = schema.scores
            made = sa.select(table.c.question_id, table.c.epoch).where(
                table.c.run == number, table.c.status == "completed"
            )
            scored = sa.select(scores.c.question_id, scores.c.epoch).where(scores.c.run == number)
            bare = sa.select(sa.func.count()).select_from(made.except_(scored).subquery())
            if count := self._count(bare):
                self._findings.add("note", "attempts without a score", run.id, f"{count:,}: `ragrounds score {run.id}`")

    def _scores(self) -> None:
        table = schema.scores
        for row in self._rows(table, "scores"):
            with self._reads("score", f"{self._place(row)}, {row.scorer}"):
                if row.answer_status not in get_args(AnswerStatus):
                    raise ValueError(f"the answer status {row.answer_status!r} is none")
                if not is_whole(row):
                    raise ValueError("it is not what was written")
        self._strangers(table, "score")
        made = sa.exists().where(
            schema.attempts.c.run == table.c.run,
            schema.attempts.c.question_id == table.c.question_id,
            schema.attempts.c.epoch == table.c.epoch,
        )
        for number, run in self.runs.items():
            alone = sa.select(sa.func.count()).select_from(table).where(table.c.run == number, ~made)
            if count := self._count(alone):
                self._findings.add("damage", "score", run.id, f"{count:,} are of attempts that are not there")

    def _others(self) -> None:
        """Everything else that belongs to runs and arenas: what it refers to, and that its bodies can be read."""
        known = (schema.runs, schema.questions, schema.attempts, schema.scores, schema.calls, schema.blobs)
        for table in schema.metadata.sorted_tables:
            if table in known or table in schema.DERIVED:
                continue
            for row in self._rows(table, table.name):
                key = ", ".join(str(getattr(row, column.name)) for column in table.primary_key.columns)
                with self._reads(table.name.removesuffix("s"), key):
                    if table is schema.judgements:
                        self._marks.of_judgement(row)
                    elif table in (schema.gradings, schema.regradings):
                        self._marks.mark(self._marks.calls, [bytes(row.key)])
                    elif table is schema.stoppings:
                        decompress_untrusted(row.body)
                        continue
                    elif table is schema.earlier_attempts:
                        unpacked(row.asked_again)
                        self._marks.of_attempt(row)
                        continue
                    if "body" in table.c and row.body is not None:
                        self._marks.mark(self._marks.blobs, decode_without_texts(row.body)[1])

    def _derived(self) -> None:
        """The full-text index and facts, which are made again from all else."""
        remedy = "`ragrounds runs index --anew` makes it again"
        if has_words(self._reading):
            self._report("full-text index", 0)
            try:
                self._findings.checked["words of the full-text index"] += count_words(self._engine)
            except sa.exc.DatabaseError as error:
                self._findings.add("damage", "full-text index", schema.WORDS, f"{said(error)}; {remedy}")
        for number, run in self.runs.items():
            if count := missing_of(self._reading, [number], texts=False):
                what = f"{count:,}: `ragrounds runs index {run.id}`, or the viewer's first filter"
                self._findings.add("note", "attempts without facts", run.id, what)

    def _calls(self) -> None:
        calls, marked = schema.calls, self._marks.calls
        self._marks.flush()
        for row in self._rows(calls, "recorded calls"):
            with self._reads("recorded call", bytes(row.key).hex()):
                for part in (row.request, row.response):
                    plain, hashes = decode_without_texts(part)
                    if not isinstance(plain, dict | list):
                        raise TypeError(f"{type(plain).__name__} is no record")
                    self._marks.mark(self._marks.blobs, hashes)
        self._missing(marked, calls.c.key, "recorded call", "attempts or judgements refer to it")

    def _texts(self) -> None:
        blobs, marked = schema.blobs, self._marks.blobs
        self._marks.flush()
        for row in self._rows(blobs, "texts", size=20):
            with self._reads("text", bytes(row.hash).hex()):
                text = decompress_untrusted(row.data)
                if hash_of(text) != bytes(row.hash):
                    raise ValueError("it is not what its hash says")
                text.decode("utf-8")
        self._missing(marked, blobs.c.hash, "text", "a record refers to it")

    def _leases(self) -> None:
        for row in self._reading.execute(sa.select(schema.leases)):
            if is_stale(row):
                what = f"held by process {row.pid} on {row.host}, which has ended; the next to make the run takes it"
                self._findings.add("note", "lease", row.run, what)

    def _strangers(self, table: sa.Table, kind: str) -> None:
        """Rows of questions and epochs that their run does not have."""
        asked = schema.questions.c
        for number, run in self.runs.items():
            questions = sa.select(asked.question_id).where(asked.set == run.questions)
            wrong = table.c.question_id.not_in(questions) | (table.c.epoch < 0) | (table.c.epoch >= run.epochs)
            if count := self._count(sa.select(sa.func.count()).select_from(table).where(table.c.run == number, wrong)):
                what = f"{count:,} are of questions or epochs that the run does not have"
                self._findings.add("damage", kind, run.id, what)

    def _missing(self, marked: sa.Table, column: sa.Column[Any], kind: str, why: str) -> None:
        held = sa.exists().where(column == marked.c.mark)
        for (mark,) in stream(self._reading, sa.select(marked.c.mark).where(~held)):
            self._findings.add("damage", kind, bytes(mark).hex(), f"{why}, and it is not there")

    def _place(self, row: Any) -> str:
        run = self.runs.get(row.run)
        return f"{run.id if run else f'run {row.run}'}, {row.question_id!r}, epoch {row.epoch}"

    def _count(self, statement: sa.Select[Any]) -> int:
        return int(self._reading.execute(statement).scalar_one())

    def _rows(
        self, table: sa.Table, what: str, statement: sa.Select[Any] | None = None, size: int = 100
    ) -> Iterator[Any]:
        wanted = sa.select(table) if statement is None else statement
        self._findings.checked[what] += 0  # also what the store has none of was looked at
        for row in reported(stream(self._reading, wanted, size), what, self._report):
            self._findings.checked[what] += 1
            yield row

    def _reads(self, kind: str, place: str) -> _Reads:
        return _Reads(self._findings, kind, place)


class _Reads:
    """Keeps what goes wrong in a block as a finding."""

    def __init__(self, findings: Findings, kind: str, place: str) -> None:
        self._findings, self._kind, self._place = findings, kind, place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, _UNREADABLE):
            return False
        self._findings.add("damage", self._kind, self._place, error)
        return True
