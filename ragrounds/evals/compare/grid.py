"""Grid of questions × agents: right answers and disagreement.

A grid holds numbers alone, some thirty bytes a cell; texts are loaded when a row is shown.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.evals.trace.summaries import Pages

GridSort = Literal["disagreement", "score", "question"]
GRID_SORTS: tuple[GridSort, ...] = ("disagreement", "score", "question")
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

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class AgentGridCell(Struct, frozen=True, kw_only=True):
    """Results of one agent at one question."""

    value: float | None
    """Mean score over the epochs that have one; ``None`` if no epoch has a score."""
    epochs: int
    outcome: str
    """Most telling outcome of all epochs: :data:`SEVERITY`."""


class AgentGrid:
    """Grid of every question that some run of the pages was asked, with a column for each run.

    Rows are numbered in the order in which the questions were asked, those of the first run's set first. The grid is
    empty until :meth:`load`, which may be called again when more was written. Arrays are (rows, columns).
    """

    means: Numbers
    """Mean score over epochs, NaN if there is no score."""
    firsts: Places
    """(rows,): index among the pages of an attempt at the question, by the first run that was asked it."""
    row_of: Places
    """Row of each attempt by its index among the pages."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.runs: tuple[Run, ...] = pages.runs
        self.ids: list[str] = []
        """The questions' ids, by row; empty: nothing is read yet."""
        self.scorer = ""
        """Scorer of most cells, or the one that a user named; empty: nothing is scored."""
        self.other_scorers: list[str] = []
        """Scorers of cells that `scorer` did not score; they are in no figure of a column."""

    @property
    def rows(self) -> int:
        """Number of questions."""
        return len(self.ids)

    def load(self) -> None:
        """Load the grid: one pass over the rows of each run."""
        row_by_id: dict[str, int] = {}
        # Runs with fewer epochs than others leave the last epochs empty: no score, not run.
        columns, epochs = len(self.runs), max(run.epochs for run in self.runs)
        records = [list(self.pages.scored(number)) for number in range(columns)]
        rows = [[row_by_id.setdefault(record.question_id, len(row_by_id)) for record in run] for run in records]
        shape = len(row_by_id), columns, epochs
        values, scorers = np.full(shape, np.nan), np.full(shape, "", dtype=object)
        outcomes, self._indices = np.zeros(shape, dtype=np.uint8), np.full(shape, -1)
        starts = itertools.accumulate(map(len, records), initial=0)
        for column, (start, run) in enumerate(zip(starts, records, strict=False)):
            cells = rows[column], column, [record.epoch for record in run]
            values[cells] = np.array([record.value for record in run], dtype=np.float64)
            scorers[cells] = [record.scorer or "" for record in run]
            outcomes[cells] = [_CODE.get(record.outcome, _CODE["answered"]) for record in run]
            self._indices[cells] = np.arange(start, start + len(run))
        self._values, self.means, self._outcomes = values, _mean(values, axis=2), outcomes.max(axis=2)
        self._scorers = scorers.max(axis=2)
        by_use = [name for name, _ in Counter(self._scorers.ravel().tolist()).most_common() if name]
        self.scorer = next((name for name in (*self.pages.asked, *by_use) if name in by_use), "")
        self.other_scorers = [name for name in by_use if name != self.scorer]
        self.row_of = np.concatenate(rows)
        self.firsts = np.unique(self.row_of, return_index=True)[1]
        self.ids = list(row_by_id)

    # Cells, rows and columns

    def cell(self, row: int, column: int) -> AgentGridCell:
        """Return the results of the agent of a column at the question of a row."""
        return AgentGridCell(
            value=None if np.isnan(self.means[row, column]) else float(self.means[row, column]),
            epochs=self.runs[column].epochs,
            outcome=SEVERITY[int(self._outcomes[row, column])],
        )

    def index_of(self, row: int, column: int) -> int | None:
        """Return the index among the pages of an attempt: the first epoch without full marks, or 0 if all have them.

        ``None`` if the run was not asked this question.
        """
        epoch = int(np.argmax(~(self._values[row, column, : self.runs[column].epochs] >= 1)))
        index = int(self._indices[row, column, epoch])
        return None if index < 0 else index

    def rows_of(self, page_indices: Sequence[int]) -> Places:
        """Return the rows of these attempts, each once, in the order in which they were asked."""
        return np.unique(self.row_of[np.asarray(page_indices, dtype=np.int64)])

    # Figures of rows, and their order

    def _comparable_means(self) -> Numbers:
        """Return the means of the cells scored by the scorer of the first scored cell in their row; others are NaN."""
        has_mean = ~np.isnan(self.means)
        first_scorer = self._scorers[np.arange(self.rows), has_mean.argmax(axis=1)]
        return np.where(has_mean & (self._scorers == first_scorer[:, None]), self.means, np.nan)

    def disagreement(self) -> Numbers:
        """Return the disagreement of each row, (rows,): four times the variance of the agents' scores.

        It is 1 if half of them are right and half wrong, 0 if all agree, and NaN if fewer than two have a score.
        """
        means = self._comparable_means()
        spread = 4 * (_mean(means**2, axis=1) - _mean(means, axis=1) ** 2)
        return np.where((~np.isnan(means)).sum(axis=1) < 2, np.nan, np.maximum(spread, 0))

    def score(self) -> Numbers:
        """Return the mean of the agents' scores, (rows,); NaN if no agent has a score."""
        return _mean(self._comparable_means(), axis=1)

    def order(self, sort: GridSort, descending: bool = True, rows: Places | None = None) -> Places:
        """Return sorted rows; rows without a sort key come last in either direction, equal rows in the order asked.

        Args:
            sort: sort key of :data:`GRID_SORTS`.
            descending: True for the largest disagreement or score first.
            rows: rows to sort, in the order asked; by default all.
        """
        candidates: Places = np.arange(self.rows, dtype=np.int64) if rows is None else rows
        if sort == "question":
            return candidates
        keys = (self.score if sort == "score" else self.disagreement)()[candidates]
        missing = np.isnan(keys)
        return candidates[np.lexsort((candidates, np.where(missing, 0, -keys if descending else keys), missing))]


def _mean(values: Numbers, axis: int) -> Numbers:
    """Return the means of the known values along an axis; NaN if no value is known."""
    is_known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Numbers = np.where(is_known, values, 0).sum(axis=axis) / is_known.sum(axis=axis)
    return means
