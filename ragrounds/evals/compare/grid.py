"""Questions × agents: who is right where, how far they disagree, and the 2 × 2 of any two of them.

A grid holds numbers alone, some thirty bytes a cell; texts are read where a row is shown. It is filled in three steps
that differ in what they cost: scores (what the grid opens with), statuses and costs (a pass over the attempts), and
what questions say of themselves (their group and cluster).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeVarTuple

import msgspec
import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.compare.figures import MOST_PAIRS
from ragrounds.evals.stats.paired import holm, mcnemar_of_counts
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import StoredQuestion, decompress
from ragrounds.evals.store.database import dialect_of
from ragrounds.evals.store.row_names import subject
from ragrounds.evals.store.summaries import Pages
from ragrounds.records import Run

Row = TypeVarTuple("Row")
GridSort = Literal["disagreement", "group", "cost", "score", "agent", "question", "listed"]
GRID_SORTS: Mapping[GridSort, str] = {
    "disagreement": "what the agents disagree on most",
    "group": "by group, with its means",
    "cost": "what cost most, all agents together",
    "score": "what fewest agents have right",
    "agent": "the score of the agent under the cursor",
    "question": "as the questions were asked",
    "listed": "as the list of attempts is sorted",
}
"""How the questions of a grid may be sorted, with its words."""
WhichRows = Literal["all", "differ", "first", "second", "both", "neither"]
"""All questions; of two agents those on which they differ, that one alone, both, or none of them has right."""
Untested = Literal["", "reading", "many", "fractional"]
"""Why two agents have no exact test: clusters are not read yet, too many pairs, scores that are neither 0 nor 1."""

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
_COMPLETED = 255
"""A status that leaves the outcome to how the answer was read."""
_UNREAD = 254
"""No status is known yet."""
_NO_SCORER = 255

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

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


class TwoByTwo(Struct, frozen=True, kw_only=True):
    """Two agents on the questions that both have a score for, by the same scorer."""

    first: int
    """The place of the first among the columns."""
    second: int
    both: int
    first_only: int
    second_only: int
    neither: int
    left_out: int
    """Questions that one or both have a score for, but not both by the scorer of the grid."""
    difference: float | None
    """Mean score of the second minus that of the first, on these questions."""
    p: float | None
    """McNemar's exact test, two-sided, one question of each cluster; ``None``: not tested, as
    :meth:`AgentGrid.untested` says."""
    p_holm: float | None
    """The same, corrected for all pairs of the grid; ``None``: not tested."""
    pairs: int
    """How many pairs the correction is for."""

    @property
    def n(self) -> int:
        """Questions that are compared."""
        return self.both + self.first_only + self.second_only + self.neither


class GridPattern(Struct, frozen=True):
    """Who is right and who is not, on how many questions."""

    right: tuple[bool | None, ...]
    """By column; ``None``: no score."""
    count: int


class GridGroup(Struct, frozen=True):
    """A group of questions."""

    name: str
    count: int
    means: tuple[float | None, ...]
    """Mean score by column, of the questions with one."""


class _Column:
    """One agent's cells; all arrays are (rows, epochs)."""

    def __init__(self, rows: int, epochs: int) -> None:
        self.values: Numbers = np.full((rows, epochs), np.nan, dtype=np.float64)
        self.answers: Codes = np.full((rows, epochs), _CODE["answered"], dtype=np.uint8)
        self.scorers: Codes = np.full((rows, epochs), _NO_SCORER, dtype=np.uint8)
        self.statuses: Codes = np.full((rows, epochs), _UNREAD, dtype=np.uint8)
        self.costs: Numbers = np.full((rows, epochs), np.nan, dtype=np.float64)

    def means(self) -> Numbers:
        """(rows,): the mean over the epochs with a score; NaN where none has."""
        known = ~np.isnan(self.values)
        sums = np.where(known, self.values, 0).sum(axis=1)
        with np.errstate(invalid="ignore"):
            found: Numbers = sums / known.sum(axis=1)
        return found

    def outcomes(self) -> Codes:
        """(rows,): the most telling outcome of all epochs, as places in :data:`SEVERITY`."""
        # Until statuses are read, an attempt with a score was made, and one without is shown as not run.
        unread = np.where(self.scorers == _NO_SCORER, _CODE["not_run"], self.answers)
        ended = np.where(self.statuses == _COMPLETED, self.answers, self.statuses)
        found: Codes = np.where(self.statuses == _UNREAD, unread, ended).max(axis=1).astype(np.uint8)
        return found

    def totals(self) -> Numbers:
        """(rows,): dollars uncached of the attempts made; NaN where one's is not known, or none was made."""
        made = self.statuses < _UNREAD
        made = (made & (self.statuses != _CODE["not_run"])) | (self.statuses == _COMPLETED)
        sums = np.where(made, self.costs, 0).sum(axis=1)
        return np.where(made.any(axis=1), sums, np.nan)


