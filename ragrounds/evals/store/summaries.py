"""Summaries of attempts, without text and events, read in pages: what a viewer of very large runs shows.

The rows of the list are what a run was asked: question × epoch, in the order of the questions, whether answered yet or
not. So a row's place is plain arithmetic: opening counts nothing, any part is read by key, and rows do not move while a
run is being made. Only sorting and filtering pass over the whole run, and they hold one number a row.

Every call opens a connection of its own, because a viewer reads from several threads.
"""

from __future__ import annotations

import bisect
import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import StoredQuestion, decompress, is_whole, score_of
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.store import Store
from ragrounds.records import Gold, Question, Run, Score

SortBy = Literal["asked", "cost", "calls", "time", "tokens", "score", "newest"]
SORTS: tuple[SortBy, ...] = ("asked", "cost", "calls", "time", "tokens", "score", "newest")


MARKS = ("right", "wrong", "unscored")


class AttemptSummary(Struct, frozen=True, kw_only=True):
    """One row: a question of a run, and the attempt at it without text and events."""

    run: Run
    index: int
    """Its place among all rows, unsorted."""
    question: Question
    gold: Gold
    epoch: int
    outcome: str
    """One of :data:`ragrounds.records.OUTCOMES`, by the scorer of `scorer`."""
    scorer: str
    """What `value` is by; empty: not scored."""
    value: float | None
    prediction: str
    cost_uncached: float | None
    cost_paid: float | None
    tokens: int | None
    calls: int | None
    seconds: float | None
    at: float | None

    @property
    def wrong(self) -> bool:
        """Whether it is scored, and below full marks."""
        return self.value is not None and self.value < 1

    @property
    def troubled(self) -> bool:
        """Whether the attempt failed, was capped or blocked, or paused, or its text is empty."""
        return self.outcome in ("failed", "capped", "blocked", "paused", "empty")


class Filter(Struct, frozen=True):
    """Which rows are wanted; empty fields want all."""

    runs: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
    subjects: frozenset[str] = frozenset()
    """Groups of questions, or the benchmark's name where a question has no group."""
    marks: frozenset[str] = frozenset()
    """``right``, ``wrong``, ``unscored``."""
    text: str = ""
    """In the question's id, its text, or its subject."""

    def __bool__(self) -> bool:
        return bool(self.runs or self.outcomes or self.subjects or self.marks or self.text)


def subject(question: Question) -> str:
    """What tables group a question by: its group, or else the benchmark it is from."""
    return question.group or question.benchmark


def matches(item: StoredQuestion, wanted: Filter) -> bool:
    """Whether a question's subject and text are wanted."""
    question = item.question
    if wanted.subjects and subject(question) not in wanted.subjects:
        return False
    if not wanted.text:
        return True
    lines = (question.id, subject(question), question.text, *question.options.values())
    return wanted.text.casefold() in "\n".join(lines).casefold()


PREFERRED = ("strict", "facts", "mirage", "robust")
"""Scorers whose score the list shows: the first that an attempt has."""
_CHUNK = 400
_Q, _A, _S = schema.questions, schema.attempts, schema.scores


