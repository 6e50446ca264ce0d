"""The state of the grid screen without a terminal: the questions and agents shown, their order, and what is marked.

Lines are questions, or headings of groups with their means. Questions are read where they are shown.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.compare.grid import AgentGrid, GridGroup, GridPattern, GridSort, Numbers, Places, WhichRows
from ragrounds.evals.scorers import described
from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.ui.text import UNKNOWN, number_of, one_line, safe
from ragrounds.ui.trace.grid_cells import cell_style, cell_text, heat, mean_text, score_text
from ragrounds.ui.trace.layout import Cells, fit, narrow_dollars

_AROUND = 60
"""Questions read at a time: about a screenful."""
WHICH_WORDS: dict[WhichRows, str] = {
    "all": "all questions",
    "differ": "where {first} and {second} differ",
    "first": "that only {first} has right, of {first} and {second}",
    "second": "that only {second} has right, of {first} and {second}",
    "neither": "that neither {first} nor {second} has right",
    "both": "that {first} and {second} have right",
}
_FIGURES: dict[GridSort, str] = {"disagreement": "split", "cost": "cost", "score": "mean"}


class GridLine(Struct, frozen=True):
    """A line as it is drawn."""

    label: Cells
    figure: str
    cells: Sequence[tuple[str, str, bool]]


class GridView:
    """A grid with an order, a cursor's surroundings, and marks."""

    def __init__(self, grid: AgentGrid, names: Sequence[str], listed: array[int] | None) -> None:
        self.grid = grid
        self.all_names = tuple(names)
        again = Counter(run.agent for run in grid.runs)
        self.ids = tuple(run.id if again[run.agent] > 1 else "" for run in grid.runs)
        """By column: the run's id, where another run has the same agent; else empty."""
        self.listed = listed
        """Places of the attempts that the list of attempts holds, in its order; ``None``: all of them."""
        self.shown: list[int] = list(range(len(names)))
        """The columns shown, in the order shown."""
        self.sort: GridSort = "disagreement" if listed is None else "listed"
        self.descending = True
        self.which: WhichRows = "all"
        self.pinned = 0
        self.partner = min(1, len(names) - 1)
        """The column that stands against the pinned one in the 2 × 2."""
        self.marked: list[tuple[int, int]] = []
        """Row and column of at most two cells."""
        self.folded: set[int] = set()
        self.means: tuple[float | None, ...] = (None,) * len(names)
        self._counts: tuple[int, ...] = ()
        self.patterns: list[GridPattern] = []
        self.groups: list[GridGroup] = []
        self._figures: dict[GridSort, Numbers] = {}
        self.lines: array[int] = array("q")
        """Rows of the grid; a group's heading is -1 minus its number."""
        self._near: dict[int, AttemptSummary] = {}

    @property
    def pages(self) -> Pages:
        """Where the attempts are."""
        return self.grid.pages

    @property
    def unit(self) -> str:
        """The unit of the grid's scorer."""
        return described(self.grid.scorer).unit if self.grid.scorer else "percent"

    def make_lines(self, column: int = 0) -> array[int]:
        """The lines for :meth:`take`: the slow part, for another thread.

        Args:
            column: among those shown, the one by whose score to sort where that is asked.
        """
        grid = self.grid
        rows = None if self.listed is None else grid.rows_of(self.listed)
        if self.which != "all":
            chosen = grid.which(self.which, self.pinned, self.partner)
            rows = chosen if rows is None else rows[_inside(rows, chosen)]
        descending = self.descending if self.sort in ("disagreement", "cost") else not self.descending
        order = grid.order(self.sort, descending, rows, self.shown[column] if self.shown else 0)
        if self.sort != "group" or grid.groups is None:
            return array("q", order.tolist())
        lines: array[int] = array("q")
        before = -1
        for row, group in zip(order.tolist(), grid.groups[order].tolist(), strict=True):
            if group != before:
                lines.append(-1 - group)
                before = group
            if group not in self.folded:
                lines.append(row)
        return lines

    def figures_changed(self) -> None:
        """Make what is said of all questions anew: means, groups, patterns. Also for another thread."""
        every, *groups = self.grid.groups_and_means()
        self.means, self.groups = every.means, groups
        self._counts = self.grid.counts
        self.patterns = self.grid.patterns(40)
        self._figures = {
            "disagreement": self.grid.disagreement(),
            "cost": self.grid.costs(),
            "score": self.grid.score(),
        }

    def take(self, lines: array[int]) -> None:
        """Show these lines."""
        self.lines = lines
        self._near.clear()

    def __len__(self) -> int:
        return len(self.lines)

    def row(self, line: int) -> int | None:
        """The question of a line; ``None``: it is a heading, or there is none."""
        return self.lines[line] if 0 <= line < len(self.lines) and self.lines[line] >= 0 else None

    def group(self, line: int) -> int | None:
        """The group whose heading a line is."""
        return -1 - self.lines[line] if 0 <= line < len(self.lines) and self.lines[line] < 0 else None

    def line_of(self, row: int) -> int | None:
        """The line of a question; ``None``: it is not shown."""
        return self.lines.index(row) if row in self.lines else None

    def question(self, line: int) -> AttemptSummary | None:
        """An attempt at the question of a line, for its text; ``None`` for a heading."""
        if line not in self._near:
            start = max(0, line - _AROUND // 2)
            if len(self._near) > 8 * _AROUND:
                self._near.clear()
            places: dict[int, int] = {}
            for each in range(start, min(start + _AROUND, len(self.lines))):
                row = self.row(each)
                if row is not None:
                    places[each] = next(iter(self.grid.places(row)))
            found = {one.index: one for one in self.pages.read(places.values())}
            self._near.update({each: found[place] for each, place in places.items() if place in found})
        return self._near.get(line)

    def place(self, line: int, column: int) -> int | None:
        """The attempt behind a cell, by its place among the pages: the first epoch that is not right; ``None``: a
        heading, or a question that this run was not asked."""
        row = self.row(line)
        if row is None or not self.shown:
            return None
        at = self.shown[column]
        return self.grid.place(row, at, self.grid.telling_epoch(row, at))

    def attempt(self, row: int, column: int) -> AttemptSummary | None:
        """The attempt behind a cell of the grid, read anew."""
        place = self.grid.place(row, column, self.grid.telling_epoch(row, column))
        found = [] if place is None else self.pages.read([place])
        return found[0] if found else None

    def pair(self, column: int) -> tuple[int, int]:
        """The two columns of the 2 × 2: the pinned one, and the one under the cursor or, on the pinned one, the last
        other."""
        at = self.shown[column] if self.shown else 0
        if at != self.pinned:
            self.partner = at
        elif self.partner == self.pinned:
            self.partner = next((place for place in range(len(self.all_names)) if place != self.pinned), self.pinned)
        return self.pinned, self.partner

    def mark(self, line: int, column: int) -> bool:
        """Mark a cell or no longer; a third mark takes the place of the first. Whether there is a cell."""
        row = self.row(line)
        if row is None or not self.shown:
            return False
        cell = (row, self.shown[column])
        if cell in self.marked:
            self.marked.remove(cell)
        else:
            self.marked = [*self.marked[-1:], cell]
        return True

    def next_scorer(self) -> bool:
        """Make means and the 2 × 2 by the next scorer that scored some cells; whether there is another."""
        used = list(self.grid.used_scorers())
        if len(used) < 2:
            return False
        self.grid.take_scorer(used[(used.index(self.grid.scorer) + 1) % len(used)])
        return True

    def fold(self, group: int) -> None:
        """Fold a group, or unfold it."""
        self.folded ^= {group}

    def description(self) -> str:
        """Which questions are listed and how they are sorted, in words."""
        first, second = self.all_names[self.pinned], self.all_names[self.partner]
        which = WHICH_WORDS[self.which].format(first=first, second=second)
        count = sum(line >= 0 for line in self.lines) if not self.folded else 0
        total = f"{number_of(count, 'question')} " if count else ""
        words = {"disagreement": "most split first", "cost": "dearest first", "score": "hardest first"}
        other = {"disagreement": "least split first", "cost": "cheapest first", "score": "easiest first"}
        agent = "lowest first" if self.descending else "highest first"
        by = {"agent": f"by one agent's score, {agent}", "group": "by group", "question": "as asked"}
        by |= {"listed": "as the list is sorted"}
        said = by.get(self.sort) or (words if self.descending else other)[self.sort]
        return f"{total if self.which != 'all' else total.strip()}{'' if self.which == 'all' else which}, {said}"

    # What the pane asks for

    def names(self) -> Sequence[str]:
        """The shown agents' names."""
        return [self.all_names[column] for column in self.shown]

    def summary(self) -> Sequence[tuple[str, str]]:
        """The mean score of every shown agent."""
        return [(mean_text(self.means[column], self.unit), "strong") for column in self.shown]

    def scored(self) -> Sequence[str]:
        """How many questions have a score of each shown agent; empty where all have."""
        counts = self._counts
        if all(count == self.grid.rows for count in counts):
            return ()
        return [f"{counts[column]:,}" for column in self.shown]

    def figure_name(self) -> str:
        """The heading of the figure by which the grid is sorted."""
        return _FIGURES.get(self.sort, "split")

    def line(self, line: int, width: int) -> GridLine:
        """A line as it is drawn, its label `width` wide."""
        group = self.group(line)
        if group is not None:
            return self._heading(group, width)
        row = self.row(line)
        if row is None:
            return GridLine([], "", [("", "plain", False)] * len(self.shown))
        cells = []
        for column in self.shown:
            cell = self.grid.cell(row, column)
            cells.append((cell_text(cell), cell_style(cell), (row, column) in self.marked))
        summary = self.question(line)
        label = ""
        if summary is not None:
            name = one_line(summary.question.id[:80], 40)
            label = f"{name}  {one_line(summary.question.text[: width * 2], max(2, width))}"
        indent = "  " if self.sort == "group" else ""
        return GridLine([(fit(indent + label, max(0, width - 1)) + " ", "plain")], self._figure(row), cells)

    def _heading(self, group: int, width: int) -> GridLine:
        found = self.groups[group] if group < len(self.groups) else GridGroup("", 0, self.means)
        sign = "▸" if group in self.folded else "▾"
        label = f"{sign} {one_line(found.name or 'no group', 60)}  ({found.count:,})"
        cells = []
        for column in self.shown:
            mean = found.means[column]
            style = "dim" if mean is None else heat(mean) if 0 <= mean <= 1 else "strong"
            cells.append((mean_text(mean, self.unit), style, False))
        return GridLine([(fit(label, max(0, width - 1)) + " ", "heading")], "", cells)

    def _figure(self, row: int) -> str:
        sort: GridSort = self.sort if self.sort in _FIGURES else "disagreement"
        figures = self._figures.get(sort)
        value = None if figures is None else float(figures[row])
        if value is None or value != value:  # not a number: not known
            return UNKNOWN
        return narrow_dollars(value) if sort == "cost" else score_text(value)


def _inside(rows: Places, chosen: Places) -> Places:
    import numpy as np

    found: Places = np.flatnonzero(np.isin(rows, chosen))
    return found


def safe_names(names: Sequence[str]) -> list[str]:
    """Names as they may be shown in a title."""
    return [safe(name).replace("[", r"\[") for name in names]