class AgentGrid:
    """Every question that some run of the pages was asked, with a column for each run.

    Rows are numbered as the questions were asked, those of the first run's set first. Nothing is read until one of the
    `load` methods is called; each may be called again when more was written.
    """

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.runs: tuple[Run, ...] = pages.runs
        self.rows = 0
        self.has_statuses = False
        self.scorers: tuple[str, ...] = (*pages.scorers, *pages.other_scorers())
        self.group_names: tuple[str, ...] = ()
        self.groups: Places | None = None
        """(rows,): places in `group_names`; ``None``: not read yet."""
        self.means: Numbers = np.empty((0, len(self.runs)), dtype=np.float64)
        """(rows, columns): mean score over epochs, NaN where there is none."""
        self.right: Codes = np.empty((0, len(self.runs)), dtype=np.uint8)
        """(rows, columns): epochs with full marks."""
        self.scored: Codes = np.empty((0, len(self.runs)), dtype=np.uint8)
        """(rows, columns): epochs with a score."""
        self.fractional: tuple[bool, ...] = ()
        """By column: some score is neither 0 nor 1."""
        self.scorer = ""
        """By which means, the 2 × 2 and patterns are: other cells are in none of them. Empty: nothing is scored."""
        self._by: Codes = np.empty((0, len(self.runs)), dtype=np.uint8)
        self._compared: Numbers = np.empty((0, len(self.runs)), dtype=np.float64)
        """(rows, columns): the means of the cells that `scorer` has scored."""
        self._outcomes: Codes = np.empty((0, len(self.runs)), dtype=np.uint8)
        self._costs: Numbers = np.empty((0, len(self.runs)), dtype=np.float64)
        self._clusters: Places | None = None
        self._starts = [0, *itertools.accumulate(run.count * run.epochs for run in self.runs)]
        self._positions: dict[str, Places] = {}
        """Question set → position of each row in it, -1: not asked there."""
        self._columns: list[_Column] = []
        self._tests: dict[tuple[int, int], tuple[float, float]] | None = None

    # Reading

    def load_scores(self) -> None:
        """Read every score: one pass over the scores of each run."""
        with self.pages.connect() as connection:
            known = self._read_ids(connection)
            self._columns = self._columns or [_Column(self.rows, run.epochs) for run in self.runs]
            ordered = {name: _by_id(known, positions) for name, positions in self._positions.items()}
            for place, run in enumerate(self.runs):
                self._read_scores(connection, place, known, ordered[run.questions])
        columns = self._columns
        self.means = np.stack([column.means() for column in columns], axis=1)
        self.right = np.stack([(column.values >= 1).sum(axis=1).astype(np.uint8) for column in columns], axis=1)
        self.scored = np.stack([(~np.isnan(one.values)).sum(axis=1).astype(np.uint8) for one in columns], axis=1)
        self.fractional = tuple(bool(((one.values > 0) & (one.values < 1)).any()) for one in columns)
        self._by = np.stack([column.scorers.min(axis=1) for column in columns], axis=1)
        self.take_scorer(self.scorer or self._first_scorer())
        self._ended()

    def load_statuses(self) -> None:
        """Read how every attempt ended and what it cost: one pass over the attempts of each run."""
        with self.pages.connect() as connection:
            known = self._read_ids(connection)
            for place, run in enumerate(self.runs):
                column = self._columns[place]
                statement = sa.select(_A.c.question_id, _A.c.epoch, _A.c.status, _A.c.cost_uncached)
                found = _plain(connection, statement.where(_A.c.run == self.pages.store.number(run)))
                statuses = np.full(column.statuses.shape, _CODE["not_run"], dtype=np.uint8)
                costs: Numbers = np.full(column.costs.shape, np.nan, dtype=np.float64)
                at = [known[row[0]] * run.epochs + row[1] for row in found]
                codes = (_COMPLETED if row[2] == "completed" else _CODE[row[2]] for row in found)
                statuses.reshape(-1)[at] = np.fromiter(codes, dtype=np.uint8, count=len(found))
                costs.reshape(-1)[at] = np.array([row[3] for row in found], dtype=np.float64)
                column.statuses, column.costs = statuses, costs
        self.has_statuses = True
        self._ended()

    def load_questions(self) -> None:
        """Read of every question its group and its cluster."""
        decoder = msgspec.msgpack.Decoder(StoredQuestion)
        groups, clusters = np.zeros(self.rows, dtype=np.int64), np.zeros(self.rows, dtype=np.int64)
        names: dict[str, int] = {}
        alike: dict[str, int] = {}
        with self.pages.connect() as connection:
            for name, positions in self._positions.items():
                asked = np.flatnonzero(positions >= 0)
                rows_at = dict(zip(positions[asked].tolist(), asked.tolist(), strict=True))
                for position, body in _plain(connection, sa.select(_Q.c.position, _Q.c.body).where(_Q.c.set == name)):
                    question, row = decoder.decode(decompress(body)).question, rows_at[position]
                    groups[row] = names.setdefault(subject(question), len(names))
                    clusters[row] = alike.setdefault(question.cluster or f"\0{row}", len(alike))
        self.group_names, self.groups, self._clusters, self._tests = tuple(names), groups, clusters, None

    def load(self) -> None:
        """Read all of it."""
        self.load_scores()
        self.load_statuses()
        self.load_questions()

    def _read_ids(self, connection: sa.Connection) -> dict[str, int]:
        """Question id → row. The ids are not kept."""
        known: dict[str, int] = {}
        asked: dict[str, list[int]] = {}
        for name in dict.fromkeys(run.questions for run in self.runs):
            statement = sa.select(_Q.c.question_id).where(_Q.c.set == name).order_by(_Q.c.position)
            asked[name] = [known.setdefault(row[0], len(known)) for row in _plain(connection, statement)]
        self.rows = len(known)
        for name, rows in asked.items():
            positions: Places = np.full(self.rows, -1, dtype=np.int64)
            positions[rows] = np.arange(len(rows))
            self._positions[name] = positions
        return known

    def _read_scores(self, connection: sa.Connection, place: int, known: Mapping[str, int], ordered: Places) -> None:
        run, column = self.runs[place], _Column(self.rows, self.runs[place].epochs)
        number, total = self.pages.store.number(run), len(ordered) * run.epochs
        values, answers, scorers = (array.reshape(-1) for array in (column.values, column.answers, column.scorers))
        by_id = sa.collate(_S.c.question_id, dialect_of(connection).binary)
        for code, scorer in enumerate(self.scorers):
            of_run = (_S.c.run == number, _S.c.scorer == scorer)
            # Where every attempt has a score, their order says whose each is, and no id is read.
            statement = sa.select(_S.c.value, _S.c.answer_status).where(*of_run).order_by(by_id, _S.c.epoch)
            rows = _plain(connection, statement)
            scored, read = [row[0] for row in rows], [row[1] for row in rows]
            at: Places = (ordered[:, None] * run.epochs + np.arange(run.epochs)).reshape(-1)
            if not rows:
                continue
            if len(rows) != total:
                named = sa.select(_S.c.question_id, _S.c.epoch, _S.c.value, _S.c.answer_status).where(*of_run)
                by_name = _plain(connection, named)
                at = np.array([known[row[0]] * run.epochs + row[1] for row in by_name], dtype=np.int64)
                scored, read = [row[2] for row in by_name], [row[3] for row in by_name]
            # The first scorer of the preference that has scored an attempt counts, even where its value is missing.
            open_ = scorers[at] == _NO_SCORER
            codes = np.fromiter((_CODE.get(name, _CODE["answered"]) for name in read), np.uint8, len(read))
            values[at[open_]] = np.array(scored, dtype=np.float64)[open_]
            answers[at[open_]] = codes[open_]
            scorers[at[open_]] = code
            if int((scorers != _NO_SCORER).sum()) == total:
                break
        before = self._columns[place]
        column.statuses, column.costs = before.statuses, before.costs
        self._columns[place] = column

    def _ended(self) -> None:
        self._outcomes = np.stack([column.outcomes() for column in self._columns], axis=1)
        self._costs = np.stack([column.totals() for column in self._columns], axis=1)
        self._tests = None

    # Cells, rows and columns

    def used_scorers(self) -> dict[str, int]:
        """The scorers by which cells are scored, each with the number of cells, the most frequent first."""
        used = np.bincount(self._by[self._by != _NO_SCORER], minlength=len(self.scorers))
        named = {name: int(count) for name, count in zip(self.scorers, used, strict=True) if count}
        return dict(sorted(named.items(), key=lambda one: -one[1]))

    def _first_scorer(self) -> str:
        """The first that was asked for and has scored a cell, else the most frequent; empty: nothing is scored."""
        used = self.used_scorers()
        return next((name for name in (*self.pages.asked, *used) if name in used), "")

    def take_scorer(self, scorer: str) -> None:
        """Make means, the 2 × 2 and patterns by this scorer: scores of two scorers are never averaged or compared."""
        self.scorer = scorer
        code = self.scorers.index(scorer) if scorer in self.scorers else _NO_SCORER
        self._compared = np.where(self._by == code, self.means, np.nan)
        self._tests = None

    @property
    def counts(self) -> tuple[int, ...]:
        """By column: questions with a score by `scorer`."""
        return tuple(int(count) for count in (~np.isnan(self._compared)).sum(axis=0))

    def _alike(self) -> npt.NDArray[np.bool_]:
        """(rows, columns): cells with a score by the scorer of the first one in their row that has one."""
        known = ~np.isnan(self.means)
        first = self._by[np.arange(self.rows), known.argmax(axis=1)]
        alike: npt.NDArray[np.bool_] = known & (self._by == first[:, None])
        return alike

    def ids(self) -> list[str]:
        """The questions' ids, by row; read anew."""
        with self.pages.connect() as connection:
            return list(self._read_ids(connection))

    def group_of(self, row: int) -> str:
        """The group of a question; empty where groups are not read yet."""
        return "" if self.groups is None else self.group_names[int(self.groups[row])]

    def cell(self, row: int, column: int) -> AgentGridCell:
        """What the agent of a column made of the question of a row."""
        mean, cost = float(self.means[row, column]), float(self._costs[row, column])
        return AgentGridCell(
            value=None if np.isnan(mean) else mean,
            right=int(self.right[row, column]),
            scored=int(self.scored[row, column]),
            epochs=self.runs[column].epochs,
            fractional=self.fractional[column],
            outcome=SEVERITY[int(self._outcomes[row, column])],
            cost=None if np.isnan(cost) else cost,
        )

    def place(self, row: int, column: int, epoch: int = 0) -> int | None:
        """The attempt's place among the pages; ``None``: the run was not asked this question so often."""
        run = self.runs[column]
        position = int(self._positions[run.questions][row])
        return None if position < 0 or epoch >= run.epochs else self._starts[column] + position * run.epochs + epoch

    def telling_epoch(self, row: int, column: int) -> int:
        """The first epoch without full marks; 0 where all have them."""
        values = self._columns[column].values[row]
        return int(np.argmax(~(values >= 1)))

    def places(self, row: int) -> Iterator[int]:
        """The places of all first attempts at a question, one of each agent that was asked it."""
        for column in range(len(self.runs)):
            if (place := self.place(row, column)) is not None:
                yield place

    def row_of(self, place: int) -> tuple[int, int] | None:
        """Row and column of an attempt by its place among the pages; ``None``: there is none."""
        column = bisect.bisect_right(self._starts, place) - 1
        if not 0 <= column < len(self.runs):
            return None
        position = (place - self._starts[column]) // self.runs[column].epochs
        found = np.flatnonzero(self._positions[self.runs[column].questions] == position)
        return (int(found[0]), column) if len(found) else None

    def rows_of(self, places: Sequence[int]) -> Places:
        """The rows in which some of these attempts stand, each once, in the order of the first."""
        given = np.asarray(places, dtype=np.int64)
        found: Places = np.full(len(given), -1, dtype=np.int64)
        for column, run in enumerate(self.runs):
            inside = (given >= self._starts[column]) & (given < self._starts[column + 1])
            positions = self._positions[run.questions]
            asked = np.flatnonzero(positions >= 0)
            rows_at = np.zeros(run.count, dtype=np.int64)
            rows_at[positions[asked]] = asked
            found[inside] = rows_at[(given[inside] - self._starts[column]) // run.epochs]
        _, first = np.unique(found, return_index=True)
        rows: Places = found[np.sort(first)]
        return rows

    def disagreement(self) -> Numbers:
        """(rows,): four times the variance of the agents' scores, so that 1 is half of them right and half wrong and 0
        is all alike; NaN where fewer than two have a score."""
        known = self._alike()
        counts = known.sum(axis=1)
        sums = np.where(known, self.means, 0).sum(axis=1)
        squares = np.where(known, self.means, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = 4 * ((squares**2).sum(axis=1) / counts - (sums / counts) ** 2)
        return np.where(counts < 2, np.nan, np.maximum(spread, 0))

    def costs(self) -> Numbers:
        """(rows,): dollars uncached of all agents at a question; NaN where one's is not known."""
        made = self._outcomes != _CODE["not_run"]
        sums = np.where(made, self._costs, 0).sum(axis=1)
        return np.where(made.any(axis=1), sums, np.nan)

    def score(self) -> Numbers:
        """(rows,): the mean of the agents' scores; NaN where none has one."""
        known = self._alike()
        with np.errstate(invalid="ignore"):
            found: Numbers = np.where(known, self.means, 0).sum(axis=1) / known.sum(axis=1)
        return found

    def order(self, sort: GridSort, descending: bool = True, rows: Places | None = None, column: int = 0) -> Places:
        """Rows, sorted; those without a figure to sort by are last in either direction.

        Args:
            sort: one of :data:`GRID_SORTS`; ``listed`` and ``question`` keep the order of `rows`.
            descending: the largest disagreement, cost or score first; groups are always in the order of their names.
            rows: these alone; by default all.
            column: of the agent by whose score to sort, where `sort` is ``agent``.
        """
        chosen: Places = np.arange(self.rows, dtype=np.int64) if rows is None else rows
        if sort == "question":
            return np.sort(chosen)
        if sort == "listed":
            return chosen
        if sort == "group":
            if self.groups is None:
                return np.sort(chosen)
            ranked = np.argsort(np.argsort(np.array(self.group_names, dtype=object)))
            return chosen[np.lexsort((chosen, ranked[self.groups[chosen]]))]
        figures = {"disagreement": self.disagreement, "cost": self.costs, "score": self.score}
        figure = self.means[:, column] if sort == "agent" else figures[sort]()
        keys = figure[chosen]
        missing = np.isnan(keys)
        keys = np.where(missing, 0, -keys if descending else keys)
        # Questions with the same agents right stand together.
        return chosen[np.lexsort((chosen, self._patterns(chosen), keys, missing))]

    def which(self, wanted: WhichRows, first: int, second: int) -> Places:
        """The rows, as they were asked, that are of this kind for two columns; without a score they are of none."""
        if wanted == "all":
            return np.arange(self.rows, dtype=np.int64)
        one, other, known = self._sides(first, second)
        kinds = {
            "differ": self._compared[:, first] != self._compared[:, second],
            "first": one & ~other,
            "second": other & ~one,
            "both": one & other,
            "neither": ~one & ~other,
        }
        return np.flatnonzero(known & kinds[wanted])

    def groups_and_means(self) -> list[GridGroup]:
        """For every group its means by `scorer`, and first those of all questions."""
        every = GridGroup("", self.rows, self._group_means(np.ones(self.rows, dtype=bool)))
        if self.groups is None:
            return [every]
        counts = np.bincount(self.groups, minlength=len(self.group_names))
        known = ~np.isnan(self._compared)
        means = []
        for column in range(len(self.runs)):
            inside = known[:, column]
            of = np.bincount(self.groups[inside], minlength=len(self.group_names))
            sums = np.bincount(
                self.groups[inside], weights=self._compared[inside, column], minlength=len(self.group_names)
            )
            means.append([float(total / number) if number else None for total, number in zip(sums, of, strict=True)])
        return [
            every,
            *(
                GridGroup(name, int(counts[place]), tuple(column[place] for column in means))
                for place, name in enumerate(self.group_names)
            ),
        ]

    def _group_means(self, rows: npt.NDArray[np.bool_]) -> tuple[float | None, ...]:
        found: list[float | None] = []
        for column in range(len(self.runs)):
            values = self._compared[rows, column]
            known = values[~np.isnan(values)]
            found.append(float(known.mean(dtype=np.float64)) if len(known) else None)
        return tuple(found)

    # Agents against each other

    def two_by_two(self, first: int, second: int) -> TwoByTwo:
        """Two columns against each other, over all questions."""
        one, other, known = self._sides(first, second)
        values = self._compared[known]
        scored = (~np.isnan(self.means[:, first])) | (~np.isnan(self.means[:, second]))
        difference = float(values[:, second].mean() - values[:, first].mean()) if len(values) else None
        tested = self._tested().get((first, second)) or self._tested().get((second, first))
        return TwoByTwo(
            first=first,
            second=second,
            both=int((one & other & known).sum()),
            first_only=int((one & ~other & known).sum()),
            second_only=int((other & ~one & known).sum()),
            neither=int((~one & ~other & known).sum()),
            left_out=int((scored & ~known).sum()),
            difference=difference,
            p=tested[0] if tested else None,
            p_holm=tested[1] if tested else None,
            pairs=len(self._tested()),
        )

    def untested(self, first: int, second: int) -> Untested:
        """Why two columns have no exact test; empty: they have one, or share no question."""
        if self._clusters is None:
            return "reading"
        if len(self.runs) * (len(self.runs) - 1) // 2 > MOST_PAIRS:
            return "many"
        values = self._compared[self._sides(first, second)[2]][:, [first, second]]
        return "fractional" if ((values != 0) & (values != 1)).any() else ""

    def patterns(self, most: int) -> list[GridPattern]:
        """Who is right together, the most frequent first, at most so many."""
        rows = np.arange(self.rows, dtype=np.int64)
        _, first, counts = np.unique(self._patterns(rows), return_index=True, return_counts=True)
        found = []
        for place in np.lexsort((first, -counts))[:most]:
            values = self._compared[first[place]]
            signs = tuple(None if np.isnan(value) else bool(value >= 1) for value in values)
            found.append(GridPattern(signs, int(counts[place])))
        return found

    def _patterns(self, rows: Places) -> Places:
        """(rows,): a number for who is right, wrong and without a score; of the first 39 columns."""
        values = self._compared[rows, :39]
        digits = np.where(np.isnan(values), 0, np.where(values >= 1, 2, 1)).astype(np.int64)
        found: Places = -(digits @ (3 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)))
        return found

    def _sides(self, first: int, second: int) -> tuple[npt.NDArray[np.bool_], ...]:
        """Who has full marks, and where both have a score by `scorer`."""
        one, other = self._compared[:, first], self._compared[:, second]
        return one >= 1, other >= 1, ~np.isnan(one) & ~np.isnan(other)

    def _tested(self) -> dict[tuple[int, int], tuple[float, float]]:
        """p and p corrected by Holm of every pair that can be tested; none where they are too many."""
        pairs = list(itertools.combinations(range(len(self.runs)), 2))
        if self._clusters is None or len(pairs) > MOST_PAIRS:
            return {}
        if self._tests is None:
            found: dict[tuple[int, int], float] = {}
            for first, second in pairs:
                one, other, known = self._sides(first, second)
                values = self._compared[known][:, [first, second]]
                if not len(values) or ((values != 0) & (values != 1)).any():
                    continue
                # Of a cluster its first question counts, as in the tables.
                _, lone = np.unique(self._clusters[known], return_index=True)
                left, right = one[known][lone], other[known][lone]
                counts = (left & ~right, right & ~left, left & right, ~left & ~right)
                found[first, second] = mcnemar_of_counts(*(int(one.sum()) for one in counts)).p
            corrected = holm(list(found.values()))
            self._tests = dict(zip(found, zip(found.values(), corrected, strict=True), strict=True))
        return self._tests


def _by_id(known: Mapping[str, int], positions: Places) -> Places:
    """The rows of a question set, in the order of their ids."""
    return np.array([row for _, row in sorted(known.items()) if positions[row] >= 0], dtype=np.int64)


def _plain(connection: sa.Connection, statement: sa.Select[*Row]) -> Sequence[tuple[*Row]]:
    """Rows as the driver gives them: SQLAlchemy's own cost three times as much, and no column here needs them."""
    found = connection.execute(statement).cursor
    assert found is not None, "a selection has a cursor"
    rows: Sequence[tuple[*Row]] = found.fetchall()
    return rows
