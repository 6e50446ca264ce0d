"""Questions × agents: who is right where, and how far they disagree.

A grid holds numbers alone, some thirty bytes a cell; texts are read where a row is shown.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Literal, TypeVarTuple

import msgspec
import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.evals.engine.live_score import pooled_yet
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import StoredQuestion, decompress
from ragrounds.evals.trace.summaries import Pages

Row = TypeVarTuple("Row")
GridSort = Literal["disagreement", "cost", "score", "question"]
GRID_SORTS: tuple[GridSort, ...] = ("disagreement", "cost", "score", "question")
"""By what the questions of a grid may be sorted."""

SEVERITY = (
    "not_run",
    "answered",
    "abstained",
    "refused",
    "unreadable",
    "empty",
    "paused",
    "capped",
    "blocked",
    "failed",
)
"""Outcomes of attempts, the least telling first: a cell with several epochs is shown by the last that it has."""
_CODE = {name: code for code, name in enumerate(SEVERITY)}
_NO_SCORER = 255

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_Q, _A, _S = schema.questions, schema.attempts, schema.scores


class AgentGridCell(Struct, frozen=True, kw_only=True):
    """What one agent made of one question."""

    value: float | None
    """Mean score over the epochs that have one; ``None``: none has."""
    right: int
    """Epochs with full marks."""
    scored: int
    """Epochs with a score."""
    epochs: int
    fractional: bool
    """Some score of this agent is neither 0 nor 1."""
    outcome: str
    """The most telling one of all epochs: :data:`SEVERITY`."""
    cost: float | None
    """Dollars uncached of all epochs; ``None``: not known."""


class AgentGrid:
    """Every question that some run of the pages was asked, with a column for each run.

    Rows are numbered as the questions were asked, those of the first run's set first. Nothing is known before
    :meth:`load`, which may be called again when more was written. Arrays are (rows, columns).
    """

    means: Numbers
    """Mean score over epochs, NaN where there is none."""
    right: Codes
    """Epochs with full marks."""
    scored: Codes
    """Epochs with a score."""
    fractional: Flags
    """(columns,): some score is neither 0 nor 1."""
    datasets: npt.NDArray[np.str_]
    """(rows,): of which dataset a question is."""
    firsts: Places
    """(rows,): the place of an attempt at the question among the pages, of the first run that was asked it."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.runs: tuple[Run, ...] = pages.runs
        self.ids: list[str] = []
        """The questions' ids, by row; empty: nothing is read yet."""
        self.scorer = ""
        """By which means are: scores of two scorers are never averaged, so that other cells are in none. Empty: nothing
        is scored."""
        self._scorers = (*pages.scorers, *pages.other_scorers())
        self._starts = [0, *itertools.accumulate(run.count * run.epochs for run in self.runs)]
        self._positions: dict[str, Places] = {}
        """Question set → position of each row in it, -1: not asked there."""

    @property
    def rows(self) -> int:
        """How many questions."""
        return len(self.ids)

    # Reading

    def load(self) -> None:
        """Read it: one pass over the attempts and the scores of each run; and over the questions, the first time."""
        with self.pages.connect() as connection:
            if not self.ids:
                self._read_questions(connection)
            known = {id: row for row, id in enumerate(self.ids)}
            # Runs with fewer epochs than others leave the last ones empty: no score, not run, no cost.
            shape = self.rows, len(self.runs), max(run.epochs for run in self.runs)
            values, costs = np.full(shape, np.nan), np.full(shape, np.nan)
            scorers, statuses = np.full(shape, _NO_SCORER, dtype=np.uint8), np.zeros(shape, dtype=np.uint8)
            answers = np.full(shape, _CODE["answered"], dtype=np.uint8)
            completed = np.zeros(shape, dtype=bool)
            for column, run in enumerate(self.runs):
                number = self.pages.store.number(run)
                made = sa.select(_A.c.question_id, _A.c.epoch, _A.c.status, _A.c.cost_uncached)
                attempts = _plain(connection, made.where(_A.c.run == number))
                at = [known[row[0]] for row in attempts], column, [row[1] for row in attempts]
                completed[at] = [row[2] == "completed" for row in attempts]
                statuses[at] = [_CODE.get(row[2], _CODE["answered"]) for row in attempts]
                costs[at] = np.array([row[3] for row in attempts], dtype=np.float64)
                said = sa.select(_S.c.question_id, _S.c.epoch, _S.c.scorer, _S.c.value, _S.c.answer_status)
                # The first scorer of the preference that has scored an attempt counts, even where its value is
                # missing: of values for one place numpy keeps the last.
                codes = {name: code for code, name in enumerate(self._scorers)}
                scores = sorted(
                    (row for row in _plain(connection, said.where(_S.c.run == number)) if row[2] in codes),
                    key=lambda row: -codes[row[2]],
                )
                at = [known[row[0]] for row in scores], column, [row[1] for row in scores]
                scorers[at] = [codes[row[2]] for row in scores]
                values[at] = np.array([row[3] for row in scores], dtype=np.float64)
                answers[at] = [_CODE.get(row[4], _CODE["answered"]) for row in scores]
        self._values = values
        self.means, self.right = _mean(values, axis=2), (values >= 1).sum(axis=2).astype(np.uint8)
        self.scored = (~np.isnan(values)).sum(axis=2).astype(np.uint8)
        self.fractional = np.asarray(((values > 0) & (values < 1)).any(axis=(0, 2)))
        self._by = scorers.min(axis=2)
        self._outcomes = np.where(completed, answers, statuses).max(axis=2)
        self._costs = _total(costs, statuses > 0)
        used = self.used_scorers()
        self.scorer = next((name for name in (self.scorer, *self.pages.asked, *used) if name in used), "")
        code = self._scorers.index(self.scorer) if used else _NO_SCORER
        self._compared: Numbers = np.where(self._by == code, self.means, np.nan)
        self._left = np.array([run.count * run.epochs for run in self.runs]) > (statuses > 0).sum(axis=(0, 2))
        self._counted = self._in_figures(code, np.where(scorers == code, values, np.nan), statuses > 0, completed)

    def _in_figures(self, code: int, values: Numbers, made: Flags, completed: Flags) -> Numbers:
        """(rows, columns): what counts in a run's figure. An attempt that ended without an answer counts 0 where the
        scorer is for its question; a question counts when all its attempts are made and none misses a score."""
        scored = np.unique(self._parts[(self._by == code).any(axis=1)])
        suited = np.isin(self._parts, scored)[:, None, None]
        known = np.where(np.isnan(values) & made & ~completed & suited, 0.0, values)
        epochs = np.array([run.epochs for run in self.runs])
        whole = (~np.isnan(known)).sum(axis=2) == epochs
        counted: Numbers = np.where(whole, np.nansum(known, axis=2) / epochs, np.nan)
        return counted

    def _read_questions(self, connection: sa.Connection) -> None:
        decoder = msgspec.msgpack.Decoder(StoredQuestion)
        known: dict[str, int] = {}
        parts: dict[tuple[str, str], int] = {}
        datasets: list[str] = []
        places: list[int] = []
        asked: dict[str, list[int]] = {}
        for name in dict.fromkeys(run.questions for run in self.runs):
            asked[name] = []
            for (body,) in _plain(connection, sa.select(_Q.c.body).where(_Q.c.set == name).order_by(_Q.c.position)):
                question = decoder.decode(decompress(body)).question
                if question.id not in known:
                    datasets.append(question.benchmark)
                    places.append(parts.setdefault((question.benchmark, question.kind), len(parts)))
                asked[name].append(known.setdefault(question.id, len(known)))
        self.datasets, self._parts = np.array(datasets), np.array(places, dtype=np.int64)
        for name, rows in asked.items():
            self._positions[name] = np.full(len(known), -1, dtype=np.int64)
            self._positions[name][rows] = np.arange(len(rows))
        self.firsts = np.zeros(len(known), dtype=np.int64)
        for start, run in reversed(list(zip(self._starts, self.runs, strict=False))):
            positions = self._positions[run.questions]
            self.firsts = np.where(positions < 0, self.firsts, start + positions * run.epochs)
        self.ids = list(known)

    # Cells, rows and columns

    def used_scorers(self) -> dict[str, int]:
        """The scorers by which cells are scored, each with the number of cells, the most frequent first."""
        used = np.bincount(self._by[self._by != _NO_SCORER], minlength=len(self._scorers))
        named = {name: int(count) for name, count in zip(self._scorers, used, strict=True) if count}
        return dict(sorted(named.items(), key=lambda one: -one[1]))

    @property
    def counts(self) -> tuple[int, ...]:
        """By column: questions in its figure."""
        return tuple(int(count) for count in (~np.isnan(self._counted)).sum(axis=0))

    def figures(self) -> tuple[float | None, ...]:
        """By column: the figure by `scorer` that the table of the run has, the unweighted mean over datasets; of a run
        that goes on, as its screen has it, of the questions that all attempts are made at."""
        by_dataset = [_mean(self._counted[self.datasets == name], axis=0) for name in np.unique(self.datasets)]
        overall = np.where(self._pooled(), _mean(self._counted, axis=0), _mean(np.array(by_dataset), axis=0))
        return tuple(map(_known, overall))

    def _pooled(self) -> Flags:
        """(columns,): whether some dataset has too few answers yet."""
        scored = np.isin(self._parts, self._parts[~np.isnan(self._counted).all(axis=1)])
        pooled: Flags = self._left.copy()
        for column in np.flatnonzero(pooled):
            asked = scored & (self._positions[self.runs[column].questions] >= 0)
            made = asked & ~np.isnan(self._counted[:, column])
            pooled[column] = pooled_yet(self.datasets[made].tolist(), self.datasets[asked].tolist())
        return pooled

    def cell(self, row: int, column: int) -> AgentGridCell:
        """What the agent of a column made of the question of a row."""
        return AgentGridCell(
            value=_known(self.means[row, column]),
            right=int(self.right[row, column]),
            scored=int(self.scored[row, column]),
            epochs=self.runs[column].epochs,
            fractional=bool(self.fractional[column]),
            outcome=SEVERITY[int(self._outcomes[row, column])],
            cost=_known(self._costs[row, column]),
        )

    def place(self, row: int, column: int, epoch: int | None = 0) -> int | None:
        """The attempt's place among the pages; ``None``: the run was not asked this question so often. Epoch ``None``
        is the first without full marks, or 0 where all have them."""
        run = self.runs[column]
        position = int(self._positions[run.questions][row])
        if epoch is None:
            epoch = int(np.argmax(~(self._values[row, column, : run.epochs] >= 1)))
        return None if position < 0 or epoch >= run.epochs else self._starts[column] + position * run.epochs + epoch

    def row_of(self, place: int) -> tuple[int, int] | None:
        """Row and column of an attempt by its place among the pages; ``None``: there is none."""
        column = bisect.bisect_right(self._starts, place) - 1
        if not 0 <= column < len(self.runs):
            return None
        position = (place - self._starts[column]) // self.runs[column].epochs
        found = np.flatnonzero(self._positions[self.runs[column].questions] == position)
        return (int(found[0]), column) if len(found) else None

    def rows_of(self, places: Sequence[int]) -> Places:
        """The rows in which some of these attempts stand, each once, as they were asked."""
        given = np.asarray(places, dtype=np.int64)
        found: Places = np.full(len(given), -1, dtype=np.int64)
        for column, run in enumerate(self.runs):
            inside = (given >= self._starts[column]) & (given < self._starts[column + 1])
            # By position, those that were not asked before all others.
            rows_at = np.argsort(self._positions[run.questions], kind="stable")[-run.count :]
            found[inside] = rows_at[(given[inside] - self._starts[column]) // run.epochs]
        return np.unique(found)

    # Figures of rows, and their order

    def _alike(self) -> Numbers:
        """The means of the cells with a score by the scorer of the first one in their row that has one."""
        known = ~np.isnan(self.means)
        first = self._by[np.arange(self.rows), known.argmax(axis=1)]
        return np.where(known & (self._by == first[:, None]), self.means, np.nan)

    def disagreement(self) -> Numbers:
        """(rows,): four times the variance of the agents' scores, so that 1 is half of them right and half wrong and 0
        is all alike; NaN where fewer than two have a score."""
        alike = self._alike()
        spread = 4 * (_mean(alike**2, axis=1) - _mean(alike, axis=1) ** 2)
        return np.where((~np.isnan(alike)).sum(axis=1) < 2, np.nan, np.maximum(spread, 0))

    def costs(self) -> Numbers:
        """(rows,): dollars uncached of all agents at a question; NaN where one's is not known."""
        return _total(self._costs, self._outcomes != _CODE["not_run"])

    def score(self) -> Numbers:
        """(rows,): the mean of the agents' scores; NaN where none has one."""
        return _mean(self._alike(), axis=1)

    def order(self, sort: GridSort, descending: bool = True, rows: Places | None = None) -> Places:
        """Rows, sorted; those without a figure to sort by are last in either direction, and equal ones as asked.

        Args:
            sort: one of :data:`GRID_SORTS`.
            descending: the largest disagreement, cost or score first.
            rows: these alone, as they were asked; by default all.
        """
        chosen: Places = np.arange(self.rows, dtype=np.int64) if rows is None else rows
        if sort == "question":
            return chosen
        keys = {"disagreement": self.disagreement, "cost": self.costs, "score": self.score}[sort]()[chosen]
        missing = np.isnan(keys)
        return chosen[np.lexsort((chosen, np.where(missing, 0, -keys if descending else keys), missing))]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean(values: Numbers, axis: int) -> Numbers:
    """Means of what is known along an axis; NaN where nothing is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Numbers = np.where(known, values, 0).sum(axis=axis) / known.sum(axis=axis)
    return found


def _total(costs: Numbers, made: Flags) -> Numbers:
    """Sums of the costs of what was made, along the last axis; NaN where one's is not known, or none was made."""
    return np.where(made.any(axis=-1), np.where(made, costs, 0).sum(axis=-1), np.nan)


def _plain(connection: sa.Connection, statement: sa.Select[*Row]) -> Sequence[tuple[*Row]]:
    """Rows as the driver gives them: SQLAlchemy's own cost three times as much, and no column here needs them."""
    found = connection.execute(statement).cursor
    assert found is not None, "a selection has a cursor"
    rows: Sequence[tuple[*Row]] = found.fetchall()
    return rows
