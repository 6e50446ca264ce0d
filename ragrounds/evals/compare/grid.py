"""Grid of questions × agents: right answers and disagreement.

A grid holds numbers alone, some thirty bytes a cell; texts are loaded when a row is shown.
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
"""Keys by which the questions of a grid can be sorted."""

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
"""Outcomes of attempts, the least telling first. A cell with several epochs shows the last of these that it has."""
_CODE = {name: code for code, name in enumerate(SEVERITY)}
_NO_SCORER = 255

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_Q, _A, _S = schema.questions, schema.attempts, schema.scores


class AgentGridCell(Struct, frozen=True, kw_only=True):
    """Results of one agent at one question."""

    value: float | None
    """Mean score over the epochs that have one; ``None`` if no epoch has a score."""
    right: int
    """Epochs with full marks."""
    scored: int
    """Epochs with a score."""
    epochs: int
    fractional: bool
    """True if some score of this agent is neither 0 nor 1."""
    outcome: str
    """Most telling outcome of all epochs: :data:`SEVERITY`."""
    cost: float | None
    """Uncached dollars of all epochs; ``None`` if not known."""


class AgentGrid:
    """Grid of every question that some run of the pages was asked, with a column for each run.

    Rows are numbered in the order in which the questions were asked, those of the first run's set first. The grid is
    empty until :meth:`load`, which may be called again when more was written. Arrays are (rows, columns).
    """

    means: Numbers
    """Mean score over epochs, NaN if there is no score."""
    right: Codes
    """Epochs with full marks."""
    scored: Codes
    """Epochs with a score."""
    fractional: Flags
    """(columns,): true if some score is neither 0 nor 1."""
    datasets: npt.NDArray[np.str_]
    """(rows,): dataset of each question."""
    firsts: Places
    """(rows,): index among the pages of an attempt at the question, by the first run that was asked it."""

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
        """Number of questions."""
        return len(self.ids)

    # Reading

    def load(self) -> None:
        """Load the grid: one pass over attempts and scores of each run; the first time also over the questions."""
        with self.pages.connect() as connection:
            if not self.ids:
                self._read_questions(connection)
            row_by_id = {id: row for row, id in enumerate(self.ids)}
            # Runs with fewer epochs than others leave the last epochs empty: no score, not run, no cost.
            shape = self.rows, len(self.runs), max(run.epochs for run in self.runs)
            values, costs = np.full(shape, np.nan), np.full(shape, np.nan)
            scorers, statuses = np.full(shape, _NO_SCORER, dtype=np.uint8), np.zeros(shape, dtype=np.uint8)
            answers = np.full(shape, _CODE["answered"], dtype=np.uint8)
            completed = np.zeros(shape, dtype=bool)
            for column, run in enumerate(self.runs):
                number = self.pages.store.number(run)
                attempt_query = sa.select(_A.c.question_id, _A.c.epoch, _A.c.status, _A.c.cost_uncached)
                attempts = _fetch_raw(connection, attempt_query.where(_A.c.run == number))
                cells = [row_by_id[row[0]] for row in attempts], column, [row[1] for row in attempts]
                completed[cells] = [row[2] == "completed" for row in attempts]
                statuses[cells] = [_CODE.get(row[2], _CODE["answered"]) for row in attempts]
                costs[cells] = np.array([row[3] for row in attempts], dtype=np.float64)
                score_query = sa.select(_S.c.question_id, _S.c.epoch, _S.c.scorer, _S.c.value, _S.c.answer_status)
                # The most preferred scorer that has scored an attempt counts, even if its value is missing.
                # Sorted in reverse, because numpy keeps the last of several values for one cell.
                codes = {name: code for code, name in enumerate(self._scorers)}
                scores = sorted(
                    (row for row in _fetch_raw(connection, score_query.where(_S.c.run == number)) if row[2] in codes),
                    key=lambda row: -codes[row[2]],
                )
                cells = [row_by_id[row[0]] for row in scores], column, [row[1] for row in scores]
                scorers[cells] = [codes[row[2]] for row in scores]
                values[cells] = np.array([row[3] for row in scores], dtype=np.float64)
                answers[cells] = [_CODE.get(row[4], _CODE["answered"]) for row in scores]
        self._values = values
        self.means, self.right = _mean(values, axis=2), (values >= 1).sum(axis=2).astype(np.uint8)
        self.scored = (~np.isnan(values)).sum(axis=2).astype(np.uint8)
        self.fractional = np.asarray(((values > 0) & (values < 1)).any(axis=(0, 2)))
        self._scorer_codes = scorers.min(axis=2)
        self._outcomes = np.where(completed, answers, statuses).max(axis=2)
        self._costs = _total(costs, statuses > 0)
        used = self.used_scorers()
        self.scorer = next((name for name in (self.scorer, *self.pages.asked, *used) if name in used), "")
        code = self._scorers.index(self.scorer) if used else _NO_SCORER
        self._compared: Numbers = np.where(self._scorer_codes == code, self.means, np.nan)
        self._left = np.array([run.count * run.epochs for run in self.runs]) > (statuses > 0).sum(axis=(0, 2))
        self._counted = self._in_figures(code, np.where(scorers == code, values, np.nan), statuses > 0, completed)

    def _in_figures(self, code: int, values: Numbers, was_made: Flags, completed: Flags) -> Numbers:
        """Return the values that count in a run's figure, (rows, columns).

        An attempt that ended without an answer counts 0 if the scorer applies to its question. A question counts if all
        its attempts are made and none misses a score.
        """
        scored = np.unique(self._parts[(self._scorer_codes == code).any(axis=1)])
        suited = np.isin(self._parts, scored)[:, None, None]
        filled = np.where(np.isnan(values) & was_made & ~completed & suited, 0.0, values)
        epochs = np.array([run.epochs for run in self.runs])
        complete = (~np.isnan(filled)).sum(axis=2) == epochs
        counted: Numbers = np.where(complete, np.nansum(filled, axis=2) / epochs, np.nan)
        return counted

    def _read_questions(self, connection: sa.Connection) -> None:
        decoder = msgspec.msgpack.Decoder(StoredQuestion)
        row_by_id: dict[str, int] = {}
        parts: dict[tuple[str, str], int] = {}
        datasets: list[str] = []
        part_of_row: list[int] = []
        rows_by_set: dict[str, list[int]] = {}
        for name in dict.fromkeys(run.questions for run in self.runs):
            rows_by_set[name] = []
            for (body,) in _fetch_raw(connection, sa.select(_Q.c.body).where(_Q.c.set == name).order_by(_Q.c.position)):
                question = decoder.decode(decompress(body)).question
                if question.id not in row_by_id:
                    datasets.append(question.benchmark)
                    part_of_row.append(parts.setdefault((question.benchmark, question.kind), len(parts)))
                rows_by_set[name].append(row_by_id.setdefault(question.id, len(row_by_id)))
        self.datasets, self._parts = np.array(datasets), np.array(part_of_row, dtype=np.int64)
        for name, rows in rows_by_set.items():
            self._positions[name] = np.full(len(row_by_id), -1, dtype=np.int64)
            self._positions[name][rows] = np.arange(len(rows))
        self.firsts = np.zeros(len(row_by_id), dtype=np.int64)
        for start, run in reversed(list(zip(self._starts, self.runs, strict=False))):
            positions = self._positions[run.questions]
            self.firsts = np.where(positions < 0, self.firsts, start + positions * run.epochs)
        self.ids = list(row_by_id)

    # Cells, rows and columns

    def used_scorers(self) -> dict[str, int]:
        """Return the scorers that scored cells, each with its number of cells, the most frequent first."""
        used = np.bincount(self._scorer_codes[self._scorer_codes != _NO_SCORER], minlength=len(self._scorers))
        cell_counts = {name: int(count) for name, count in zip(self._scorers, used, strict=True) if count}
        return dict(sorted(cell_counts.items(), key=lambda name_and_count: -name_and_count[1]))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of questions in the figure of each column."""
        return tuple(int(count) for count in (~np.isnan(self._counted)).sum(axis=0))

    def figures(self) -> tuple[float | None, ...]:
        """Return the figure by `scorer` of each column, as the run's table has it: the unweighted mean over datasets.

        For an unfinished run it is the figure on the run's screen: of the questions whose attempts have all been made.
        """
        by_dataset = [_mean(self._counted[self.datasets == name], axis=0) for name in np.unique(self.datasets)]
        overall = np.where(self._pooled(), _mean(self._counted, axis=0), _mean(np.array(by_dataset), axis=0))
        return tuple(map(_number_or_none, overall))

    def _pooled(self) -> Flags:
        """Return flags (columns,) that are true if some dataset still has too few answers."""
        scored = np.isin(self._parts, self._parts[~np.isnan(self._counted).all(axis=1)])
        pooled: Flags = self._left.copy()
        for column in np.flatnonzero(pooled):
            asked_rows = scored & (self._positions[self.runs[column].questions] >= 0)
            finished_rows = asked_rows & ~np.isnan(self._counted[:, column])
            pooled[column] = pooled_yet(self.datasets[finished_rows].tolist(), self.datasets[asked_rows].tolist())
        return pooled

    def cell(self, row: int, column: int) -> AgentGridCell:
        """Return the results of the agent of a column at the question of a row."""
        return AgentGridCell(
            value=_number_or_none(self.means[row, column]),
            right=int(self.right[row, column]),
            scored=int(self.scored[row, column]),
            epochs=self.runs[column].epochs,
            fractional=bool(self.fractional[column]),
            outcome=SEVERITY[int(self._outcomes[row, column])],
            cost=_number_or_none(self._costs[row, column]),
        )

    def index_of(self, row: int, column: int, epoch: int | None = 0) -> int | None:
        """Return the attempt's index among the pages; ``None`` if the run was not asked this question so often.

        With epoch ``None`` it is the first epoch without full marks, or 0 if all have them.
        """
        run = self.runs[column]
        position = int(self._positions[run.questions][row])
        if epoch is None:
            epoch = int(np.argmax(~(self._values[row, column, : run.epochs] >= 1)))
        return None if position < 0 or epoch >= run.epochs else self._starts[column] + position * run.epochs + epoch

    def row_of(self, index: int) -> tuple[int, int] | None:
        """Return row and column of an attempt by its index among the pages; ``None`` if there is no such attempt."""
        column = bisect.bisect_right(self._starts, index) - 1
        if not 0 <= column < len(self.runs):
            return None
        position = (index - self._starts[column]) // self.runs[column].epochs
        rows = np.flatnonzero(self._positions[self.runs[column].questions] == position)
        return (int(rows[0]), column) if len(rows) else None

    def rows_of(self, page_indices: Sequence[int]) -> Places:
        """Return the rows of these attempts, each once, in the order in which they were asked."""
        indices = np.asarray(page_indices, dtype=np.int64)
        rows: Places = np.full(len(indices), -1, dtype=np.int64)
        for column, run in enumerate(self.runs):
            inside = (indices >= self._starts[column]) & (indices < self._starts[column + 1])
            # Sorted by position; rows that were not asked have -1 and come before all others.
            rows_at = np.argsort(self._positions[run.questions], kind="stable")[-run.count :]
            rows[inside] = rows_at[(indices[inside] - self._starts[column]) // run.epochs]
        return np.unique(rows)

    # Figures of rows, and their order

    def _comparable_means(self) -> Numbers:
        """Return the means of the cells scored by the scorer of the first scored cell in their row; others are NaN."""
        has_mean = ~np.isnan(self.means)
        first_scorer = self._scorer_codes[np.arange(self.rows), has_mean.argmax(axis=1)]
        return np.where(has_mean & (self._scorer_codes == first_scorer[:, None]), self.means, np.nan)

    def disagreement(self) -> Numbers:
        """Return the disagreement of each row, (rows,): four times the variance of the agents' scores.

        It is 1 if half of them are right and half wrong, 0 if all agree, and NaN if fewer than two have a score.
        """
        means = self._comparable_means()
        spread = 4 * (_mean(means**2, axis=1) - _mean(means, axis=1) ** 2)
        return np.where((~np.isnan(means)).sum(axis=1) < 2, np.nan, np.maximum(spread, 0))

    def costs(self) -> Numbers:
        """Return uncached dollars of all agents for each question, (rows,); NaN if some agent's cost is not known."""
        return _total(self._costs, self._outcomes != _CODE["not_run"])

    def score(self) -> Numbers:
        """Return the mean of the agents' scores, (rows,); NaN if no agent has a score."""
        return _mean(self._comparable_means(), axis=1)

    def order(self, sort: GridSort, descending: bool = True, rows: Places | None = None) -> Places:
        """Return sorted rows; rows without a sort key come last in either direction, equal rows in the order asked.

        Args:
            sort: sort key of :data:`GRID_SORTS`.
            descending: True for the largest disagreement, cost or score first.
            rows: rows to sort, in the order asked; by default all.
        """
        candidates: Places = np.arange(self.rows, dtype=np.int64) if rows is None else rows
        if sort == "question":
            return candidates
        keys = {"disagreement": self.disagreement, "cost": self.costs, "score": self.score}[sort]()[candidates]
        missing = np.isnan(keys)
        return candidates[np.lexsort((candidates, np.where(missing, 0, -keys if descending else keys), missing))]


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean(values: Numbers, axis: int) -> Numbers:
    """Return the means of the known values along an axis; NaN if no value is known."""
    is_known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Numbers = np.where(is_known, values, 0).sum(axis=axis) / is_known.sum(axis=axis)
    return means


def _total(costs: Numbers, was_made: Flags) -> Numbers:
    """Return the sums of the costs of attempts made, along the last axis; NaN if some cost is unknown or none was
    made."""
    return np.where(was_made.any(axis=-1), np.where(was_made, costs, 0).sum(axis=-1), np.nan)


def _fetch_raw(connection: sa.Connection, statement: sa.Select[*Row]) -> Sequence[tuple[*Row]]:
    """Return the rows as the driver gives them.

    SQLAlchemy's own row objects cost three times as much, and no column here needs them.
    """
    cursor = connection.execute(statement).cursor
    assert cursor is not None, "a selection has a cursor"
    rows: Sequence[tuple[*Row]] = cursor.fetchall()
    return rows
