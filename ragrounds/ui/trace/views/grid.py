"""The grid: questions × agents, coloured by score and status, with the 2 × 2 of two agents beside it.

Lines are questions, or headings of groups with their means; questions are read where they are shown. While a run goes
on, what is written fills it.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from ragrounds.evals.compare.figures import MOST_PAIRS
from ragrounds.evals.compare.grid import (
    GRID_SORTS,
    AgentGrid,
    GridGroup,
    GridPattern,
    GridSort,
    Numbers,
    TwoByTwo,
    Untested,
    WhichRows,
)
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.summaries import AttemptSummary
from ragrounds.ui.text import UNKNOWN, number_of, one_line, p_value, percent, safe
from ragrounds.ui.trace.attempt_list import AttemptList, mark
from ragrounds.ui.trace.bars import KeyBar, KeysShown, TopLine
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.dialogs import MenuLine, MenuScreen, PickScreen, letters
from ragrounds.ui.trace.grid_pane import GridLine, GridPane
from ragrounds.ui.trace.grid_text import (
    cell_style,
    cell_text,
    column_names,
    difference_words,
    heat,
    score_text,
    unit_of,
)
from ragrounds.ui.trace.layout import TextBlock, fit, narrow_dollars
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.notes import ReaderNotes
from ragrounds.ui.trace.view import FILTER_KEY, View, ViewScreen, answer
from ragrounds.ui.trace.widgets import Pager, Rows

_PATIENCE = 5
"""A grid that took so long to read is read again after so many times as long, at the earliest."""
_AROUND = 60
"""Questions read at a time: about a screenful."""
_PATTERNS = 12
_FIGURES: dict[GridSort, str] = {"disagreement": "split", "cost": "cost", "score": "mean"}
_WHICH: dict[WhichRows, str] = {
    "all": "",
    "differ": "where {first} and {second} differ",
    "first": "that only {first} has right, of {first} and {second}",
    "second": "that only {second} has right, of {first} and {second}",
    "neither": "that neither {first} nor {second} has right",
    "both": "that {first} and {second} have right",
}
_SORTED: dict[GridSort, tuple[str, str]] = {
    "disagreement": ("most split first", "least split first"),
    "cost": ("dearest first", "cheapest first"),
    "score": ("hardest first", "easiest first"),
    "agent": ("by one agent's score, lowest first", "by one agent's score, highest first"),
    "group": ("by group", "by group"),
    "question": ("as asked", "as asked"),
    "listed": ("as the list is sorted", "as the list is sorted"),
}
_UNTESTED: dict[Untested, str] = {
    "many": f"No exact test: of more than {MOST_PAIRS} pairs none is tested.",
    "fractional": "No exact test: some scores are neither 0 nor 1.",
}


class GridScreen(ViewScreen):
    """Questions × agents over the runs of an :class:`AttemptList`."""

    DETAIL = "cell"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide"), (160, "-very-wide")]  # noqa: RUF012 (as Screen declares it)
    DEFAULT_CSS = """
    GridScreen {
        & #body { height: 1fr; layout: vertical; }
        & GridPane, & Pager { border: round $border-blurred; }
        & GridPane:focus, & Pager:focus { border: round $accent; }
        & GridPane { height: 1fr; }
        & #side { height: 9; layout: horizontal; }
        & #cell { width: 1fr; }
        & #pair { width: 1fr; }
        & #patterns { display: none; }
        &.-wide #body, &.-very-wide #body { layout: horizontal; }
        &.-wide GridPane, &.-very-wide GridPane { width: 1fr; height: 100%; }
        &.-wide #side, &.-very-wide #side { width: 42; height: 100%; layout: vertical; }
        &.-very-wide #side { width: 60; }
        &.-wide #cell, &.-very-wide #cell { width: 100%; height: 1fr; }
        &.-wide #pair, &.-very-wide #pair { width: 100%; height: 10; }
        &.-wide #patterns, &.-very-wide #patterns { display: block; width: 100%; height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark_cell", "Mark a cell (two: compare)", id="grid.mark"),
        Binding("c", "compare", "Compare two cells", id="grid.compare"),
        Binding("x", "pin", "Pin this agent for the 2 × 2", id="grid.pin"),
        Binding("d", "which", "Which questions", id="grid.which"),
        Binding("s", "sort", "Sort", id="grid.sort"),
        Binding("S", "reverse", "Sort the other way", id="grid.reverse", show=False),
        Binding("m", "scorer", "Means and 2 × 2 by the next scorer", id="grid.scorer", show=False),
        Binding("p", "agents", "Choose agents", id="grid.agents"),
        Binding("minus", "fold_all(True)", "Fold all groups", id="grid.fold", show=False, key_display="-"),
        Binding(
            "plus,equals_sign", "fold_all(False)", "Unfold all groups", id="grid.unfold", show=False, key_display="+"
        ),
        Binding("r", "look_again", "Read the store again", id="grid.reload", show=False),
        Binding("escape", "leave", "Back", id="grid.back"),
        FILTER_KEY,
    ]
    KEYS_SHOWN: ClassVar[KeysShown] = {
        "": (
            ("rows.open", "open"),
            ("grid.mark", "mark"),
            ("grid.compare", "compare"),
            ("grid.which", "which"),
            ("grid.sort", "sort"),
            ("grid.pin", "pin agent"),
            ("grid.agents", "agents"),
            ("grid.back", "back"),
            ("filter", "filter"),
            ("grid.reverse", "turn round"),
            ("grid.fold", "fold all"),
            ("theme", "theme"),
        )
    }

    def __init__(self, attempt_list: AttemptList, notes: ReaderNotes) -> None:
        super().__init__(attempt_list, notes)
        pages = attempt_list.pages
        self.grid = AgentGrid(pages)
        self.all_names = column_names(pages.runs, kept_names(pages.store.engine), parameter=True)
        again = Counter(run.agent for run in pages.runs)
        self.ids = tuple(run.id if again[run.agent] > 1 else "" for run in pages.runs)
        """By column: the run's id, where another run has the same agent; else empty."""
        self.shown = list(range(len(self.all_names)))
        """The columns shown, in the order shown."""
        self.sort: GridSort = "disagreement" if attempt_list.order is None else "listed"
        self.descending = True
        self.which: WhichRows = "all"
        self.pinned, self.partner = 0, min(1, len(self.all_names) - 1)
        """The columns of the 2 × 2."""
        self.marked: list[tuple[int, int]] = []
        """Row and column of at most two cells."""
        self.folded: set[int] = set()
        self.groups: list[GridGroup] = []
        """With their means; the last one is of all questions."""
        self.patterns: list[GridPattern] = []
        self.lines: array[int] = array("q")
        """Rows of the grid; a group's heading is -1 minus its number."""
        self._figures: dict[GridSort, Numbers] = {}
        self._near: dict[int, AttemptSummary] = {}
        self._not_before = 0.0
        self.pane = GridPane(self.line)

    def compose(self) -> ComposeResult:
        """The grid, the cell and the 2 × 2, with a line above that says what is shown."""
        yield TopLine("grid")
        with Container(id="body"):
            yield self.pane
            with Vertical(id="side"):
                yield Pager(id="cell", title="cell")
                yield Pager(id="pair", title="two agents")
                yield Pager(id="patterns", title="who is right together")
        yield KeyBar()

    def on_mount(self) -> None:
        """Read the grid."""
        self.pane.focus()
        self.query_one(TopLine).tell("reading scores …")
        current = self.attempt_list.current
        self._load(None if current is None else current.index)

    # Reading

    @work(thread=True, exclusive=True, group="grid")
    def _load(self, at: int | None = None) -> None:
        began = time.monotonic()
        self.grid.load()
        answer(self, self._loaded, at)
        self._not_before = time.monotonic() + _PATIENCE * (time.monotonic() - began)

    def _loaded(self, at: int | None = None) -> None:
        """Show the figures as they are by now; the cursor stays on its question, or goes to the attempt at a place."""
        grid = self.grid
        every, *groups = grid.groups_and_means()
        self.groups, self.patterns = [*groups, every], grid.patterns(_PATTERNS)
        self._figures = {"disagreement": grid.disagreement(), "cost": grid.costs(), "score": grid.score()}
        self.show_lines(at)

    def look(self) -> None:
        """Read the grid again where something was written, and the last time is long enough ago."""
        if time.monotonic() >= self._not_before:
            super().look()

    def written(self) -> None:
        """Read the grid again."""
        self._load()

    def action_look_again(self) -> None:
        """Read the grid again."""
        self._load()

    # Lines

    def show_lines(self, at: int | None = None) -> None:
        """Sort and filter the lines anew."""
        grid, listed, pane = self.grid, self.attempt_list.order, self.pane
        here = self.lines[pane.row] if pane.row < len(self.lines) else None
        if at is not None and (found := grid.row_of(at)) is not None:
            here, column = found
            pane.column = self.shown.index(column) if column in self.shown else 0
        rows = grid.which(self.which, self.pinned, self.partner)
        if listed is not None:
            wanted = grid.rows_of(listed)
            rows = wanted[np.isin(wanted, rows)]
        descending = self.descending if self.sort in ("disagreement", "cost") else not self.descending
        order = grid.order(self.sort, descending, rows, self.shown[pane.column] if self.shown else 0)
        self.lines = array("q")
        before = -1
        for row, group in zip(order.tolist(), grid.groups[order].tolist(), strict=True):
            if self.sort == "group" and group != before:
                self.lines.append(-1 - group)
                before = group
            if self.sort != "group" or group not in self.folded:
                self.lines.append(row)
        self._near.clear()
        pane.names = [self.all_names[column] for column in self.shown]
        pane.means = [self.mean_text(self.groups[-1].means[column]) for column in self.shown]
        unscored = any(count != grid.rows for count in grid.counts)
        pane.counts = [f"{grid.counts[column]:,}" for column in self.shown] if unscored else ()
        pane.figure = _FIGURES.get(self.sort, "split")
        before = pane.row
        row = self.lines.index(here) if here is not None and here in self.lines else 0
        pane.show(len(self.lines), row, keep_scroll=at is None and row == before)
        self.show_here()

    def relisted(self) -> None:
        """Show the list again: its filter or its order has changed."""
        if self.attempt_list.order is None and self.sort == "listed":
            self.sort = "disagreement"
        if self.grid.rows:
            self.show_lines()

    def row(self, line: int) -> int | None:
        """The question of a line; ``None``: it is a heading, or there is none."""
        return self.lines[line] if 0 <= line < len(self.lines) and self.lines[line] >= 0 else None

    def group(self, line: int) -> int | None:
        """The group whose heading a line is."""
        return -1 - self.lines[line] if 0 <= line < len(self.lines) and self.lines[line] < 0 else None

    def mean_text(self, value: float | None) -> str:
        """A mean score: ``64.2`` percent, or as it is."""
        if value is None:
            return UNKNOWN
        return percent(value, 1) if unit_of(self.grid.scorer) == "percent" else f"{value:.3g}"

    def line(self, line: int, width: int) -> GridLine:
        """A line as it is drawn, its label `width` wide."""
        group, row = self.group(line), self.row(line)
        cells = []
        if group is not None:
            found = self.groups[group]
            sign = "▸" if group in self.folded else "▾"
            label, style, figure = f"{sign} {one_line(found.name or 'no group', 60)}  ({found.count:,})", "heading", ""
            for mean in (found.means[column] for column in self.shown):
                look = "strong" if mean is not None and not 0 <= mean <= 1 else heat(mean)
                cells.append((self.mean_text(mean), look, False))
        elif row is not None:
            summary = self._question(line)
            label, style = "  " * (self.sort == "group"), "plain"
            if summary is not None:
                text = one_line(summary.question.text[: width * 2], max(2, width))
                label += f"{one_line(summary.question.id[:80], 40)}  {text}"
            sort: GridSort = self.sort if self.sort in _FIGURES else "disagreement"
            value = float(self._figures[sort][row])
            figure = narrow_dollars(value) if sort == "cost" and value == value else score_text(value)
            for column in self.shown:
                cell = self.grid.cell(row, column)
                cells.append((cell_text(cell), cell_style(cell), (row, column) in self.marked))
        return GridLine([(fit(label, max(0, width - 1)) + " ", style)], figure, cells)

    def _question(self, line: int) -> AttemptSummary | None:
        """An attempt at the question of a line, for its text."""
        if line not in self._near:
            if len(self._near) > 8 * _AROUND:
                self._near.clear()
            start = max(0, line - _AROUND // 2)
            rows = {each: self.row(each) for each in range(start, min(start + _AROUND, len(self.lines)))}
            places = {each: next(self.grid.places(row)) for each, row in rows.items() if row is not None}
            found = {one.index: one for one in self.grid.pages.read(places.values())}
            self._near.update({each: found[place] for each, place in places.items() if place in found})
        return self._near.get(line)

    # What stands beside the grid

    def place(self, line: int, column: int) -> int | None:
        """The attempt behind a cell, by its place among the pages: the first epoch that is not right; ``None``: a
        heading, or a question that this run was not asked."""
        row = self.row(line)
        return None if row is None or not self.shown else self.grid.place(row, self.shown[column], None)

    def pair(self, column: int) -> tuple[int, int]:
        """The two columns of the 2 × 2: the pinned one, and the one under the cursor or, on the pinned one, the last
        other."""
        at = self.shown[column] if self.shown else 0
        if at != self.pinned:
            self.partner = at
        elif self.partner == self.pinned:
            self.partner = next((place for place in range(len(self.all_names)) if place != self.pinned), self.pinned)
        return self.pinned, self.partner

    @on(Rows.Moved)
    @on(GridPane.AgentMoved)
    def show_here(self) -> None:
        """Show what belongs to the cell under the cursor."""
        grid, pane, columns = self.grid, self.pane, self.pane.across()
        others = {name: count for name, count in grid.used_scorers().items() if name != grid.scorer}
        apart = "".join(f"; {count:,} cells by {name} in no mean, m" for name, count in others.items())
        wanted = self.attempt_list.description() if self.attempt_list.order is not None else ""
        self.query_one(TopLine).tell(
            f"{pane.row + 1 if self.lines else 0:,} of {len(self.lines):,}",
            self.description(),
            f"only: {safe(wanted)}" if wanted else "",
            f"score: {grid.scorer}{apart}" if grid.scorer else "not scored",
            pane.names[pane.column] if self.shown else "",
        )
        hidden = f"agents {columns.start + 1}-{columns.stop} of {len(self.shown)}, ← →"
        marked = ("", "1 cell marked", "2 cells marked: c compares them")[len(self.marked)]
        pane.border_subtitle = "  ".join(filter(None, (hidden if len(columns) < len(self.shown) else "", marked)))
        self.query_one("#cell", Pager).show(self._cell_blocks())
        pair = [TextBlock("One agent: there is nothing to compare.", "dim")]
        if len(self.all_names) > 1:
            two = self.pair(pane.column)
            pair = self._pair_blocks(grid.two_by_two(*two), grid.untested(*two))
            self.query_one("#patterns", Pager).show(self._pattern_blocks())
        self.query_one("#pair", Pager).show(pair)

    def description(self) -> str:
        """Which questions are listed and how they are sorted, in words."""
        first, second = self.all_names[self.pinned], self.all_names[self.partner]
        count = 0 if self.folded else sum(line >= 0 for line in self.lines)
        which = _WHICH[self.which].format(first=first, second=second)
        shown = " ".join(filter(None, (number_of(count, "question") if count else "", which)))
        return f"{shown}, {_SORTED[self.sort][not self.descending]}"

    def _cell_blocks(self) -> list[TextBlock]:
        if self.group(self.pane.row) is not None:
            return [TextBlock("A group. Enter folds it or unfolds it, - and + all groups.", "dim")]
        if self.row(self.pane.row) is None or not self.shown:
            return [TextBlock("No question is listed.", "dim")]
        place, column = self.place(self.pane.row, self.pane.column), self.shown[self.pane.column]
        if place is None:
            return [TextBlock("This run was not asked the question.", "dim")]
        (summary,) = self.grid.pages.read([place])
        sign, style = mark(summary)
        score = UNKNOWN if summary.value is None else f"{summary.value:.2f}"
        epochs = summary.run.epochs
        of = f" epoch {summary.epoch + 1} of {epochs}" if epochs > 1 else ""
        loaded = LoadedAttempt(self.grid.pages, summary)
        return [
            TextBlock(f"{sign}{summary.outcome.replace('_', ' ')}, score {score}{of}", style),
            TextBlock(f"{column + 1} {self.all_names[column]}", "key"),
            *([TextBlock(f"run {safe(self.ids[column])}", "dim")] if self.ids[column] else []),
            *detail(loaded, loaded.root),
        ]

    def _pair_blocks(self, pair: TwoByTwo, untested: Untested) -> list[TextBlock]:
        """The 2 × 2 of two agents, with its test in words."""
        one, other = f"{pair.first + 1}", f"{pair.second + 1}"
        second, scorer = f"{other} {self.all_names[pair.second]}", self.grid.scorer
        counts = (pair.both, pair.first_only, pair.second_only, pair.neither)
        size = max(7, *(len(f"{number:,}") for number in counts))
        blocks = [
            TextBlock(f"{one} {self.all_names[pair.first]}  ×  {second}", "heading"),
            TextBlock(f"{'':9}{f'{other} right':>{size + 2}}{f'{other} wrong':>{size + 3}}"),
            TextBlock(f"{one} right  {pair.both:>{size + 2},}{pair.first_only:>{size + 3},}"),
            TextBlock(f"{one} wrong  {pair.second_only:>{size + 2},}{pair.neither:>{size + 3},}"),
        ]
        if pair.difference is not None:
            unit = unit_of(scorer)
            shown = difference_words(pair, unit) + " points" * (unit == "percent")
            blocks.append(TextBlock(f"{shown} for {second}", "strong"))
        if pair.p is not None:
            corrected = "" if pair.pairs < 2 else f"; Holm over {pair.pairs} pairs: p {p_value(pair.p_holm)}"
            blocks.append(TextBlock(f"McNemar exact: p {p_value(pair.p)}{corrected}"))
        elif pair.n and untested:
            blocks.append(TextBlock(_UNTESTED[untested], "dim"))
        left = f"; {pair.left_out:,} left out: not both have a score by it" if pair.left_out else ""
        blocks.append(TextBlock(f"{number_of(pair.n, 'question')} by {scorer or 'no scorer'}{left}", "dim"))
        runs = ", ".join(f"{at + 1} {safe(self.ids[at])}" for at in (pair.first, pair.second) if self.ids[at])
        return [*blocks, *([TextBlock(f"runs {runs}", "dim")] if runs else [])]

    def _pattern_blocks(self) -> list[TextBlock]:
        signs = {True: " ✓", False: " ✗", None: " ·"}
        blocks = [TextBlock(" ".join(f"{column + 1:>2}" for column in self.shown) + "   questions", "dim")]
        for pattern in self.patterns:
            blocks.append(
                TextBlock(f"{' '.join(signs[pattern.right[column]] for column in self.shown)}   {pattern.count:,}")
            )
        return [*blocks, TextBlock(""), *(TextBlock(f"{one + 1} {self.all_names[one]}") for one in self.shown)]

    # Keys

    @on(Rows.Chosen)
    def _chosen(self, event: Rows.Chosen) -> None:
        group = self.group(event.row)
        if group is not None:
            self.folded ^= {group}
            self.show_lines()
        elif (place := self.place(event.row, self.pane.column)) is not None:
            self.dismiss(place)
        else:
            self.app.notify("This run was not asked the question.", markup=False)

    def place_here(self) -> int | None:
        """The place of the attempt of the cell under the cursor, where the list shows it."""
        current, place = self.attempt_list.current, self.place(self.pane.row, self.pane.column)
        if place is None or self.attempt_list.row_of(place) is None:
            return None
        # A cell stands for all epochs: of these the list's own is kept.
        same = current is not None and self.grid.row_of(current.index) == self.grid.row_of(place)
        return current.index if current is not None and same else place

    def action_mark_cell(self) -> None:
        """Mark the cell under the cursor, or no longer; a third mark takes the place of the first."""
        row = self.row(self.pane.row)
        if row is None or not self.shown:
            return
        cell = (row, self.shown[self.pane.column])
        if cell in self.marked:
            self.marked.remove(cell)
        else:
            self.marked = [*self.marked[-1:], cell]
        self.pane.refresh()
        self.show_here()

    def action_compare(self) -> None:
        """Compare the two marked cells; else the pinned agent with the one under the cursor, at this question."""
        row, cells = self.row(self.pane.row), list(self.marked)
        if len(cells) < 2 and row is not None:
            first, second = self.pair(self.pane.column)
            cells = [*cells, (row, self.shown[self.pane.column])] if cells else [(row, first), (row, second)]
        places = [place for cell in dict.fromkeys(cells) if (place := self.grid.place(*cell, None)) is not None]
        if len(places) < 2:
            self.app.notify("Mark two cells with space, or go to a question that two agents were asked.", markup=False)
            return
        self.open_view("compare", *places)

    def action_pin(self) -> None:
        """Take the agent under the cursor as the first of the 2 × 2."""
        if self.shown:
            self.pinned = self.shown[self.pane.column]
            self.show_here()

    def action_which(self) -> None:
        """List the next kind of questions: all, those on which the two agents differ, that one alone has right …"""
        kinds = list(_WHICH)
        self.which = kinds[(kinds.index(self.which) + 1) % len(kinds)]
        self.show_lines()

    def action_sort(self) -> None:
        """Choose an order."""
        sorts = [name for name in GRID_SORTS if name != "listed" or self.attempt_list.order is not None]

        def chosen(found: str | None) -> None:
            """Take the order that was chosen."""
            for name in sorts:
                if name == found:
                    self.sort, self.descending = name, True
                    self.show_lines()

        lines = [
            MenuLine(name, name, GRID_SORTS[name], letter, "●" if name == self.sort else "  ")
            for name, letter in zip(sorts, letters(sorts, "jkq"), strict=True)
        ]
        self.app.push_screen(MenuScreen("sort questions by", lines, sorts.index(self.sort)), chosen)

    def action_scorer(self) -> None:
        """Make means and the 2 × 2 by the next scorer."""
        used = list(self.grid.used_scorers())
        if len(used) < 2:
            self.app.notify("Every cell is scored by one scorer.", markup=False)
            return
        self.grid.take_scorer(used[(used.index(self.grid.scorer) + 1) % len(used)])
        self._loaded()

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self.descending = not self.descending
        self.show_lines()

    def action_agents(self) -> None:
        """Choose which agents are shown."""

        def chosen(found: tuple[int, ...] | None) -> None:
            """Take the agents that were chosen."""
            if found:
                self.shown = list(found)
                self.pane.across()
                self.show_lines()

        names = [f"{place} {name}" for place, name in enumerate(self.all_names, 1)]
        self.app.push_screen(PickScreen("agents", names, self.shown), chosen)

    def action_fold_all(self, fold: bool) -> None:
        """Fold or unfold all groups."""
        self.folded = set(range(len(self.grid.group_names))) if fold else set()
        self.show_lines()


GRID = View(
    name="grid",
    key="3",
    title="Grid: questions × agents",
    opens=lambda attempt_list, notes, _: GridScreen(attempt_list, notes),
)
