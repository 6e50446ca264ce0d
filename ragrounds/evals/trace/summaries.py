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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.records import Gold, Question, Run, Score
from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_notes import AttemptNote, notes_at
from ragrounds.evals.store.care.garbage import Progress
from ragrounds.evals.store.codec import StoredQuestion, decompress, score_of
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.row_sums import is_whole, summed_columns
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_facts import lacking_facts, make_facts
from ragrounds.evals.trace.attempt_filter import TextTest, Wanted, parse, single_conditions
from ragrounds.evals.trace.filter_fields import BY_NAME, FACTS, GOLD
from ragrounds.evals.trace.recorded_calls import Place
from ragrounds.evals.trace.run_rows import TROUBLED, Column, RowNames, RunRows, score_rows_of, scorers_of
from ragrounds.evals.trace.text_search import TextSearch, without_texts

Key = float | str | None
"""What a row is sorted by."""

SortBy = str
_FIGURES = (
    "cost", "model_calls", "time", "tokens", "score", "newest", "paid", "input", "output", "steps", "hops", "repeated",
    "faults", "gold_found", "gold_seen", "gold_rank", "gold_hop", "subject", "question", "status", "agent",
)  # fmt: skip
_OWN = {"asked": "as the questions were asked", "newest": "when it was made"}
SORT_WORDS = {name: _OWN.get(name) or BY_NAME[name].about for name in ("asked", *_FIGURES)}
"""What attempts can be sorted by, in words."""
SORTS: tuple[SortBy, ...] = tuple(SORT_WORDS)
_BY_NAME = frozenset({"subject", "question", "agent", "status"})
"""Sorted by names, from A on where figures are highest first; all others are sorted by figures."""


def order_words(sort: SortBy, descending: bool) -> str:
    """An order in words; empty for the order asked."""
    if sort == "asked":
        return ""
    ends = ("A", "Z") if sort in _BY_NAME else ("newest", "oldest") if sort == "newest" else ("highest", "lowest")
    return f"by {'time made' if sort == 'newest' else sort.replace('_', ' ')}, {ends[0 if descending else 1]} first"


MARKS = ("right", "wrong", "unscored")
"""What a score makes of an attempt, as flags of the filter language."""


class AttemptFacts(Struct, frozen=True, kw_only=True):
    """What was derived of an attempt when it was first asked for; see the table `facts`."""

    steps: int
    hops: int
    repeated: int
    failed_calls: int
    failed_searches: int
    faults: int
    gold: int | None
    gold_found: int | None
    gold_seen: int | None
    gold_cut: int | None
    gold_rank: int | None
    gold_hop: int | None
    notes: str
    """Kinds of notes, with a space before and after each."""


class UnknownFacts(Struct, frozen=True, kw_only=True):
    """Attempts of which the conditions of a filter can say nothing."""

    no_gold: int = 0
    """The question's gold documents are not known."""
    no_searches: int = 0
    """Whether they searched is not known."""
    no_prompts: int = 0
    """No recorded prompt tells whether gold was seen: what stood in it is not kept, or says nothing of the passages."""
    no_facts: int = 0
    """Their facts are still to be derived."""

    def __bool__(self) -> bool:
        return bool(self.no_gold or self.no_searches or self.no_prompts or self.no_facts)


class AttemptSummary(Struct, frozen=True, kw_only=True):
    """One row: a question of a run, and the attempt at it without text and events."""

    run: Run
    index: int
    """Its place among all rows, unsorted."""
    question: Question
    gold: Gold
    epoch: int
    outcome: str
    """One of :data:`ragrounds.base.records.OUTCOMES`, by the scorer of `scorer`."""
    scorer: str
    """What `value` is by; empty: not scored."""
    value: float | None
    prediction: str
    cost_uncached: float | None
    cost_paid: float | None
    tokens: int | None
    model_calls: int | None
    seconds: float | None
    at: float | None
    facts: AttemptFacts | None = None
    """``None``: not made yet, or not derived yet."""
    notes: tuple[AttemptNote, ...] = ()
    """Readers' marks and notes."""

    @property
    def wrong(self) -> bool:
        """Whether it is scored, and below full marks."""
        return self.value is not None and self.value < 1

    @property
    def troubled(self) -> bool:
        """Whether the attempt failed, was capped or blocked, or paused, or its text is empty."""
        return self.outcome in TROUBLED


