"""Summaries of attempts, without text and events, read in pages, for a viewer of very large runs.

The rows of the list are question × epoch, in the order of the questions, whether answered yet or not. So the index of a
row is plain arithmetic: opening counts nothing, any part is read by key, and rows do not move during a run. Only
sorting and filtering scan the whole run, and they keep one number for each row in memory.

Every call opens a separate connection, because a viewer reads from several threads.
"""

from __future__ import annotations

import bisect
import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.chunks import chunks
from ragrounds.base.records import Gold, Question, Run, Score
from ragrounds.base.specs import without_addresses
from ragrounds.base.spent import Spent, Usage
from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_notes import AttemptNote, notes_at
from ragrounds.evals.store.care.garbage import Progress
from ragrounds.evals.store.codec import StoredQuestion, decompress, score_of
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.row_sums import is_whole, summed_columns
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.store import Store, scorers_of
from ragrounds.evals.trace.attempt_facts import lacking_facts, make_facts
from ragrounds.evals.trace.attempt_filter import TextTest, Wanted, parse, single_conditions
from ragrounds.evals.trace.filter_fields import BY_NAME, FACTS, GOLD
from ragrounds.evals.trace.recorded_calls import Place
from ragrounds.evals.trace.run_rows import TROUBLED, Column, RowNames, RunRows, score_rows_of
from ragrounds.evals.trace.text_search import TextSearch, without_texts

Key = float | str | None
"""Value by which a row is sorted."""

SortBy = str
_FIGURES = (
    "cost", "model_calls", "time", "tokens", "score", "newest", "paid", "input", "output", "steps", "hops", "repeated",
    "faults", "gold_found", "gold_seen", "gold_rank", "gold_hop", "subject", "question", "status", "agent",
)  # fmt: skip
_SPECIAL_SORTS = {"asked": "as the questions were asked", "newest": "when it was made"}
SORT_WORDS = {name: _SPECIAL_SORTS.get(name) or BY_NAME[name].about for name in ("asked", *_FIGURES)}
"""Orders of attempts, with a description of each."""
SORTS: tuple[SortBy, ...] = tuple(SORT_WORDS)
_BY_NAME = frozenset({"subject", "question", "agent", "status"})
"""Orders by name, which begin with A; all other orders are by figure, the highest first."""


def order_words(sort: SortBy, descending: bool) -> str:
    """Describe an order; empty for the order in which the questions were asked."""
    if sort == "asked":
        return ""
    ends = ("A", "Z") if sort in _BY_NAME else ("newest", "oldest") if sort == "newest" else ("highest", "lowest")
    return f"by {'time made' if sort == 'newest' else sort.replace('_', ' ')}, {ends[0 if descending else 1]} first"


class AttemptFacts(Struct, frozen=True, kw_only=True):
    """Facts that were derived from an attempt when they were first needed; see the table `facts`."""

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
    """Number of attempts for which the conditions of a filter are unknown, by reason."""

    no_gold: int = 0
    """Number of attempts at questions whose gold documents are not known."""
    no_searches: int = 0
    """Number of attempts for which it is not known whether they searched."""
    no_prompts: int = 0
    """Number of attempts for which no recorded prompt shows whether gold was seen: its content is not stored, or does
    not show the passages.
    """
    no_facts: int = 0
    """Number of attempts whose facts are still to be derived."""

    def __bool__(self) -> bool:
        return bool(self.no_gold or self.no_searches or self.no_prompts or self.no_facts)


