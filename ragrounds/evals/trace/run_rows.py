"""Rows of one run as SQL: question × epoch, with the attempt, its facts and its score if they exist.

A statement joins only the tables whose columns it names, so that a statement over all rows of a large run is fast.
"""

from __future__ import annotations

import functools
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.chunks import chunks
from ragrounds.base.records import COUNTED, Question, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import StoredQuestion, decompress
from ragrounds.evals.store.database import autocommit, dialect_of
from ragrounds.evals.store.store import Store, scorers_of
from ragrounds.evals.trace.attempt_filter import (
    AllOf,
    AnyOf,
    FlagTest,
    NumberTest,
    TextTest,
    Unless,
    ValueTest,
    Wanted,
    no_such,
)
from ragrounds.evals.trace.expressions import COMPARISONS
from ragrounds.evals.trace.filter_fields import FACTS
from ragrounds.evals.trace.text_search import TextSearch

Column = sa.ColumnElement[Any]
Where = sa.ColumnElement[bool]
Statement = sa.Select[*tuple[Any, ...]]

TROUBLED = ("failed", "capped", "blocked", "paused", "empty")
"""Outcomes of attempts that did not end normally."""
_Q, _A, _F, _S, _N = schema.questions, schema.attempts, schema.facts, schema.scores, schema.notes
_NUMBERS: dict[str, Column] = {
    "cost": _A.c.cost_uncached,
    "paid": _A.c.cost_paid,
    "tokens": _A.c.input + _A.c.output,
    "input": _A.c.input,
    "output": _A.c.output,
    "newest": _A.c.at,
    # Imported attempts have no measured time.
    "time": sa.case((sa.or_(_A.c.seconds != 0, _A.c.at != 0), _A.c.seconds), else_=sa.null()),
    **{name: _A.c[name] for name in COUNTED},
    **{column.name: column for column in _F.c if not column.primary_key and column.name not in ("at", "gold", "notes")},
    "gold_known": _F.c.gold,
    "gold_missed": _F.c.gold - _F.c.gold_found,
    "gold_unseen": _F.c.gold - _F.c.gold_seen,
}


class _Grouped(Struct, frozen=True):
    """Part of a stored question that determines its subject."""

    question: _Group


class _Group(Struct, frozen=True):
    benchmark: str
    group: str = ""


class QuestionSubjects(Struct, frozen=True):
    """Subjects of a set of questions."""

    names: tuple[str, ...]
    by_position: array[int]
    """Index in `names`, by the question's position."""


def subject(question: Question) -> str:
    """Return the name by which tables group a question: its group, or else its benchmark."""
    return question.group or question.benchmark


