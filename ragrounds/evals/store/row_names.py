"""What names in a filter mean: agents, subjects, questions' texts; and which values there are, for completion.

Questions never change, so what they are grouped by is read once a set of questions: a number a question is kept.
"""

from __future__ import annotations

import functools
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_filter import FilterError, TextTest, ValueTest, no_such
from ragrounds.evals.store.codec import StoredQuestion, decompress
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.run_rows import Statement
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.text_folding import TextQueryError
from ragrounds.evals.store.text_index import find_attempts
from ragrounds.records import Question, Run

_Q, _A, _F, _N = schema.questions, schema.attempts, schema.facts, schema.notes


class _Grouped(Struct, frozen=True):
    """What of a stored question says its subject."""

    question: _Group


class _Group(Struct, frozen=True):
    benchmark: str
    group: str = ""


class QuestionSubjects(Struct, frozen=True):
    """The subjects of a set of questions."""

    names: tuple[str, ...]
    by_position: array[int]
    """The place in `names`, by the question's position."""


def subject(question: Question) -> str:
    """What tables group a question by: its group, or else the benchmark it is from."""
    return question.group or question.benchmark


class TextHits:
    """What the full-text index finds in some runs, while one statement is made: each text is looked for once."""

    def __init__(self, engine: sa.Engine, numbers: Sequence[int]) -> None:
        self._engine, self._numbers = engine, tuple(numbers)
        self._found: dict[tuple[str, tuple[str, ...]], dict[int, dict[int, list[str]]]] = {}

    def questions(self, number: int, test: TextTest) -> dict[int, list[str]]:
        """Epoch → the ids of the questions at which the attempt of the run at this place holds the words.

        Raises:
            FilterError: there is no word in the text.
        """
        key = (test.text, test.fields)
        if key not in self._found:
            try:
                places = find_attempts(self._engine, self._numbers, test.text, test.fields)
            except TextQueryError as error:
                raise FilterError(str(error), test.at, len(test.text)) from error
            found: dict[int, dict[int, list[str]]] = {}
            for run, question_id, epoch in places:
                found.setdefault(run, {}).setdefault(epoch, []).append(question_id)
            self._found[key] = found
        return self._found[key].get(self._numbers[number], {})