class AttemptSummary(Struct, frozen=True, kw_only=True):
    """One row: a question of a run, and the attempt at it without text and events."""

    run: Run
    index: int
    """Row index before sorting."""
    question: Question
    gold: Gold
    epoch: int
    outcome: str
    """One of :data:`ragrounds.base.records.OUTCOMES`, according to `scorer`."""
    scorer: str
    """Scorer of `value`; empty if the attempt is not scored."""
    value: float | None
    prediction: str
    cost_uncached: float | None
    cost_paid: float | None
    tokens: int | None
    model_calls: int | None
    seconds: float | None
    at: float | None
    facts: AttemptFacts | None = None
    """Facts of the attempt; ``None`` if it was not made yet, or they were not derived yet."""
    given_name: str = ""
    """Name that the run was given; empty if none."""
    notes: tuple[AttemptNote, ...] = ()
    """Readers' marks and notes."""

    @property
    def agent_name(self) -> str:
        """Name of the run as tables show it: the one it was given, else its agent's text without addresses."""
        return self.given_name or without_addresses(self.run.agent)

    @property
    def wrong(self) -> bool:
        """True if the attempt is scored below full marks."""
        return self.value is not None and self.value < 1

    @property
    def troubled(self) -> bool:
        """True if the attempt failed, was capped, blocked or paused, or its text is empty."""
        return self.outcome in TROUBLED


PREFERRED = ("strict", "facts", "mirage", "robust")
"""Scorers whose score the list shows: the first that an attempt has. If it has none of them, the first of any other
scorer counts, by name.
"""
_CHUNK = 400
_Q = schema.questions