class RowNames:
    """Meaning of names in a filter for some runs of a store, and the existing values, for completion.

    Questions never change: the subjects of a set are read once.
    """

    def __init__(self, store: Store, runs: Sequence[Run], numbers: Sequence[int]) -> None:
        self.store, self.runs, self.numbers = store, tuple(runs), tuple(numbers)
        self._subjects: dict[str, QuestionSubjects] = {}
        self._about = functools.lru_cache(maxsize=8)(self._positions_with_text)

    def run_named(self, number: int, test: ValueTest) -> bool:
        """Return True if the run at this index is meant, by its agent, id or benchmark.

        Raises:
            FilterError: no run is meant.
        """
        run_name: Callable[[Run], str] = _OF_RUN[test.field]
        return run_name(self.runs[number]) in chosen_names(test, [run_name(run) for run in self.runs])

    def positions(self, number: int, test: ValueTest) -> Sequence[int]:
        """Return the positions of the questions that are meant, by subject or by their texts.

        Raises:
            FilterError: no question of any run has such a subject.
        """
        name = self.runs[number].questions
        if test.field == "about":
            return self._about(name, test.value.casefold())
        subjects = self.subjects_of(name)
        all_names = dict.fromkeys(
            subject_name for run in self.runs for subject_name in self.subjects_of(run.questions).names
        )
        meant = chosen_names(test, list(all_names))
        codes = {code for code, subject_name in enumerate(subjects.names) if subject_name in meant}
        return [position for position, code in enumerate(subjects.by_position) if code in codes]

    def subjects_of(self, questions: str) -> QuestionSubjects:
        """Return the subjects of a set of questions."""
        if questions not in self._subjects:
            names: dict[str, int] = {}
            count = next((run.count for run in self.runs if run.questions == questions), 0)
            codes = array("H" if count < 1 << 16 else "L")
            for body in self._bodies(questions):
                question = msgspec.msgpack.decode(decompress(body), type=_Grouped).question
                codes.append(names.setdefault(question.group or question.benchmark, len(names)))
            self._subjects[questions] = QuestionSubjects(tuple(names), codes)
        return self._subjects[questions]

    def values(self, field: str) -> list[tuple[str, int]]:
        """Return the values of a field and the number of rows with each, the most frequent first."""
        counted: Counter[str] = Counter()
        for run in self.runs:
            if field in _OF_RUN:
                counted[_OF_RUN[field](run)] += run.count * run.epochs
            elif field == "subject":
                subjects = self.subjects_of(run.questions)
                for code, count in Counter(subjects.by_position).items():
                    counted[subjects.names[code]] += count * run.epochs
        columns = {"status": _A.c.status, "mark": _N.c.mark, "author": _N.c.author, "note": _F.c.notes}
        if (column := columns.get(field)) is not None:
            statement = sa.select(column, sa.func.count()).where(column.table.c.run.in_(self.numbers)).group_by(column)
            with autocommit(self.store.engine) as connection:
                for name, count in connection.execute(statement):
                    for value in str(name).split() if field == "note" else filter(None, (str(name),)):
                        counted[value] += int(count)
        return counted.most_common()

    def _positions_with_text(self, questions: str, text: str) -> array[int]:
        positions = array("L")
        for position, body in enumerate(self._bodies(questions)):
            question = msgspec.msgpack.decode(decompress(body), type=StoredQuestion).question
            lines = (question.id, subject(question), question.text, *question.options.values())
            if text in "\n".join(lines).casefold():
                positions.append(position)
        return positions

    def _bodies(self, questions: str) -> Iterator[bytes]:
        statement = sa.select(_Q.c.body).where(_Q.c.set == questions).order_by(_Q.c.position)
        with autocommit(self.store.engine) as connection:
            yield from connection.execute(statement).scalars()


_OF_RUN: dict[str, Callable[[Run], str]] = {
    "agent": lambda run: run.agent,
    "run": lambda run: run.id,
    "benchmark": lambda run: run.benchmark,
}


def chosen_names(test: ValueTest, known_names: Iterable[str]) -> frozenset[str]:
    """Return the names that are meant: the exact match, or else all names that contain the value; * matches anything.

    Raises:
        FilterError: none matches.
    """
    names, value = list(dict.fromkeys(known_names)), test.value.casefold()
    matches = [name for name in names if name.casefold() == value]
    if not matches and not test.exactly:
        parts = value.split("*")
        matches = [name for name in names if _matches_parts(name.casefold(), parts)]
    if not matches:
        raise no_such(test.field, test, names)
    return frozenset(matches)


def _matches_parts(name: str, parts: Sequence[str]) -> bool:
    """Return True if a name contains these parts in this order. If there are several, the name starts with the first
    and ends with the last.
    """
    if len(parts) == 1:
        return parts[0] in name
    if not name.startswith(parts[0]):
        return False
    position = len(parts[0])
    for part in parts[1:-1]:
        position = name.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return len(name) - position >= len(parts[-1]) and name.endswith(parts[-1])


