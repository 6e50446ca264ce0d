"""The rows of one run as SQL: question × epoch, with the attempt, its facts and its score where there are any.

A statement joins only the tables that it names a column of: one over all rows of a large run is quick by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_filter import TextTest, ValueTest, Where
from ragrounds.evals.store.database import dialect_of
from ragrounds.records import COUNTED

Column = sa.ColumnElement[Any]
Statement = sa.Select[*tuple[Any, ...]]

TROUBLED = ("failed", "capped", "blocked", "paused", "empty")
"""Outcomes of attempts that did not end as they should."""
_Q, _A, _F, _S, _N = schema.questions, schema.attempts, schema.facts, schema.scores, schema.notes
_NUMBERS: dict[str, Column] = {
    "cost": _A.c.cost_uncached,
    "paid": _A.c.cost_paid,
    "tokens": _A.c.input + _A.c.output,
    "input": _A.c.input,
    "output": _A.c.output,
    "calls": _A.c.calls,
    "newest": _A.c.at,
    # Imported ones were never measured.
    "time": sa.case((sa.or_(_A.c.seconds != 0, _A.c.at != 0), _A.c.seconds), else_=sa.null()),
    "retry": _A.c.retry,
    **{name: _A.c[name] for name in COUNTED},
    "steps": _F.c.steps,
    "searches": _F.c.searches,
    "hops": _F.c.searches,
    "repeated": _F.c.repeated,
    "model_calls": _F.c.model_calls,
    "failed_calls": _F.c.failed_calls,
    "failed_searches": _F.c.failed_searches,
    "faults": _F.c.faults,
    "gold_known": _F.c.gold,
    "gold_found": _F.c.gold_found,
    "gold_seen": _F.c.gold_seen,
    "gold_cut": _F.c.gold_cut,
    "gold_missed": _F.c.gold - _F.c.gold_found,
    "gold_unseen": _F.c.gold - _F.c.gold_seen,
    "gold_rank": _F.c.gold_rank,
    "gold_hop": _F.c.gold_hop,
}


class NamedRows(Protocol):
    """What names mean in some runs, for conditions whose answers are in no column."""

    def run_named(self, number: int, test: ValueTest) -> bool:
        """Whether the run at this place is meant: by its agent, id or benchmark."""
        ...

    def positions(self, number: int, test: ValueTest) -> Sequence[int]:
        """The positions of the questions that are meant: by subject or by their texts."""
        ...


class TextPlaces(Protocol):
    """Which attempts hold some words."""

    def questions(self, number: int, test: TextTest) -> Mapping[int, Sequence[str]]:
        """Epoch → the ids of the questions at which the attempt of the run at this place holds the words."""
        ...


class RunRows:
    """The columns of one run, each table joined at its first use.

    Args:
        engine: of the store; only its kind matters.
        number: the run's place among the runs that are shown.
        key: its number in the store.
        questions: the name of its set of questions.
        epochs: how often each was asked.
        scorers: by preference; the first that has scored an attempt counts.
        others: scorers of which the first counts where none of the preferred ones has scored an attempt.
        names: what names mean.
        texts: which attempts hold some words.
    """

    def __init__(
        self,
        engine: sa.Engine,
        number: int,
        key: int,
        questions: str,
        epochs: int,
        scorers: Sequence[str],
        names: NamedRows,
        texts: TextPlaces,
        others: Sequence[str] = (),
    ) -> None:
        self._engine, self._number, self._key, self._names, self._texts = engine, number, key, names, texts
        self._set, self._epochs = questions, epochs
        self._asked = (
            sa.union_all(*(sa.select(sa.literal(epoch).label("epoch")) for epoch in range(epochs))).subquery()
            if epochs > 1
            else None
        )
        self.epoch: sa.ColumnElement[int] = sa.literal_column("0") if self._asked is None else self._asked.c.epoch
        self._scores = [(scorer, _S.alias()) for scorer in scorers]
        self._others = tuple(others)
        self._joined: set[str] = set()

    @property
    def place(self) -> sa.ColumnElement[int]:
        """A row's place in the run, from 0."""
        return _Q.c.position if self._epochs == 1 else _Q.c.position * self._epochs + self.epoch

    def of_attempt(self, name: str) -> Column:
        """A column of the attempt."""
        self._joined.add("attempts")
        return _A.c[name]

    def of_facts(self, name: str) -> Column:
        """A column of the attempt's facts."""
        self._joined.add("facts")
        return _F.c[name]

    def of_score(self, name: str) -> Column:
        """A column of the score: of the first scorer that has scored the attempt, even where its value is missing."""
        self._joined.add("scores")
        cases = [(score.c.scorer.is_not(None), score.c[name]) for _, score in self._scores]
        left = self._left_score(name) if self._others else sa.null()
        return sa.case(*cases, else_=left) if cases else left

    def _left_score(self, name: str) -> Column:
        """A column of the first of the other scorers. Not joined: it is looked up for the few attempts that need it."""
        score = _S.alias()
        found = sa.select(score.c[name]).where(self._same(score), score.c.scorer.in_(self._others))
        return found.order_by(score.c.scorer).limit(1).correlate_except(score).scalar_subquery()

    def outcome(self) -> Column:
        """The outcome, as :func:`ragrounds.records.outcome` decides it; a test compares both."""
        status = self.of_attempt("status")
        return sa.case(
            (status.is_(None), "not_run"),
            (status != "completed", status),
            else_=sa.func.coalesce(self.of_score("answer_status"), "answered"),
        )

    def flag(self, name: str) -> Where:
        """Whether a flag is set; never unknown."""
        if name == "made":
            return self.of_attempt("status").is_not(None)
        if name == "retried":
            return sa.func.coalesce(self.of_attempt("retry"), 0) > 0
        if name == "troubled":
            return self.outcome().in_(TROUBLED)
        if name == "marked":
            return self._noted(_N.c.mark != "")
        if name == "noted":
            return self._noted(_N.c.text != "")
        if name not in _SCORED:
            return self.outcome() == name
        return sa.func.coalesce(_SCORED[name](self.number("score")), sa.false())

    def number(self, name: str) -> Column:
        """A figure; NULL: not known."""
        if name == "epoch":
            return sa.cast(self.epoch, sa.Float)
        if name == "score":
            return sa.type_coerce(self.of_score("value"), sa.Float)
        column = _NUMBERS[name]
        self._joined.add("facts" if _F in _tables(column) else "attempts")
        return sa.type_coerce(column, sa.Float)

    def named(self, test: ValueTest) -> Where:
        """Whether a name fits."""
        value = test.value
        if test.field in ("agent", "run", "benchmark"):
            return sa.true() if self._names.run_named(self._number, test) else sa.false()
        if test.field in ("subject", "about"):
            return self.among(_Q.c.position, self._names.positions(self._number, test))
        if test.field == "question":
            exact = sa.or_(_Q.c.question_id == value, _Q.c.question_id.endswith(f"/{value}", autoescape=True))
            return self._like(_Q.c.question_id, value) if "*" in value else exact
        if test.field == "status":
            found = self.of_attempt("status") if value == "completed" else self.outcome()
            return sa.func.coalesce(found == value, sa.false())
        if test.field == "prediction":
            read = self.of_score("prediction")
            return sa.func.coalesce(sa.func.lower(read) == value.lower(), sa.false())
        if test.field == "reason":
            return self._held(self.of_attempt("reason"), value)
        if test.field == "note":
            notes = self.of_facts("notes")
            return (
                sa.func.coalesce(notes.contains(f" {value} ", autoescape=True), sa.false())
                if (test.exactly)
                else self._held(notes, value)
            )
        column = {"mark": _N.c.mark, "author": _N.c.author, "noted": _N.c.text}[test.field]
        if test.exactly or test.field == "mark":
            return self._noted(sa.func.lower(column) == value.lower())
        return self._noted(self._held(column, value))

    def text(self, test: TextTest) -> Where:
        """Whether the attempt's texts hold some words."""
        found = self._texts.questions(self._number, test)
        if self._asked is None:
            return self.among(_Q.c.question_id, found.get(0, ()))
        each = (sa.and_(self.epoch == epoch, self.among(_Q.c.question_id, ids)) for epoch, ids in found.items())
        return sa.or_(sa.false(), *each)

    def among(self, column: Column, values: Sequence[int] | Sequence[str]) -> Where:
        """Whether a number or a text is one of many; however many, they are one parameter."""
        if not values:
            return sa.false()
        return dialect_of(self._engine).among(column, values)

    def unknown(self) -> tuple[Where, Where, Where]:
        """Of an attempt that was made: whether its facts are not known; else whether the gold documents
        of its question are not; else whether its prompts are not."""
        made = self.of_attempt("status").is_not(None)
        current = self.of_facts("steps").is_not(None)
        gold, seen = self.of_facts("gold"), self.of_facts("gold_seen")
        return (
            sa.and_(made, sa.not_(current)),
            sa.and_(made, current, gold.is_(None)),
            sa.and_(made, current, gold.is_not(None), seen.is_(None)),
        )

    def in_order(self) -> list[sa.ColumnElement[int]]:
        """The columns by which rows are in the order asked."""
        return [_Q.c.position] if self._asked is None else [_Q.c.position, self.epoch]

    def select(self, *columns: Column) -> Statement:
        """A statement for these columns, over all rows of the run. Columns are asked for before it is made."""
        return sa.select(*columns).select_from(self._source()).where(_Q.c.set == self._set)

    def _source(self) -> sa.FromClause:
        joined: sa.FromClause = _Q
        if self._asked is not None:
            joined = sa.join(joined, self._asked, sa.true())
        if "attempts" in self._joined:
            joined = joined.outerjoin(_A, self._same(_A))
        if "facts" in self._joined:
            joined = joined.outerjoin(_F, self._same(_F))
        for scorer, score in self._scores if "scores" in self._joined else ():
            joined = joined.outerjoin(score, sa.and_(self._same(score), score.c.scorer == scorer))
        return joined

    def _same(self, table: sa.FromClause) -> Where:
        same = sa.and_(table.c.run == self._key, table.c.question_id == _Q.c.question_id)
        return sa.and_(same, table.c.epoch == self.epoch)

    def _noted(self, condition: Where) -> Where:
        return sa.exists().where(self._same(_N), condition).correlate_except(_N)

    def _held(self, column: Column, value: str) -> Where:
        text = sa.func.coalesce(column, "")
        return self._like(text, f"*{value}*") if "*" in value else text.icontains(value, autoescape=True)

    def _like(self, column: Column, pattern: str) -> Where:
        plain = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return column.ilike(plain.replace("*", "%"), escape="\\")


_SCORED: dict[str, Callable[[sa.ColumnElement[float]], Where]] = {
    "right": lambda value: value >= 1,
    "wrong": lambda value: value < 1,
    "partly": lambda value: sa.and_(value > 0, value < 1),
    "scored": lambda value: value.is_not(None),
    "unscored": lambda value: value.is_(None),
}


def _tables(column: Column) -> Iterable[object]:
    return {found.table for found in sa.sql.visitors.iterate(column) if isinstance(found, sa.Column)}


def scorers_of(connection: sa.Connection, number: int) -> tuple[str, ...]:
    """The scorers that have scored something in a run, by name."""
    names, last = list[str](), ""
    # One step of the index a scorer: naming none would pass over all scores of the run.
    while True:
        after = sa.select(sa.func.min(_S.c.scorer)).where(_S.c.run == number, _S.c.scorer > last)
        last = connection.execute(after).scalar() or ""
        if not last:
            return tuple(names)
        names.append(last)