class Pages:
    """The rows of some runs of one store, numbered from 0 over all of them."""

    def __init__(self, store: Store, runs: Sequence[Run], scorers: Sequence[str] = PREFERRED) -> None:
        self.store = store
        self.runs = tuple(runs)
        self.scorers = tuple(scorers)
        self._numbers = [store.number(run) for run in runs]
        sizes = [run.count * run.epochs for run in runs]
        self._starts = [0, *itertools.accumulate(sizes)]

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, indices: Iterable[int]) -> list[AttemptSummary]:
        """The rows at these places, in this order; places beyond the last row are left out."""
        wanted = list(indices)
        found: dict[int, AttemptSummary] = {}
        by_run: dict[int, list[tuple[int, int]]] = {}
        for index in {index for index in wanted if 0 <= index < len(self)}:
            number = bisect.bisect_right(self._starts, index) - 1
            position, epoch = divmod(index - self._starts[number], self.runs[number].epochs)
            by_run.setdefault(number, []).append((position, epoch))
        with self.connect() as connection:
            for number, places in by_run.items():
                view = self._view(number)
                asked = sorted({position for position, _ in places})
                for start in range(0, len(asked), _CHUNK):
                    chunk = asked[start : start + _CHUNK]
                    for row in connection.execute(sa.select(view).where(view.c.position.in_(chunk))):
                        summary = self._summary(number, row)
                        found[summary.index] = summary
        return [found[index] for index in wanted if index in found]

    def order(self, wanted: Filter, sort: SortBy = "asked", descending: bool = True) -> array[int]:
        """The places of the wanted rows, sorted; rows without a figure to sort by are last in either direction."""
        keyed: list[tuple[bool, float, int]] = []
        plain: array[int] = array("Q")
        looks = bool(wanted.text or wanted.subjects)
        with self.connect() as connection:
            for number, run in enumerate(self.runs):
                if wanted.runs and run.id not in wanted.runs:
                    continue
                view = self._view(number)
                columns: list[Any] = [view.c.position, view.c.epoch]
                columns += [view.c[_COLUMNS[sort]].label("key")] if sort != "asked" else []
                columns += [view.c.body] if looks else []
                statement = sa.select(*columns).where(*_conditions(view, wanted))
                for row in connection.execute(statement.order_by(view.c.position, view.c.epoch)):
                    if looks and not matches(msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion), wanted):
                        continue
                    index = self._starts[number] + row.position * run.epochs + row.epoch
                    if sort == "asked":
                        plain.append(index)
                    else:
                        value = 0.0 if row.key is None else float(row.key)
                        keyed.append((row.key is None, -value if descending else value, index))
        if sort == "asked":
            return plain
        return array("Q", (index for _, _, index in sorted(keyed)))

    def counts(self) -> dict[str, dict[str, int]]:
        """Run id → outcome → number of attempts. Passes over the whole runs."""
        counted: dict[str, dict[str, int]] = {}
        with self.connect() as connection:
            for number, run in enumerate(self.runs):
                view = self._view(number)
                statement = sa.select(view.c.outcome, sa.func.count()).group_by(view.c.outcome)
                counted[run.id] = {str(name): int(count) for name, count in connection.execute(statement)}
        return counted

    def subjects(self) -> dict[str, int]:
        """Subject → number of questions. Passes over all questions."""
        counted: dict[str, int] = {}
        with self.connect() as connection:
            for name in dict.fromkeys(run.questions for run in self.runs):
                for row in connection.execute(sa.select(_Q.c.body).where(_Q.c.set == name)):
                    group = subject(msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion).question)
                    counted[group] = counted.get(group, 0) + 1
        return counted

    def differing(self, first: int, second: int) -> Iterator[tuple[str, int, int, float, float]]:
        """Attempts at the same question that one scorer scores differently in two runs (by their place in `runs`).

        Yields:
            Question id, epoch, the first run's row, and both values, in the first run's order.
        """
        epochs, start = self.runs[first].epochs, self._starts[first]
        with self.connect() as connection:
            # Read one after the other: the database has no index to join two runs' views by.
            view = self._view(second)
            known = {
                (row.question_id, row.epoch, row.scorer): row.value
                for row in connection.execute(sa.select(*(view.c[name] for name in _PAIRED)))
            }
            view = self._view(first)
            statement = sa.select(view.c.position, *(view.c[name] for name in _PAIRED))
            for row in connection.execute(statement.order_by(view.c.position, view.c.epoch)):
                against = known.get((row.question_id, row.epoch, row.scorer))
                if row.value is not None and against is not None and row.value != against:
                    yield row.question_id, row.epoch, start + row.position * epochs + row.epoch, row.value, against

    def row_of(self, run: int, question_id: str, epoch: int = 0) -> int | None:
        """The place of a question in the run at `run` among `runs`; ``None``: it was not asked there."""
        chosen = self.runs[run]
        statement = sa.select(_Q.c.position).where(_Q.c.set == chosen.questions, _Q.c.question_id == question_id)
        with self.connect() as connection:
            position = connection.execute(statement).scalar()
        if position is None or epoch >= chosen.epochs:
            return None
        return int(self._starts[run] + position * chosen.epochs + epoch)

    def scores(self, summary: AttemptSummary) -> tuple[Score, ...]:
        """All scores of an attempt, by the name of the scorer."""
        number = self._numbers[self.runs.index(summary.run)]
        found: list[Score] = []
        with self.connect() as connection:
            # One step of the index a scorer: naming no scorer would pass over all scores of the run.
            last = ""
            while True:
                after = sa.select(sa.func.min(_S.c.scorer)).where(_S.c.run == number, _S.c.scorer > last)
                last = connection.execute(after).scalar() or ""
                if not last:
                    return tuple(found)
                statement = sa.select(_S).where(
                    _S.c.run == number,
                    _S.c.scorer == last,
                    _S.c.question_id == summary.question.id,
                    _S.c.epoch == summary.epoch,
                )
                found += [score_of(summary.run, row) for row in connection.execute(statement)]

    def connect(self) -> sa.Connection:
        """A connection of which every read sees what is committed by then."""
        return autocommit(self.store.engine)

    def _view(self, number: int) -> sa.Subquery:
        """Question × epoch of a run, with its attempt and score where there are any."""
        run, key = self.runs[number], self._numbers[number]
        epochs = sa.union_all(*(sa.select(sa.literal(epoch).label("epoch")) for epoch in range(run.epochs))).subquery()
        attempt = sa.and_(_A.c.run == key, _A.c.question_id == _Q.c.question_id, _A.c.epoch == epochs.c.epoch)
        joined: sa.FromClause = sa.join(_Q, epochs, sa.true()).outerjoin(_A, attempt)
        scores = []
        for scorer in self.scorers:
            score = _S.alias()
            scores.append(score)
            joined = joined.outerjoin(
                score,
                sa.and_(
                    score.c.run == key,
                    score.c.scorer == scorer,
                    score.c.question_id == _Q.c.question_id,
                    score.c.epoch == epochs.c.epoch,
                ),
            )

        def _chosen(name: str) -> sa.ColumnElement[Any]:
            # The first scorer that has scored the attempt, even where its value is missing.
            cases = [(score.c.scorer.is_not(None), score.c[name]) for score in scores]
            return sa.case(*cases, else_=sa.null()) if cases else sa.null()

        # As `ragrounds.records.outcome` decides it; a test compares both.
        outcome = sa.case(
            (_A.c.status.is_(None), "not_run"),
            (_A.c.status != "completed", _A.c.status),
            else_=sa.func.coalesce(_chosen("answer_status"), "answered"),
        )
        columns = [_A.c.cost_uncached, _A.c.cost_paid, _A.c.calls, _A.c.seconds, _A.c.at]
        return (
            sa.select(
                _Q.c.position,
                _Q.c.question_id,
                _Q.c.body,
                epochs.c.epoch,
                *columns,
                (_A.c.input + _A.c.output).label("tokens"),
                outcome.label("outcome"),
                *(_chosen(name).label(name) for name in _OF_SCORES),
            )
            .select_from(joined)
            .where(_Q.c.set == run.questions)
            .subquery()
        )

    def _summary(self, number: int, row: Any) -> AttemptSummary:
        run = self.runs[number]
        item = msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion)
        whole = not row.scorer or is_whole(row)
        return AttemptSummary(
            run=run,
            index=self._starts[number] + row.position * run.epochs + row.epoch,
            question=item.question,
            gold=item.gold,
            epoch=row.epoch,
            outcome=row.outcome,
            scorer=row.scorer or "",
            value=row.value if whole else None,
            prediction=(row.prediction or "") if whole else _DAMAGED,
            cost_uncached=row.cost_uncached,
            cost_paid=row.cost_paid,
            tokens=row.tokens,
            calls=row.calls,
            seconds=row.seconds if row.seconds or row.at else None,  # imported: never measured
            at=row.at,
        )


_OF_SCORES = ("scorer", "value", "answer_status", "prediction", "reason", "checksum")
_DAMAGED = "the score is damaged: ragrounds doctor --store"
_PAIRED = ("question_id", "epoch", "scorer", "value")
_COLUMNS = {
    "cost": "cost_uncached",
    "calls": "calls",
    "time": "seconds",
    "tokens": "tokens",
    "score": "value",
    "newest": "at",
}


def _conditions(view: sa.Subquery, wanted: Filter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.outcomes:
        conditions.append(view.c.outcome.in_(sorted(wanted.outcomes)))
    if wanted.marks:
        marks = {"right": view.c.value >= 1, "wrong": view.c.value < 1, "unscored": view.c.value.is_(None)}
        conditions.append(sa.or_(*(marks[name] for name in sorted(wanted.marks))))
    return conditions
