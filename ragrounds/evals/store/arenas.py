"""Arenas in the store: their settings, the judgements of their judges, the votes of people.

An arena is identified by its settings: systems, questions and judging. Equal settings are the same arena, which the
same command resumes. :class:`ArenaStore` reads and writes all of it; :func:`answer_verdicts` reads the judgements of
one answer, for the trace of an attempt.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Call
from ragrounds.base.spent import Spent, Usage
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import (
    DamagedRecord,
    blob_rows,
    compress,
    decode_without_texts,
    decompress,
    pack,
    unpack,
)
from ragrounds.evals.store.database import SAVE, fetch_rows, stream, upsert, writing
from ragrounds.evals.store.row_sums import is_whole, is_whole_row, summed, summed_columns
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store, now
from ragrounds.evals.store.writer import group

PairOrders = Literal["both", "one"]
CallsPerPair = Literal["together", "apart"]
AnswerPart = Literal["whole", "final"]
VerdictWord = Literal["won", "lost", "tie", "unreadable", "failed"]
_LETTERS: dict[str, VerdictWord] = {"1": "won", "2": "lost", "=": "tie", "?": "unreadable", "!": "failed"}
_TURNED: dict[VerdictWord, VerdictWord] = {"won": "lost", "lost": "won"}


class Axis(Struct, frozen=True):
    """Axis on which two answers are compared: its name, and its meaning in the judge's prompt."""

    name: str
    en: str
    """Meaning in English."""
    zh: str = ""
    """Meaning in Chinese; if it is empty, the English text is used."""

    def text(self, language: str) -> str:
        """Return the meaning in the question's language, or in English if there is no such text."""
        return self.zh if language == "zh" and self.zh else self.en


class Contestant(Struct, frozen=True, kw_only=True):
    """System that plays: a stored run, or the benchmark's own reference answers."""

    name: str
    run: str = ""
    """Id of the run; empty for reference answers."""
    model: str = ""
    """Canonical text of the answering model, which shows whether a judge favours its own answers."""


_deterministic = msgspec.json.Encoder(order="deterministic")


class Arena(Struct, frozen=True, kw_only=True):
    """Settings of an arena: everything that determines its calls and how their replies are read."""

    systems: tuple[Contestant, ...]
    benchmark: str
    questions: str
    """Hash of the questions that all systems answered, and of the answers."""
    count: int
    axes: tuple[Axis, ...]
    judges: tuple[str, ...]
    """Canonical texts of the models."""
    prompts: dict[str, str]
    """Hash of each prompt."""
    calls: CallsPerPair = "together"
    """Calls for a pair: one for all axes, or one for each axis, as published."""
    orders: PairOrders = "both"
    tries: int = 3
    part: AnswerPart = "whole"
    epoch: int = 0
    schedule: str = "published"
    least: int = 80
    confidence: float = 0.95
    seed: int = 0
    code: str = ""
    """Digest of the code that asks the judges and reads their replies."""

    @property
    def fingerprint(self) -> str:
        """Hash of all settings (SHA-256, hexadecimal)."""
        return hashlib.sha256(_deterministic.encode(self)).hexdigest()

    @property
    def id(self) -> str:
        """Short name that commands take."""
        return f"arena-{self.fingerprint[:8]}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the systems, in the order of their indices."""
        return tuple(system.name for system in self.systems)

    @property
    def parts(self) -> tuple[tuple[Axis, ...], ...]:
        """Axes of each call for a pair."""
        return (self.axes,) if self.calls == "together" else tuple((axis,) for axis in self.axes)


class ArenaJudgement(Struct, frozen=True, kw_only=True, gc=False):
    """Judgement by one judge of one pair in one order, in one call (or its repetitions)."""

    judge: int
    """Index of the judge among the arena's."""
    question_id: str
    first: int
    """Index of the system whose answer was shown first."""
    second: int
    part: int
    """Index of the call among the arena's calls for a pair."""
    number: int
    """Index of the match in the order of play, from 0."""
    outcomes: str
    """Outcome for each axis of the part, as a letter: ``1`` the first is better, ``2`` the second, ``=`` tie, ``?``
    unreadable, ``!`` the call failed.
    """
    how: str = "asked"
    """Way in which the judgement was made. ``asked``; ``cut``: asked with answers truncated to the judge's window;
    ``empty``: one answer or both were empty; ``identical``: both were the same text. The last two need no judge.
    """
    calls: int = 0
    usage: Usage | None = None
    cost_paid: float | None = 0.0
    cost_uncached: float | None = 0.0

    @property
    def key(self) -> tuple[int, str, int, int, int]:
        """Judge, question, order and part, which are judged only once."""
        return self.judge, self.question_id, self.first, self.second, self.part

    @property
    def spent(self) -> Spent:
        """Return its calls, tokens and dollars."""
        return Spent(calls=self.calls, usage=self.usage, cost_paid=self.cost_paid, cost_uncached=self.cost_uncached)