class RunRows:
    """Columns of one run. Each table is joined at its first use.

    Args:
        names: the meaning of names in filters, with the runs that are shown.
        texts: the attempts that contain some words.
        number: the run's index among the runs that are shown.
        scorers: by preference; the first that has scored an attempt counts.
        other_scorers: the first counts if no preferred one has scored an attempt.
    """

    def __init__(
        self, names: RowNames, texts: TextSearch, number: int, scorers: Sequence[str], other_scorers: Sequence[str]
    ) -> None:
        self._names, self._texts, self._number = names, texts, number
        self._run, self._key = names.runs[number], names.numbers[number]
        epochs = self._run.epochs
        self._epochs_table = (
            sa.union_all(*(sa.select(sa.literal(epoch).label("epoch")) for epoch in range(epochs))).subquery()
            if epochs > 1
            else None
        )
        self.epoch: sa.ColumnElement[int] = (
            sa.literal_column("0") if self._epochs_table is None else self._epochs_table.c.epoch
        )
        self._scores = [(scorer, _S.alias()) for scorer in scorers]
        self._other_scorers = other_scorers
        self._joined: set[str] = set()

    @property
    def index_of(self) -> sa.ColumnElement[int]:
        """Return a row's index in the run, from 0."""
        return _Q.c.position if self._epochs_table is None else _Q.c.position * self._run.epochs + self.epoch

    def of_attempt(self, name: str) -> Column:
        """Return a column of the attempt."""
        self._joined.add("attempts")
        return _A.c[name]

    def of_facts(self, name: str) -> Column:
        """Return a column of the attempt's facts."""
        self._joined.add("facts")
        return _F.c[name]

    def of_score(self, name: str) -> Column:
        """Return a column of the score by the first scorer of the attempt, even if its value is missing."""
        self._joined.add("scores")
        cases = [(score.c.scorer.is_not(None), score.c[name]) for _, score in self._scores]
        fallback = self._other_score(name) if self._other_scorers else sa.null()
        return sa.case(*cases, else_=fallback) if cases else fallback

    def _other_score(self, name: str) -> Column:
        """Return a column of the first of the other scorers.

        It is not joined, because only few attempts need it.
        """
        score = _S.alias()
        statement = sa.select(score.c[name]).where(self._same_attempt(score), score.c.scorer.in_(self._other_scorers))
        return statement.order_by(score.c.scorer).limit(1).correlate_except(score).scalar_subquery()

    def outcome(self) -> Column:
        """Return the outcome, as :func:`ragrounds.base.records.outcome` decides it; a test compares both."""
        status = self.of_attempt("status")
        return sa.case(
            (status.is_(None), "not_run"),
            (status != "completed", status),
            else_=sa.func.coalesce(self.of_score("answer_status"), "answered"),
        )

    def fits(self, expression: Wanted | None) -> Where:
        """Return the condition that a row satisfies an expression; without an expression all rows do."""
        match expression:
            case None:
                return sa.true()
            case AllOf(parts):
                return sa.and_(*(self.fits(part) for part in parts))
            case AnyOf(parts):
                return sa.or_(*(self.fits(part) for part in parts))
            case Unless(part):
                return sa.not_(self.fits(part))
            case FlagTest(field):
                return self.flag(field)
            case NumberTest(field, comparison, None):
                column = self.number(field)
                return column.is_(None) if comparison == "=" else column.is_not(None)
            case NumberTest(field, comparison, value):
                compared: Where = COMPARISONS[comparison](self.number(field), value)
                return compared
            case ValueTest():
                return self.matches_name(expression)
            case TextTest():
                return self.text(expression)

    def flag(self, name: str) -> Where:
        """Return the condition that a flag is set; it is never NULL."""
        if name == "made":
            return self.of_attempt("status").is_not(None)
        if name == "troubled":
            return self.outcome().in_(TROUBLED)
        if name == "marked":
            return self._has_note(_N.c.mark != "")
        if name == "noted":
            return self._has_note(_N.c.text != "")
        if name not in _SCORED:
            return self.outcome() == name
        return sa.func.coalesce(_SCORED[name](self.number("score")), sa.false())

    def number(self, name: str) -> Column:
        """Return a figure as a column; NULL if it is not known."""
        if name == "epoch":
            return sa.cast(self.epoch, sa.Float)
        if name == "score":
            return sa.type_coerce(self.of_score("value"), sa.Float)
        self._joined.add("facts" if name in FACTS else "attempts")
        return sa.type_coerce(_NUMBERS[name], sa.Float)

    def matches_name(self, test: ValueTest) -> Where:
        """Return the condition that a name matches."""
        value = test.value
        if test.field in _OF_RUN:
            return sa.true() if self._names.run_named(self._number, test) else sa.false()
        if test.field in ("subject", "about"):
            return self.among(_Q.c.position, self._names.positions(self._number, test))
        if test.field == "question":
            exact = sa.or_(_Q.c.question_id == value, _Q.c.question_id.endswith(f"/{value}", autoescape=True))
            return self._like(_Q.c.question_id, value) if "*" in value else exact
        if test.field == "status":
            state = self.of_attempt("status") if value == "completed" else self.outcome()
            return sa.func.coalesce(state == value, sa.false())
        if test.field == "prediction":
            read = self.of_score("prediction")
            return sa.func.coalesce(sa.func.lower(read) == value.lower(), sa.false())
        if test.field == "reason":
            return self._contains(self.of_attempt("reason"), value)
        if test.field == "note":
            notes = self.of_facts("notes")
            matches = sa.func.coalesce(notes.contains(f" {value} ", autoescape=True), sa.false())
            return matches if test.exactly else self._contains(notes, value)
        column = {"mark": _N.c.mark, "author": _N.c.author, "noted": _N.c.text}[test.field]
        if test.exactly or test.field == "mark":
            return self._has_note(sa.func.lower(column) == value.lower())
        return self._has_note(self._contains(column, value))

    def text(self, test: TextTest) -> Where:
        """Return the condition that the attempt's texts contain some words."""
        ids_by_epoch = self._texts.questions(self._number, test)
        if self._epochs_table is None:
            return self.among(_Q.c.question_id, ids_by_epoch.get(0, ()))
        conditions = (
            sa.and_(self.epoch == epoch, self.among(_Q.c.question_id, ids)) for epoch, ids in ids_by_epoch.items()
        )
        return sa.or_(sa.false(), *conditions)

    def among(self, column: Column, values: Sequence[int] | Sequence[str]) -> Where:
        """Return the condition that a number or a text is one of many; they are one parameter of the statement, however
        many.
        """
        if not values:
            return sa.false()
        return dialect_of(self._names.store.engine).among(column, values)

    def unknown(self) -> tuple[Where, Where, Where, Where]:
        """Return four conditions for attempts that were made, each excluding the ones before it.

        They are: its facts are not known; the gold documents of its question are not known; its searches are not known;
        its prompts are not known.
        """
        was_made = self.of_attempt("status").is_not(None)
        current = self.of_facts("steps").is_not(None)
        gold, gold_found, gold_seen = (self.of_facts(name) for name in ("gold", "gold_found", "gold_seen"))
        return (
            sa.and_(was_made, sa.not_(current)),
            sa.and_(was_made, current, gold.is_(None)),
            sa.and_(was_made, current, gold.is_not(None), gold_found.is_(None)),
            sa.and_(was_made, current, gold_found.is_not(None), gold_seen.is_(None)),
        )

    def in_order(self) -> list[sa.ColumnElement[int]]:
        """Return the columns that sort rows in the order in which the questions were asked."""
        return [_Q.c.position] if self._epochs_table is None else [_Q.c.position, self.epoch]

    def select(self, *columns: Column) -> Statement:
        """Return a statement for these columns, over all rows of the run.

        Columns have to be requested before the statement is built, because each request adds its table.
        """
        return sa.select(*columns).select_from(self._source()).where(_Q.c.set == self._run.questions)

    def _source(self) -> sa.FromClause:
        joined: sa.FromClause = _Q
        if self._epochs_table is not None:
            joined = sa.join(joined, self._epochs_table, sa.true())
        if self._joined & {"attempts", "facts"}:
            joined = joined.outerjoin(_A, self._same_attempt(_A))
        if "facts" in self._joined:
            joined = joined.outerjoin(_F, sa.and_(self._same_attempt(_F), _F.c.at == _A.c.at))
        for scorer, score in self._scores if "scores" in self._joined else ():
            joined = joined.outerjoin(score, sa.and_(self._same_attempt(score), score.c.scorer == scorer))
        return joined

    def _same_attempt(self, table: sa.FromClause) -> Where:
        same_question = sa.and_(table.c.run == self._key, table.c.question_id == _Q.c.question_id)
        return sa.and_(same_question, table.c.epoch == self.epoch)

    def _has_note(self, condition: Where) -> Where:
        return sa.exists().where(self._same_attempt(_N), condition).correlate_except(_N)

    def _contains(self, column: Column, value: str) -> Where:
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


def score_rows_of(connection: sa.Connection, number: int, questions: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of all scores of a run at some questions, by the name of the scorer."""
    for scorer in scorers_of(connection.execute, number):
        for chunk in chunks(questions):
            statement = sa.select(_S).where(_S.c.run == number, _S.c.scorer == scorer, _S.c.question_id.in_(chunk))
            yield from connection.execute(statement)