class Pages:
    """Rows of some runs of one store, numbered from 0 over all of them."""

    def __init__(
        self, store: Store, runs: Sequence[Run], scorers: Sequence[str] = PREFERRED, asked: Sequence[str] = ()
    ) -> None:
        self.store = store
        self.runs = tuple(runs)
        self.scorers = tuple(scorers)
        self.asked = tuple(asked)
        """Scorers of these that a user named, by preference."""
        self.given_names = kept_names(store.engine)
        """Run id → name, for the runs that were given one."""
        self._numbers = [store.number(run) for run in runs]
        sizes = [run.count * run.epochs for run in runs]
        self._starts = [0, *itertools.accumulate(sizes)]
        self.names = RowNames(store, self.runs, self._numbers)
        self._texts = TextSearch(store, self.runs, self._numbers)

    def __len__(self) -> int:
        return self._starts[-1]

    def run_at(self, index: int) -> Run:
        """Return the run of the row at this index."""
        return self.runs[self.locate(index)[0]]

    def locate(self, index: int) -> tuple[int, int, int]:
        """Return the index in `runs` of a row's run, the position of its question, and its epoch."""
        number = bisect.bisect_right(self._starts, index) - 1
        return number, *divmod(index - self._starts[number], self.runs[number].epochs)

    def read(self, indices: Iterable[int]) -> list[AttemptSummary]:
        """Read the rows at these indices, in this order; indices beyond the last row are left out."""
        requested = list(indices)
        summaries: dict[int, AttemptSummary] = {}
        by_run: dict[int, list[tuple[int, int]]] = {}
        for index in {index for index in requested if 0 <= index < len(self)}:
            number, position, epoch = self.locate(index)
            by_run.setdefault(number, []).append((position, epoch))
        with self.connect() as connection:
            for number, keys in by_run.items():
                rows = self._rows(connection, number)
                statement, run_id = rows.select(*_row_columns(rows)), self.runs[number].id
                positions = sorted({position for position, _ in keys})
                for chunk in chunks(positions, _CHUNK):
                    records = connection.execute(statement.where(_Q.c.position.in_(chunk))).all()
                    noted = notes_at(connection, run_id, self._numbers[number], [row.question_id for row in records])
                    for row in records:
                        summary = self._summary(number, row, noted.get((run_id, row.question_id, row.epoch), ()))
                        summaries[summary.index] = summary
        return [summaries[index] for index in requested if index in summaries]

    def order(self, where: str = "", sort: SortBy = "asked", descending: bool = True) -> array[int]:
        """Return the row indices of the attempts that `where` selects (:mod:`ragrounds.evals.trace.attempt_filter`),
        sorted. Attempts without a figure to sort by are last in either direction.

        Raises:
            FilterError: the expression cannot be understood, or uses a name that does not exist.
        """
        expression = parse(where)
        indices: array[int] = array("Q")
        keys: list[Key] = []
        with self.connect() as connection:
            for number in range(len(self.runs)):
                rows = self._rows(connection, number)
                fits = rows.fits(expression)
                if isinstance(fits, sa.False_):
                    continue
                key = self._sort_key(rows, number, sort)
                statement = rows.select(rows.index_of, *([] if key is None else [key])).where(fits)
                start = self._starts[number]
                if key is None:
                    ordered = statement.order_by(*rows.in_order())
                    indices.extend(start + index for index in connection.execute(ordered).scalars())
                else:
                    records = connection.execute(statement).all()
                    indices.extend(start + row[0] for row in records)
                    if sort == "subject":
                        subjects = self.names.subjects_of(self.runs[number].questions)
                        keys.extend(subjects.names[subjects.by_position[row[1]]] for row in records)
                    else:
                        keys.extend(row[1] for row in records)
        return indices if sort == "asked" else self._sorted(indices, keys, sort, descending)

    def seek(self, where: str, row: int, step: int, order: Sequence[int] | None = None) -> int | None:
        """Return the next row after `row` whose attempt `where` selects, wrapping around at the end; `row` itself comes
        last.

        With `step` -1 it is the row before. ``None`` if no attempt is selected.

        Args:
            where: an expression, such as ``wrong``.
            row: an index in `order`, or among all rows.
            step: 1 or -1.
            order: row indices in the order shown; ``None``: all rows as they were asked.

        Raises:
            FilterError: as :meth:`order`.
        """
        if parse(where) is None:
            return None
        fitting, total = set(self.order(where)), len(self) if order is None else len(order)
        ahead = ((row + step * distance) % total for distance in range(1, total + 1))
        return next(
            (candidate for candidate in ahead if (candidate if order is None else order[candidate]) in fitting), None
        )

    def values(self, field: str) -> list[tuple[str, int]]:
        """Return the values of a field of the filter language, and the number of rows with each, the most frequent
        first.

        Empty if the field has no names as values.
        """
        return self.names.values(field)

    def unknown(self, where: str) -> UnknownFacts:
        """Count the attempts for which the conditions of `where` are unknown.

        Raises:
            FilterError: as :meth:`order`.
        """
        if not asks_facts(where):
            return UnknownFacts()
        fields, counts = _fields(parse(where)), [0, 0, 0, 0]
        with self.connect() as connection:
            for number in range(len(self.runs)):
                rows = self._rows(connection, number)
                counted = [sa.func.sum(sa.case((condition, 1), else_=0)) for condition in rows.unknown()]
                run_counts = connection.execute(rows.select(*counted)).one()
                counts = [count + int(more or 0) for count, more in zip(counts, run_counts, strict=True)]
        no_facts, no_gold, no_searches, no_prompts = counts
        return UnknownFacts(
            no_gold=no_gold if fields & GOLD else 0,
            no_searches=no_searches if fields & GOLD else 0,
            no_prompts=no_prompts if fields & {"gold_seen", "gold_cut", "gold_unseen"} else 0,
            no_facts=no_facts,
        )

    def with_facts(self, indices: Iterable[int]) -> list[AttemptSummary]:
        """Read the rows at these indices like :meth:`read`, after deriving missing facts if the store can be written.

        Raises:
            StopRun: the store cannot be written.
        """
        requested = list(indices)
        summaries = self.read(requested)
        without_facts = {
            (summary.run.id, summary.question.id, summary.epoch)
            for summary in summaries
            if summary.facts is None and summary.at is not None
        }
        if not without_facts or not self.store.writable:
            return summaries
        make_facts(self.store, self.runs, among=without_facts)
        return self.read(requested)

    def backlog(self, where: str, sort: SortBy = "asked") -> int:
        """Count the attempts that cannot be filtered by `where` or sorted by `sort` yet.

        Their facts are still to be derived, or their texts to be indexed (:meth:`complete`). 0 if neither is needed.

        Raises:
            FilterError: as :meth:`order`.
        """
        expression = parse(where)
        return self._count_missing_facts(expression, sort) + sum(
            len(self._unread(expression, number)) for number in range(len(self.runs))
        )

    def complete(self, where: str, progress: Progress = lambda step, rows: None, sort: SortBy = "asked") -> None:
        """Do the work that :meth:`backlog` counts, the newest run first.

        It may run in any thread. If `progress` raises to interrupt it, the next call continues. Only the texts of
        attempts that satisfy the rest of the expression are indexed.

        Raises:
            FilterError: as :meth:`order`.
            StopRun: the store cannot be written.
        """
        expression, n_indexed = parse(where), 0

        def report(done: int) -> None:
            progress("indexing the words", n_indexed + done)

        if self._count_missing_facts(expression, sort):
            make_facts(self.store, self.runs, progress)
        for number in sorted(range(len(self.runs)), key=lambda run_number: -self.runs[run_number].created):
            if unread := self._unread(expression, number):
                self._texts.index(number, unread, report)
                n_indexed += len(unread)

    def _count_missing_facts(self, expression: Wanted | None, sort: SortBy) -> int:
        if not FACTS & {*_fields(expression), sort}:
            return 0
        with self.connect() as connection:
            return len(lacking_facts(connection, self._numbers))

    def _unread(self, expression: Wanted | None, number: int) -> dict[Place, tuple[float, float]]:
        """Return the attempts of a run whose texts are still to be indexed."""
        tests = [test for test in single_conditions(expression) if isinstance(test, TextTest)]
        if not tests or not (unread := self._texts.unread(number, tests)):
            return {}
        with self.connect() as connection:
            rows = self._rows(connection, number)
            fits = rows.fits(without_texts(expression))
            if isinstance(fits, sa.False_):
                return {}
            selected = connection.execute(rows.select(_Q.c.question_id, rows.epoch).where(fits)).all()
        candidates = set(map(tuple, selected))
        return {attempt: version for attempt, version in unread.items() if attempt in candidates}

    def differing(self, first: int, second: int) -> Iterator[tuple[str, int, int, float, float]]:
        """Yield attempts at the same question that one scorer scores differently in two runs (by their index in
        `runs`).

        Yields:
            Question id, epoch, the first run's row, and both values, in the first run's order.
        """
        epochs, start = self.runs[first].epochs, self._starts[first]
        # The runs are read one after the other, because the database has no index to join two runs' views by.
        values = {(row.question_id, row.epoch, row.scorer): row.value for row in self.scored(second)}
        for row in self.scored(first):
            other_value = values.get((row.question_id, row.epoch, row.scorer))
            if row.value is not None and other_value is not None and row.value != other_value:
                yield row.question_id, row.epoch, start + row.position * epochs + row.epoch, row.value, other_value

    def scored(self, number: int) -> Iterator[Any]:
        """Yield position, question id, epoch, outcome, scorer and value of every row of a run, given by its index in
        `runs`, in order.
        """
        with self.connect() as connection:
            rows = self._rows(connection, number)
            columns = (
                rows.outcome().label("outcome"),
                *(rows.of_score(name).label(name) for name in ("scorer", "value")),
            )
            statement = rows.select(_Q.c.position, _Q.c.question_id, rows.epoch.label("epoch"), *columns)
            yield from connection.execute(statement.order_by(*rows.in_order()))

    def row_of(self, run: int, question_id: str, epoch: int = 0) -> int | None:
        """Return the row index of a question in the run at `run` among `runs`; ``None`` if it was not asked there."""
        selected = self.runs[run]
        statement = sa.select(_Q.c.position).where(_Q.c.set == selected.questions, _Q.c.question_id == question_id)
        with self.connect() as connection:
            position = connection.execute(statement).scalar()
        if position is None or epoch >= selected.epochs:
            return None
        return int(self._starts[run] + position * selected.epochs + epoch)

    def scores(self, summary: AttemptSummary) -> tuple[Score, ...]:
        """Return all scores of an attempt, by the name of the scorer."""
        with self.connect() as connection:
            rows = score_rows_of(connection, self.number(summary.run), [summary.question.id])
            return tuple(score_of(summary.run, row) for row in rows if row.epoch == summary.epoch)

    def number(self, run: Run) -> int:
        """Return the store's number of one of these runs."""
        return self._numbers[self.runs.index(run)]

    def connect(self) -> sa.Connection:
        """Open a connection whose every read sees the rows that are committed by then."""
        return autocommit(self.store.engine)

    def _rows(self, connection: sa.Connection, number: int) -> RunRows:
        """Return the rows of a run as SQL; scorers that have scored nothing in it are left out."""
        present = scorers_of(connection.execute, self._numbers[number])
        preferred = [scorer for scorer in self.scorers if scorer in present]
        remaining = [scorer for scorer in present if scorer not in preferred]
        return RunRows(self.names, self._texts, number, preferred, remaining)

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

    def _sorted(self, indices: array[int], keys: list[Key], sort: SortBy, descending: bool) -> array[int]:
        """Sort row indices by their keys. Equal keys keep their order."""
        import numpy as np

        if sort in _BY_NAME:
            positions = sorted(range(len(indices)), key=lambda position: str(keys[position]), reverse=not descending)
            return array("Q", (indices[position] for position in positions))
        figures = np.array([np.nan if key is None else float(key) for key in keys], dtype=float)
        # argsort puts NaN last, so that rows without a figure are last in either direction.
        order = np.argsort(-figures if descending else figures, kind="stable")
        return array("Q", np.frombuffer(indices, dtype=np.uint64)[order].tobytes()) if len(indices) else indices

    def _summary(self, number: int, row: Any, notes: tuple[AttemptNote, ...]) -> AttemptSummary:
        run = self.runs[number]
        stored = msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion)
        parts: dict[str, dict[str, Any]] = {}
        damage = ""
        end = 0
        for name, columns in _PARTS.items():
            start, end = end, end + len(columns)
            values = row[start:end]
            parts[name] = dict(zip(columns, values, strict=True)) if is_whole(values) else {}
            if not parts[name] and values[columns.index("question_id")] is not None:
                damage = damage or f"damaged {name}: ragrounds doctor --store"
        attempt, score, facts = parts["attempts"], parts["scores"], parts["facts"]
        spent = Spent(
            usage=Usage(row.tokens) if attempt and row.tokens is not None else None,
            cost_paid=attempt.get("cost_paid"),
            cost_uncached=attempt.get("cost_uncached"),
            unanswered=attempt.get("unanswered", 0),
        )
        if attempt.get("status") not in ("completed", "not_run"):
            spent = spent.without_answer
        return AttemptSummary(
            run=run,
            index=self._starts[number] + row.position * run.epochs + row.epoch,
            question=stored.question,
            gold=stored.gold,
            epoch=row.epoch,
            outcome=row.outcome,
            scorer=row.scores_scorer or "",
            value=score.get("value"),
            prediction=damage or score.get("prediction") or "",
            cost_uncached=spent.cost_uncached,
            cost_paid=spent.cost_paid,
            tokens=spent.tokens,
            model_calls=attempt.get("model_calls"),
            seconds=attempt["seconds"]
            if attempt and (attempt["seconds"] or attempt["at"])
            else None,  # imported: never measured
            at=row.attempts_at,
            facts=AttemptFacts(**{name: facts[name] for name in _FACTS}) if facts else None,
            given_name=self.given_names.get(run.id, ""),
            notes=notes,
        )


def asks_facts(where: str) -> bool:
    """Return True if a filter has a condition on facts of the steps.

    Raises:
        FilterError: the expression cannot be understood, or uses a name that does not exist.
    """
    return bool(_fields(parse(where)) & FACTS)


def _fields(expression: Wanted | None) -> set[str]:
    return {test.field for test in single_conditions(expression) if not isinstance(test, TextTest)}


_PARTS = {
    table.name: [column.name for column in summed_columns(table)]
    for table in (schema.attempts, schema.scores, schema.facts)
}
"""Tables of a row of the list, with the columns that are needed to verify their checksums."""
_FACTS = AttemptFacts.__struct_fields__


def _row_columns(rows: RunRows) -> list[Column]:
    """Return the columns of a row of the list, those of `_PARTS` first, which are read by position."""
    column_of = {"attempts": rows.of_attempt, "scores": rows.of_score, "facts": rows.of_facts}
    return [
        *(column_of[part](name).label(f"{part}_{name}") for part, names in _PARTS.items() for name in names),
        _Q.c.position,
        _Q.c.body,
        rows.epoch.label("epoch"),
        rows.number("tokens").label("tokens"),
        rows.outcome().label("outcome"),
        _Q.c.question_id,
    ]