PREFERRED = ("strict", "facts", "mirage", "robust")
"""Scorers whose score the list shows: the first that an attempt has; where it has none of them, the first of any other
that it has, by name."""
_CHUNK = 400
_Q = schema.questions


class Pages:
    """The rows of some runs of one store, numbered from 0 over all of them."""

    def __init__(
        self, store: Store, runs: Sequence[Run], scorers: Sequence[str] = PREFERRED, asked: Sequence[str] = ()
    ) -> None:
        self.store = store
        self.runs = tuple(runs)
        self.scorers = tuple(scorers)
        self.asked = tuple(asked)
        """The scorers of these that a user named, by preference."""
        self._numbers = [store.number(run) for run in runs]
        sizes = [run.count * run.epochs for run in runs]
        self._starts = [0, *itertools.accumulate(sizes)]
        self.names = RowNames(store, self.runs, self._numbers)
        self._texts = TextSearch(store, self.runs, self._numbers)

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
                rows = self._rows(connection, number)
                statement, run_id = rows.select(*_shown(rows)), self.runs[number].id
                asked = sorted({position for position, _ in places})
                for start in range(0, len(asked), _CHUNK):
                    chunk = asked[start : start + _CHUNK]
                    found_rows = connection.execute(statement.where(_Q.c.position.in_(chunk))).all()
                    noted = notes_at(connection, run_id, self._numbers[number], [row.question_id for row in found_rows])
                    for row in found_rows:
                        summary = self._summary(number, row, noted.get((run_id, row.question_id, row.epoch), ()))
                        found[summary.index] = summary
        return [found[index] for index in wanted if index in found]

    def order(self, where: str = "", sort: SortBy = "asked", descending: bool = True) -> array[int]:
        """The places of the attempts that `where` chooses (:mod:`ragrounds.evals.trace.attempt_filter`), sorted; those
        without a figure to sort by are last in either direction.

        Raises:
            FilterError: the expression cannot be understood, or names what is not there.
        """
        wanted = parse(where)
        places: array[int] = array("Q")
        keys: list[Key] = []
        with self.connect() as connection:
            for number in range(len(self.runs)):
                rows = self._rows(connection, number)
                fits = rows.fits(wanted)
                if isinstance(fits, sa.False_):
                    continue
                key = self._sort_key(rows, number, sort)
                chosen = rows.select(rows.place, *([] if key is None else [key])).where(fits)
                start = self._starts[number]
                if key is None:
                    ordered = chosen.order_by(*rows.in_order())
                    places.extend(start + place for place in connection.execute(ordered).scalars())
                else:
                    found = connection.execute(chosen).all()
                    places.extend(start + row[0] for row in found)
                    keys.extend(row[1] for row in found)
        return places if sort == "asked" else self._sorted(places, keys, sort, descending)

    def seek(self, where: str, row: int, step: int, order: Sequence[int] | None = None) -> int | None:
        """The next row behind `row` whose attempt `where` chooses (for `step` -1 the one before), round the end; at
        last `row` itself. ``None``: there is none.

        Args:
            where: an expression, such as ``wrong``.
            row: a place in `order`, or among all rows.
            step: 1 or -1.
            order: places in the order shown; ``None``: all rows as they were asked.

        Raises:
            FilterError: as :meth:`order`.
        """
        if parse(where) is None:
            return None
        fitting, total = set(self.order(where)), len(self) if order is None else len(order)
        ahead = ((row + step * each) % total for each in range(1, total + 1))
        return next((each for each in ahead if (each if order is None else order[each]) in fitting), None)

    def values(self, field: str) -> list[tuple[str, int]]:
        """The values that a field of the filter language has here, and how many rows have each, the most frequent
        first; empty for a field that is not one of names. Of questions the first 200."""
        return self.names.values(field)

    def unknown(self, where: str) -> UnknownFacts:
        """How many attempts the conditions of `where` can say nothing of.

        Raises:
            FilterError: as :meth:`order`.
        """
        fields = {test.field for test in single_conditions(parse(where)) if not isinstance(test, TextTest)}
        if not fields & FACTS:
            return UnknownFacts()
        counts = [0, 0, 0, 0]
        with self.connect() as connection:
            for number in range(len(self.runs)):
                rows = self._rows(connection, number)
                counted = [sa.func.sum(sa.case((each, 1), else_=0)) for each in rows.unknown()]
                found = connection.execute(rows.select(*counted)).one()
                counts = [count + int(more or 0) for count, more in zip(counts, found, strict=True)]
        no_facts, no_gold, no_searches, no_prompts = counts
        return UnknownFacts(
            no_gold=no_gold if fields & GOLD else 0,
            no_searches=no_searches if fields & GOLD else 0,
            no_prompts=no_prompts if fields & {"gold_seen", "gold_cut", "gold_unseen"} else 0,
            no_facts=no_facts,
        )

    def with_facts(self, indices: Iterable[int]) -> list[AttemptSummary]:
        """The rows at these places, as :meth:`read` gives them; facts that attempts among them lack are made first,
        where the store can be written.

        Raises:
            StopRun: the store cannot be written.
        """
        wanted = list(indices)
        read = self.read(wanted)
        lacking = {(one.run.id, one.question.id, one.epoch) for one in read if one.facts is None and one.at is not None}
        if not lacking or not self.store.writable:
            return read
        make_facts(self.store, self.runs, among=lacking)
        return self.read(wanted)

    def backlog(self, where: str, sort: SortBy = "asked") -> int:
        """How many attempts `where` cannot choose or `sort` cannot place yet, because the facts that they ask for are
        still to be made, or their texts to be looked through (:meth:`complete`); 0 where they ask for neither.

        Raises:
            FilterError: as :meth:`order`.
        """
        wanted = parse(where)
        return self._lacking_facts(wanted, sort) + sum(
            len(self._unread(wanted, number)) for number in range(len(self.runs))
        )

    def complete(self, where: str, progress: Progress = lambda step, rows: None, sort: SortBy = "asked") -> None:
        """Do what :meth:`backlog` counts, the newest run first. It may run in any thread; where `progress` raises to
        break it off, the next call goes on. Texts are looked through of the attempts that the rest of the expression
        leaves, and what they hold is remembered as long as the pages are.

        Raises:
            FilterError: as :meth:`order`.
            StopRun: the store cannot be written.
        """
        wanted, before = parse(where), 0
        if self._lacking_facts(wanted, sort):
            make_facts(self.store, self.runs, progress)
        for number in sorted(range(len(self.runs)), key=lambda each: -self.runs[each].created):
            if unread := self._unread(wanted, number):
                report = partial(_report_search, progress, before)
                self._texts.search(number, _text_tests(wanted), unread, report)
                before += len(unread)

    def _lacking_facts(self, wanted: Wanted | None, sort: SortBy) -> int:
        asked = {test.field for test in single_conditions(wanted) if not isinstance(test, TextTest)}
        if not FACTS & {*asked, sort}:
            return 0
        with self.connect() as connection:
            return len(lacking_facts(connection, self._numbers))

    def _unread(self, wanted: Wanted | None, number: int) -> dict[Place, tuple[float, float]]:
        """The attempts of a run whose texts are to be looked through."""
        tests = _text_tests(wanted)
        if not tests:
            return {}
        with self.connect() as connection:
            rows = self._rows(connection, number)
            fits = rows.fits(without_texts(wanted))
            if isinstance(fits, sa.False_):
                return {}
            asked = connection.execute(rows.select(_Q.c.question_id, rows.epoch).where(fits))
            return self._texts.unread(number, tests, {(row[0], row[1]) for row in asked})

    def counts(self) -> dict[str, dict[str, int]]:
        """Run id → outcome → number of attempts. Passes over the whole runs."""
        counted: dict[str, dict[str, int]] = {}
        with self.connect() as connection:
            for number, run in enumerate(self.runs):
                rows = self._rows(connection, number)
                outcome = rows.outcome()
                statement = rows.select(outcome, sa.func.count()).group_by(outcome)
                counted[run.id] = {str(name): int(count) for name, count in connection.execute(statement)}
        return counted

    def subjects(self) -> dict[str, int]:
        """Subject → number of questions."""
        counted: dict[str, int] = {}
        for name in dict.fromkeys(run.questions for run in self.runs):
            known = self.names.subjects_of(name)
            for code, count in Counter(known.by_position).items():
                counted[known.names[code]] = counted.get(known.names[code], 0) + count
        return counted

    def differing(self, first: int, second: int) -> Iterator[tuple[str, int, int, float, float]]:
        """Attempts at the same question that one scorer scores differently in two runs (by their place in `runs`).

        Yields:
            Question id, epoch, the first run's row, and both values, in the first run's order.
        """
        epochs, start = self.runs[first].epochs, self._starts[first]
        with self.connect() as connection:
            # Read one after the other: the database has no index to join two runs' views by.
            rows = self._rows(connection, second)
            known = {
                (row.question_id, row.epoch, row.scorer): row.value
                for row in connection.execute(rows.select(*_paired(rows)))
            }
            rows = self._rows(connection, first)
            for row in connection.execute(rows.select(*_paired(rows)).order_by(*rows.in_order())):
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
        with self.connect() as connection:
            rows = score_rows_of(connection, self.number(summary.run), [summary.question.id])
            return tuple(score_of(summary.run, row) for row in rows if row.epoch == summary.epoch)

    def number(self, run: Run) -> int:
        """The number of a run of these in the store."""
        return self._numbers[self.runs.index(run)]

    def other_scorers(self) -> tuple[str, ...]:
        """The scorers, by name, that are not preferred and have scored something: they count where no preferred one has
        scored an attempt."""
        with self.connect() as connection:
            found = {scorer for number in self._numbers for scorer in scorers_of(connection, number)}
        return tuple(sorted(found.difference(self.scorers)))

    def connect(self) -> sa.Connection:
        """A connection of which every read sees what is committed by then."""
        return autocommit(self.store.engine)

    def _rows(self, connection: sa.Connection, number: int) -> RunRows:
        """The rows of a run as SQL; scorers that have scored nothing in it are left out."""
        run, key = self.runs[number], self._numbers[number]
        known = scorers_of(connection, key)
        there = [scorer for scorer in self.scorers if scorer in known]
        others = sorted(set(known).difference(there))
        engine = self.store.engine
        return RunRows(engine, number, key, run.questions, run.epochs, there, self.names, self._texts, others)

    def _sort_key(self, rows: RunRows, number: int, sort: SortBy) -> Column | None:
        if sort == "asked":
            return None
        if sort == "agent":
            return sa.literal(self.runs[number].agent)
        if sort == "status":
            return rows.outcome()
        if sort == "question":
            return _Q.c.question_id
        return _Q.c.position if sort == "subject" else rows.number(sort)

    def _sorted(self, places: array[int], keys: list[Key], sort: SortBy, descending: bool) -> array[int]:
        """Places by their keys, by their own order where these are equal."""
        import numpy as np

        if sort == "subject":
            keys = [self._subject_at(place, key) for place, key in zip(places, keys, strict=True)]
        if sort in _BY_NAME:
            named = sorted(range(len(places)), key=lambda each: str(keys[each]), reverse=not descending)
            return array("Q", (places[each] for each in named))
        figures = np.array([np.nan if key is None else float(key) for key in keys], dtype=float)
        order = np.argsort(-figures if descending else figures, kind="stable")  # what is not a number is last
        return array("Q", np.frombuffer(places, dtype=np.uint64)[order].tobytes()) if len(places) else places

    def _subject_at(self, place: int, position: Key) -> str:
        number = bisect.bisect_right(self._starts, place) - 1
        known = self.names.subjects_of(self.runs[number].questions)
        return known.names[known.by_position[int(position or 0)]]

    def _summary(self, number: int, row: Any, notes: tuple[AttemptNote, ...]) -> AttemptSummary:
        run = self.runs[number]
        item = msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion)
        parts = {name: _part(row, name) for name in _PARTS}
        made, scored, told = parts["attempts"], parts["scores"], parts["facts"]
        return AttemptSummary(
            run=run,
            index=self._starts[number] + row.position * run.epochs + row.epoch,
            question=item.question,
            gold=item.gold,
            epoch=row.epoch,
            outcome=row.outcome,
            scorer=row.scores_scorer or "",
            value=scored.get("value"),
            prediction=_damaged(row, parts) or scored.get("prediction") or "",
            cost_uncached=made.get("cost_uncached"),
            cost_paid=made.get("cost_paid"),
            tokens=row.tokens if made else None,
            model_calls=made.get("model_calls"),
            seconds=made["seconds"] if made and (made["seconds"] or made["at"]) else None,  # imported: never measured
            at=row.attempts_at,
            facts=AttemptFacts(**{name: told[name] for name in _FACTS}) if told else None,
            notes=notes,
        )