class RowNames:
    """Names in some runs of a store; see :class:`ragrounds.evals.store.run_rows.NamedRows`."""

    def __init__(self, store: Store, runs: Sequence[Run], numbers: Sequence[int]) -> None:
        self._store, self._runs, self._numbers = store, tuple(runs), tuple(numbers)
        self._subjects: dict[str, QuestionSubjects] = {}
        self._about = functools.lru_cache(maxsize=8)(self._with_text)

    def run_named(self, number: int, test: ValueTest) -> bool:
        """Whether the run at this place is meant: by its agent, id or benchmark.

        Raises:
            FilterError: no run is.
        """
        read: Callable[[Run], str] = _OF_RUN[test.field]
        return read(self._runs[number]) in chosen_names(test, [read(run) for run in self._runs])

    def positions(self, number: int, test: ValueTest) -> Sequence[int]:
        """The positions of the questions that are meant, by subject or by their texts.

        Raises:
            FilterError: no question of any run has such a subject.
        """
        name = self._runs[number].questions
        if test.field == "about":
            return self._about(name, test.value.casefold())
        known = self.subjects_of(name)
        everywhere = dict.fromkeys(each for run in self._runs for each in self.subjects_of(run.questions).names)
        wanted = chosen_names(test, list(everywhere))
        codes = {code for code, each in enumerate(known.names) if each in wanted}
        return [position for position, code in enumerate(known.by_position) if code in codes]

    def subjects_of(self, questions: str) -> QuestionSubjects:
        """The subjects of a set of questions."""
        if questions not in self._subjects:
            names: dict[str, int] = {}
            codes = array("H" if self._count(questions) < 1 << 16 else "L")
            for body in self._bodies(questions):
                one = msgspec.msgpack.decode(decompress(body), type=_Grouped).question
                codes.append(names.setdefault(one.group or one.benchmark, len(names)))
            self._subjects[questions] = QuestionSubjects(tuple(names), codes)
        return self._subjects[questions]

    def values(self, field: str) -> list[tuple[str, int]]:
        """The values of a field and how many rows have each, the most frequent first; of questions the first 200."""
        if field in _OF_RUN:
            counted: Counter[str] = Counter()
            for run in self._runs:
                counted[_OF_RUN[field](run)] += run.count * run.epochs
            return counted.most_common()
        if field == "subject":
            counted = Counter()
            for run in self._runs:
                found = self.subjects_of(run.questions)
                for code, count in Counter(found.by_position).items():
                    counted[found.names[code]] += count * run.epochs
            return counted.most_common()
        statements: dict[str, Statement] = {
            "status": sa.select(_A.c.status, sa.func.count()).where(_A.c.run.in_(self._numbers)).group_by(_A.c.status),
            "mark": self._of_notes(_N.c.mark),
            "author": self._of_notes(_N.c.author),
            "note": sa.select(_F.c.notes, sa.func.count()).where(_F.c.run.in_(self._numbers)).group_by(_F.c.notes),
            "question": (
                sa.select(_Q.c.question_id, sa.literal(len(self._runs)))
                .where(_Q.c.set == (self._runs[0].questions if self._runs else ""))
                .order_by(_Q.c.position)
                .limit(_SHOWN)
            ),
        }
        if field not in statements:
            return []
        with autocommit(self._store.engine) as connection:
            rows = [(str(name), int(count)) for name, count in connection.execute(statements[field])]
        if field == "question":
            return rows
        counted = Counter()
        for name, count in rows:
            for each in name.split() if field == "note" else filter(None, (name,)):
                counted[each] += count
        return counted.most_common()

    def _of_notes(self, column: sa.Column[str]) -> Statement:
        return sa.select(column, sa.func.count()).where(_N.c.run.in_(self._numbers)).group_by(column)

    def _count(self, questions: str) -> int:
        return next((run.count for run in self._runs if run.questions == questions), 0)

    def _with_text(self, questions: str, text: str) -> array[int]:
        found = array("L")
        for position, body in enumerate(self._bodies(questions)):
            item = msgspec.msgpack.decode(decompress(body), type=StoredQuestion).question
            lines = (item.id, subject(item), item.text, *item.options.values())
            if text in "\n".join(lines).casefold():
                found.append(position)
        return found

    def _bodies(self, questions: str) -> Iterator[bytes]:
        statement = sa.select(_Q.c.body).where(_Q.c.set == questions).order_by(_Q.c.position)
        with autocommit(self._store.engine) as connection:
            yield from connection.execute(statement).scalars()


_SHOWN = 200
"""Questions that are offered."""
_OF_RUN: dict[str, Callable[[Run], str]] = {
    "agent": lambda run: run.agent,
    "run": lambda run: run.id,
    "benchmark": lambda run: run.benchmark,
}


def chosen_names(test: ValueTest, known: Iterable[str]) -> frozenset[str]:
    """The names that are meant: the one that is exactly this, else all that hold it; * stands for anything.

    Raises:
        FilterError: none is.
    """
    names, value = list(dict.fromkeys(known)), test.value.casefold()
    found = [name for name in names if name.casefold() == value]
    if not found and not test.exactly:
        parts = value.split("*")
        found = [name for name in names if _holds(name.casefold(), parts)]
    if not found:
        raise no_such(test.field, test, names)
    return frozenset(found)


def _holds(name: str, parts: Sequence[str]) -> bool:
    """Whether these parts stand in a name one after the other; with more than one, the first begins and the last ends
    it."""
    if len(parts) == 1:
        return parts[0] in name
    if not name.startswith(parts[0]):
        return False
    place = len(parts[0])
    for part in parts[1:-1]:
        place = name.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(name) - place >= len(parts[-1]) and name.endswith(parts[-1])