class JudgementDetail(Struct, frozen=True):
    """Evidence of a judgement."""

    reasons: dict[str, str]
    """Reason why an axis has no verdict, by axis."""
    calls: tuple[Call, ...]
    extra: tuple[str, ...] = ()
    """Keys of unrequested replies."""


class Vote(Struct, frozen=True, kw_only=True):
    """Verdict of a person on a pair of systems on one axis."""

    voter: str
    question_id: str
    first: int
    """Smaller index of the two systems."""
    second: int
    axis: str
    outcome: str
    """Outcome: ``first``, ``second``, ``tie`` or ``skip``."""


class ArenaStore:
    """Arenas of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, arena: Arena) -> int:
        """Write the arena if it is new, and return its number in the store.

        Raises:
            StopRun: the store cannot be written.
        """
        row = {
            "id": arena.id,
            "fingerprint": arena.fingerprint,
            "created": now(),
            "body": compress(msgspec.msgpack.encode(arena)),
        }
        with writing(self._store.engine) as connection:
            number_query = sa.select(schema.arenas.c.number).where(schema.arenas.c.fingerprint == arena.fingerprint)
            number = connection.execute(number_query).scalar()
            if number is None:
                connection.execute(sa.insert(schema.arenas), row)
                number = connection.execute(number_query).scalar_one()
        return int(number)

    def arenas(self) -> list[Arena]:
        """Return all arenas, the oldest first."""
        rows = fetch_rows(self._store.engine, sa.select(schema.arenas.c.body).order_by(schema.arenas.c.number))
        return [msgspec.msgpack.decode(decompress(row.body), type=Arena) for row in rows]

    def arena(self, reference: str = "") -> Arena:
        """Return an arena by its id or the beginning of it; the newest if no reference is given.

        Raises:
            UserError: none, or several.
        """
        stored = self.arenas()
        if not stored:
            raise UserError("There is no arena yet. Play one first: `ragrounds arena play RUN RUN --judge MODEL`.")
        if not reference:
            return stored[-1]
        matches = [arena for arena in stored if arena.id.startswith(reference)]
        if len(matches) != 1:
            names = [arena.id for arena in stored]
            problem = "matches several arenas" if matches else "matches no arena"
            raise UserError(f"{reference!r} {problem}.{nearest(reference, names)} Known: {', '.join(names)}.")
        return matches[0]

    def rows(self, number: int, judgement: ArenaJudgement, detail: JudgementDetail) -> list[Row]:
        """Return the rows in which a judgement is stored."""
        body, long_texts = pack(detail)
        row = msgspec.structs.asdict(judgement)
        usage = row.pop("usage")
        row |= {"input": usage and usage.input, "output": usage and usage.output, "arena": number, "body": body}
        return [*blob_rows(long_texts), (schema.judgements, summed(schema.judgements, row))]

    async def write(self, number: int, judgement: ArenaJudgement, detail: JudgementDetail) -> None:
        """Write a judgement, and return when it is on the disk."""
        await self._store.writer.write(lambda: self.rows(number, judgement, detail))

    def judgements(self, number: int) -> list[ArenaJudgement]:
        """Return all judgements of an arena in the order of play, without their details."""
        # A row's values are read by position, so the body's place stays.
        bare = [sa.null() if column.name == "body" else column for column in schema.judgements.c]
        return [_judgement(row) for row in fetch_rows(self._store.engine, _in_order(number).with_only_columns(*bare))]

    def details(self, number: int, *, missing: bool = False) -> Iterator[tuple[ArenaJudgement, JudgementDetail]]:
        """Yield judgements with their details in the order of play; with `missing` only those without a verdict."""
        outcomes = schema.judgements.c.outcomes
        lacking = outcomes.contains("?") | outcomes.contains("!")
        for row in fetch_rows(self._store.engine, _in_order(number, lacking if missing else sa.true())):
            yield _judgement(row), unpack(row.body, JudgementDetail, self._store.texts)

    def call_keys(self, number: int) -> set[str]:
        """Return the keys of the calls on which an arena's judgements are based, without those that failed."""
        return {call["key"] for call in self._calls(number) if call["key"] and not call.get("error")}

    def answered_by(self, number: int) -> dict[str, Counter[str]]:
        """Map the judge → the model that its replies name → the number of calls."""
        counts: dict[str, Counter[str]] = {}
        for call in self._calls(number):
            if call.get("model"):
                counts.setdefault(call["actor"], Counter())[call["model"]] += 1
        return counts

    def _calls(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the calls of an arena's judgements as plain values."""
        statement = sa.select(schema.judgements.c.body).where(schema.judgements.c.arena == number)
        with self._store.engine.connect() as connection:
            for row in stream(connection, statement, 500):
                yield from decode_without_texts(row.body)[0]["calls"]

    def add_votes(self, number: int, votes: Sequence[Vote]) -> None:
        """Write votes; a later vote of the same person on the same pair and axis replaces the earlier one."""
        rows = [msgspec.structs.asdict(vote) | {"arena": number, "at": now()} for vote in votes]
        rows_by_table = group([(schema.votes, summed(schema.votes, row)) for row in rows], {})
        with writing(self._store.engine) as connection:
            for table, keyed in rows_by_table.values():
                connection.execute(upsert(self._store.engine, table), list(keyed.values()))

    def votes(self, number: int) -> list[Vote]:
        """Return all votes of an arena, by voter and question."""
        table = schema.votes
        order = (table.c.voter, table.c.question_id, table.c.first, table.c.second, table.c.axis)
        statement = sa.select(*summed_columns(table)).where(table.c.arena == number).order_by(*order)
        rows = fetch_rows(self._store.engine, statement)
        if not all(map(is_whole, rows)):
            raise DamagedRecord("a vote does not match its checksum", SAVE)
        return [Vote(**{name: getattr(row, name) for name in Vote.__struct_fields__}) for row in rows]

    def remove(self, arena: Arena) -> None:
        """Remove an arena with its judgements and votes. Recorded calls stay until `gc`."""
        with self._store.engine.begin() as connection:  # its foreign keys delete these too
            connection.execute(sa.delete(schema.arenas).where(schema.arenas.c.fingerprint == arena.fingerprint))


def _in_order(number: int, which: sa.ColumnElement[bool] | None = None) -> sa.Select[Any]:
    """Return the statement that selects judgements of an arena in the order of play."""
    table = schema.judgements
    mine = table.c.arena == number if which is None else sa.and_(table.c.arena == number, which)
    return sa.select(table).where(mine).order_by(table.c.number, table.c.judge)


_PLAIN = tuple(name for name in ArenaJudgement.__struct_fields__ if name in schema.judgements.c)


def _judgement(row: Any) -> ArenaJudgement:
    if not is_whole_row(schema.judgements, row, long=False):
        message = f"a judgement of the question {row.question_id!r} does not match its checksum"
        raise DamagedRecord(message, f"{SAVE} With the new store the same `ragrounds arena play` continues.")
    usage = None if row.input is None or row.output is None else Usage(row.input, row.output)
    return ArenaJudgement(**{name: getattr(row, name) for name in _PLAIN}, usage=usage)


class AnswerVerdict(Struct, frozen=True, kw_only=True):
    """Judgement from the point of view of one of its answers."""

    arena: str
    judge: str
    against: str
    """Name of the other system."""
    shown: Literal["first", "second"]
    """Position of this answer in the judge's prompt."""
    how: str
    axes: dict[str, VerdictWord]
    """Verdict on this answer, by axis."""
    reasons: dict[str, str]
    calls: tuple[Call, ...]


def answer_verdicts(store: Store, run: str, question_id: str, epoch: int = 0) -> list[AnswerVerdict]:
    """Return the judgements of a run's answer to a question, over all arenas in which it played."""
    verdicts: list[AnswerVerdict] = []
    for number, body in fetch_rows(store.engine, sa.select(schema.arenas.c.number, schema.arenas.c.body)):
        arena: Arena = msgspec.msgpack.decode(decompress(body), type=Arena)
        indices = [index for index, system in enumerate(arena.systems) if system.run == run]
        if indices and arena.epoch == epoch:
            table, index = schema.judgements, indices[0]
            mine = sa.and_(
                table.c.judge.in_(range(len(arena.judges))),  # so that the key finds the question without a scan
                table.c.question_id == question_id,
                sa.or_(table.c.first == index, table.c.second == index),
            )
            rows = fetch_rows(store.engine, _in_order(number, mine))
            verdicts += [_answer_verdict(store, arena, index, row) for row in rows]
    return verdicts


def _answer_verdict(store: Store, arena: Arena, index: int, row: Any) -> AnswerVerdict:
    first = row.first == index
    detail = unpack(row.body, JudgementDetail, store.texts)
    axes = zip(arena.parts[row.part], row.outcomes, strict=False)
    return AnswerVerdict(
        arena=arena.id,
        judge=arena.judges[row.judge],
        against=arena.names[row.second if first else row.first],
        shown="first" if first else "second",
        how=row.how,
        axes={axis.name: _verdict_word(letter, first) for axis, letter in axes},
        reasons=detail.reasons,
        calls=detail.calls,
    )


def _verdict_word(letter: str, first: bool) -> VerdictWord:
    word = _LETTERS.get(letter, "unreadable")
    return word if first else _TURNED.get(word, word)