def _text_tests(wanted: Wanted | None) -> list[TextTest]:
    return [test for test in single_conditions(wanted) if isinstance(test, TextTest)]


def _report_search(progress: Progress, before: int, done: int) -> None:
    progress("searching the texts", before + done)


_PARTS = {
    table.name: [one.name for one in summed_columns(table)] for table in (schema.attempts, schema.scores, schema.facts)
}
"""Tables that a row of the list is of, with the columns that tell whether their rows are whole."""
_FACTS = AttemptFacts.__struct_fields__


def _shown(rows: RunRows) -> list[Column]:
    """The columns of a row of the list."""
    reads = {"attempts": rows.of_attempt, "scores": rows.of_score, "facts": rows.of_facts}
    return [
        _Q.c.position,
        _Q.c.body,
        rows.epoch.label("epoch"),
        rows.number("tokens").label("tokens"),
        rows.outcome().label("outcome"),
        *(reads[part](name).label(f"{part}_{name}") for part, names in _PARTS.items() for name in names),
        _Q.c.question_id,
    ]


def _part(row: Any, part: str) -> dict[str, Any]:
    """What a row of the list holds of a table, by column; nothing where that has no row for it, or a damaged one."""
    values = [getattr(row, f"{part}_{name}") for name in _PARTS[part]]
    return dict(zip(_PARTS[part], values, strict=True)) if is_whole(values) else {}


def _damaged(row: Any, parts: Mapping[str, Mapping[str, Any]]) -> str:
    """In words, which part of a row of the list does not match its checksum."""
    part = next((name for name in parts if not parts[name] and getattr(row, f"{name}_question_id") is not None), "")
    return f"damaged {part}: ragrounds doctor --store" if part else ""


def _paired(rows: RunRows) -> list[Column]:
    """The columns by which two runs are compared."""
    return [
        _Q.c.position,
        _Q.c.question_id,
        rows.epoch.label("epoch"),
        rows.of_score("scorer").label("scorer"),
        rows.of_score("value").label("value"),
    ]
