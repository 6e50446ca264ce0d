"""The grid (`3`): questions × agents, coloured by score and status, with the 2 × 2 of two agents beside it.

It is drawn as soon as the scores are read; statuses, costs and groups come a little later, from another thread. While a
run goes on, what is written fills it.
"""

from __future__ import annotations

import time
from array import array
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.screen import Screen

from ragrounds.evals.compare.grid import GRID_SORTS, AgentGrid, GridSort, WhichRows
from ragrounds.evals.store.causes import Cause
from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.hop_reading import HopReader
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.summaries import AttemptSummary
from ragrounds.ui.text import UNKNOWN, duration, number_of, safe
from ragrounds.ui.trace.answers import answer, is_open
from ragrounds.ui.trace.attempt_list import AttemptList, mark
from ragrounds.ui.trace.bars import KeyBar, KeysShown, TopLine
from ragrounds.ui.trace.grid_cells import column_names, two_by_two_blocks
from ragrounds.ui.trace.grid_pane import GridPane
from ragrounds.ui.trace.grid_view import WHICH_WORDS, GridView
from ragrounds.ui.trace.layout import TextBlock, narrow_dollars
from ragrounds.ui.trace.menu import MenuLine, MenuScreen, letters
from ragrounds.ui.trace.pick import PickScreen
from ragrounds.ui.trace.view_actions import ViewActions
from ragrounds.ui.trace.views import known_views
from ragrounds.ui.trace.widgets import DetailActions, Pager, Rows

_LOOK = 1.0
"""Seconds between looks at the store."""
_PATIENCE = 5
"""A grid that took so long to read is read again after so many times as long, at the earliest."""
_PATTERNS = 12


class GridScreen(ViewActions, DetailActions, Screen[int | None]):
    """Questions × agents over the runs of an :class:`AttemptList`. It ends with the place of the attempt to open."""

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
        Binding("space", "mark", "Mark a cell (two: compare)", id="grid.mark"),
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
        *ViewActions.BINDINGS,
        *DetailActions.BINDINGS,
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

    def __init__(self, attempt_list: AttemptList) -> None:
        super().__init__()
        self.attempt_list = attempt_list
        pages = attempt_list.pages
        names = column_names(pages.runs, kept_names(pages.store.engine), parameter=True)
        self.view = GridView(AgentGrid(pages), names, attempt_list.order)
        self._reader = HopReader(pages)
        self._watch = ChangeWatch(pages.store.engine)
        self._not_before = 0.0
        self.pane = GridPane(self.view, id="grid")
        """The pane with the grid."""

    def compose(self) -> ComposeResult:
        """The grid, the cell and the 2 × 2, with a line above that says what is shown."""
        yield TopLine("grid", known_views())
        with Container(id="body"):
            yield self.pane
            with Vertical(id="side"):
                yield Pager(id="cell", title="cell")
                yield Pager(id="pair", title="two agents")
                yield Pager(id="patterns", title="who is right together")
        yield KeyBar()

    def on_mount(self) -> None:
        """Read the scores, and look at the store every second from now on."""
        self.pane.focus()
        self._say("reading scores …")
        current = self.attempt_list.current
        self._load(None if current is None else current.index)
        self.set_interval(_LOOK, self._look)

    def on_unmount(self) -> None:
        """Close the connection by which the store is looked at."""
        self._watch.close()

    @work(thread=True, exclusive=True, group="grid")
    def _load(self, at: int | None = None) -> None:
        view, began = self.view, time.monotonic()
        first = not view.grid.has_statuses
        view.grid.load_scores()
        view.figures_changed()
        answer(self, self._show, view.make_lines(self.pane.column), at)
        view.grid.load_statuses()
        if first:
            view.grid.load_questions()
        view.figures_changed()
        self._not_before = time.monotonic() + _PATIENCE * (time.monotonic() - began)
        answer(self, self._show, view.make_lines(self.pane.column))

    @work(thread=True, exclusive=True, group="lines")
    def _arrange(self) -> None:
        answer(self, self._show, self.view.make_lines(self.pane.column))

    def _show(self, lines: array[int], at: int | None = None) -> None:
        """Show these lines; the cursor stays on its question, or goes to the attempt at a place."""
        view, pane = self.view, self.pane
        here = view.lines[pane.row] if pane.row < len(view) else None
        if at is not None and (found := view.grid.row_of(at)) is not None:
            here, column = found
            pane.column = view.shown.index(column) if column in view.shown else 0
        before = pane.row
        view.take(lines)
        row = lines.index(here) if here is not None and here in lines else 0
        pane.show(len(view), row, keep_scroll=at is None and row == before)
        self._moved()

    def _moved(self) -> None:
        view, pane = self.view, self.pane
        self._say("")
        self._subtitle()
        summary = self._cell_summary()
        self.query_one("#cell", Pager).show(self._cell_blocks(summary))
        if summary is not None and (summary.wrong or summary.troubled):
            self._find_cause(summary)
        pair = self.query_one("#pair", Pager)
        if len(view.all_names) < 2:
            pair.show([TextBlock("One agent: there is nothing to compare.", "dim")])
        elif view.grid.rows and len(view.grid.means):
            two = view.pair(pane.column)
            found, untested = view.grid.two_by_two(*two), view.grid.untested(*two)
            pair.show(two_by_two_blocks(found, view.all_names, view.unit, view.grid.scorer, untested, view.ids))
            self.query_one("#patterns", Pager).show(self._pattern_blocks())

    def _subtitle(self) -> None:
        """Say which agents of many are on the screen, and how many cells are marked."""
        view, columns, marked = self.view, self.pane.across(), len(self.view.marked)
        hidden = len(columns) < len(view.shown)
        parts = [f"agents {columns.start + 1}-{columns.stop} of {len(view.shown)}, ← →"] if hidden else []
        parts += ["2 cells marked: c compares them" if marked == 2 else "1 cell marked"] if marked else []
        self.pane.border_subtitle = "  ".join(parts)

    def _say(self, doing: str) -> None:
        view, pane, line = self.view, self.pane, self.query_one(TopLine)
        if doing:
            line.tell(doing)
            return
        others = {name: count for name, count in view.grid.used_scorers().items() if name != view.grid.scorer}
        apart = "".join(f"; {count:,} cells by {name} in no mean, m" for name, count in others.items())
        wanted = self.attempt_list.description() if view.listed is not None else ""
        line.tell(
            f"{pane.row + 1 if len(view) else 0:,} of {len(view):,}",
            view.description(),
            "" if view.grid.has_statuses else "statuses and costs are being read …",
            f"only: {safe(wanted)}" if wanted else "",
            f"score: {view.grid.scorer}{apart}" if view.grid.scorer else "not scored",
            view.names()[pane.column] if view.shown else "",
        )

    @work(thread=True, exclusive=True, group="cause")
    def _find_cause(self, summary: AttemptSummary) -> None:
        found = self._reader.read([summary])
        if found and found[0].cause is not None:
            answer(self, self._show_cause, summary, found[0].cause)

    def _show_cause(self, summary: AttemptSummary, cause: Cause) -> None:
        here = self._cell_summary()
        if here is not None and here.index == summary.index:
            said = TextBlock(cause.said, "note")
            blocks = self._cell_blocks(here)
            self.query_one("#cell", Pager).show([*blocks[:2], said, *blocks[2:]], keep_scroll=True)

    def _cell_summary(self) -> AttemptSummary | None:
        view, row = self.view, self.view.row(self.pane.row)
        return view.attempt(row, view.shown[self.pane.column]) if row is not None and view.shown else None

    def _cell_blocks(self, summary: AttemptSummary | None) -> list[TextBlock]:
        view, pane = self.view, self.pane
        group = view.group(pane.row)
        if group is not None:
            return [TextBlock("A group. Enter folds it or unfolds it, - and + all groups.", "dim")]
        row = view.row(pane.row)
        if row is None or not view.shown:
            return [TextBlock("No question is listed.", "dim")]
        column = view.shown[pane.column]
        if summary is None:
            return [TextBlock("This run was not asked the question.", "dim")]
        sign, style = mark(summary)
        score = UNKNOWN if summary.value is None else f"{summary.value:.2f}"
        epochs = view.grid.runs[column].epochs
        of = f" epoch {summary.epoch + 1} of {epochs}" if epochs > 1 else ""
        gold = f"gold {summary.gold.answer}" if summary.gold.answer else ""
        facts = [f"answered {summary.prediction}" if summary.prediction else "", gold]
        ran = summary.outcome != "not_run"
        costs = [
            number_of(summary.calls or 0, "call"),
            duration(summary.seconds),
            narrow_dollars(summary.cost_uncached),
        ]
        return [
            TextBlock(f"{sign}{summary.outcome.replace('_', ' ')}, score {score}{of}", style),
            TextBlock(f"{column + 1} {view.all_names[column]}", "key"),
            *([TextBlock(f"run {safe(view.ids[column])}", "dim")] if view.ids[column] else []),
            *([TextBlock(", ".join(fact for fact in facts if fact))] if any(facts) else []),
            *([TextBlock(", ".join(costs), "dim")] if ran else []),
            TextBlock(""),
            TextBlock(f"{summary.question.id}", "dim"),
            TextBlock(summary.question.text[:4000]),
            *(TextBlock(f"{letter}. {text[:1000]}") for letter, text in summary.question.options.items()),
        ]

    def _pattern_blocks(self) -> list[TextBlock]:
        view = self.view
        heads = " ".join(f"{column + 1:>2}" for column in view.shown)
        blocks = [TextBlock(f"{heads}   questions", "dim")]
        for pattern in view.patterns[:_PATTERNS]:
            signs = " ".join({True: " ✓", False: " ✗", None: " ·"}[pattern.right[column]] for column in view.shown)
            blocks.append(TextBlock(f"{signs}   {pattern.count:,}"))
        blocks += [TextBlock(""), *(TextBlock(f"{column + 1} {view.all_names[column]}") for column in view.shown)]
        return blocks

    def detail_text(self) -> str:
        """The text of the pane with the focus, else of the cell's."""
        focused = self.focused
        pager = focused if isinstance(focused, Pager) else self.query_one("#cell", Pager)
        return "\n".join(block.text for block in pager.blocks)

    @on(Rows.Moved)
    @on(GridPane.AgentMoved)
    def _cursor_moved(self) -> None:
        self._moved()

    @on(Rows.Chosen)
    def _chosen(self, event: Rows.Chosen) -> None:
        group = self.view.group(event.row)
        if group is not None:
            self.view.fold(group)
            self._arrange()
            return
        place = self.view.place(event.row, self.pane.column)
        if place is None:
            self.app.notify("This run was not asked the question.", markup=False)
            return
        self.dismiss(place)

    def action_leave(self) -> None:
        """Go back, to the attempt under the cursor."""
        self.dismiss(self.place_here())

    def place_here(self) -> int | None:
        """The place of the attempt of the cell under the cursor, where the list shows it."""
        view, current = self.view, self.attempt_list.current
        place = view.place(self.pane.row, self.pane.column)
        if place is None or self.attempt_list.row_of(place) is None:
            return None
        # A cell stands for all epochs: of these the list's own is kept.
        same = current is not None and view.grid.row_of(current.index) == view.grid.row_of(place)
        return current.index if current is not None and same else place

    def relisted(self) -> None:
        """Show the list again: its filter or its order has changed."""
        view = self.view
        view.listed = self.attempt_list.order
        if view.listed is None and view.sort == "listed":
            view.sort = "disagreement"
        if len(view.grid.means):
            self._arrange()

    def action_mark(self) -> None:
        """Mark the cell under the cursor, or no longer."""
        if not self.view.mark(self.pane.row, self.pane.column):
            return
        self.pane.refresh()
        self._subtitle()

    def action_compare(self) -> None:
        """Compare the two marked cells; else the pinned agent with the one under the cursor, at this question."""
        view, row = self.view, self.view.row(self.pane.row)
        cells = list(view.marked)
        if len(cells) < 2 and row is not None:
            first, second = view.pair(self.pane.column)
            cells = [*cells, (row, view.shown[self.pane.column])] if cells else [(row, first), (row, second)]
        attempts = [found for cell in dict.fromkeys(cells) if (found := view.attempt(*cell)) is not None]
        if len(attempts) < 2:
            self.app.notify("Mark two cells with space, or go to a question that two agents were asked.", markup=False)
            return
        from ragrounds.ui.trace.compare import CompareScreen

        compared = CompareScreen(self.attempt_list, attempts[0].index, attempts[1].index)
        self.app.push_screen(compared, self._opened)

    def _opened(self, index: int | None) -> None:
        if index is not None:
            self.dismiss(index)

    def action_pin(self) -> None:
        """Take the agent under the cursor as the first of the 2 × 2."""
        if self.view.shown:
            self.view.pinned = self.view.shown[self.pane.column]
            self._moved()

    def action_which(self) -> None:
        """List the next kind of questions: all, those on which the two agents differ, that one alone has right …"""
        kinds: list[WhichRows] = list(WHICH_WORDS)
        self.view.which = kinds[(kinds.index(self.view.which) + 1) % len(kinds)]
        self._arrange()

    def action_sort(self) -> None:
        """Choose an order."""
        sorts: list[GridSort] = [name for name in GRID_SORTS if name != "listed" or self.view.listed is not None]

        def chosen(found: str | None) -> None:
            """Take the order that was chosen."""
            for name in sorts:
                if name == found:
                    self.view.sort, self.view.descending = name, True
                    self._arrange()

        given = letters(sorts, "jkq")
        lines = [
            MenuLine(name, name, GRID_SORTS[name], letter, "●" if name == self.view.sort else "  ")
            for name, letter in zip(sorts, given, strict=True)
        ]
        self.app.push_screen(MenuScreen("sort questions by", lines, sorts.index(self.view.sort)), chosen)

    def action_scorer(self) -> None:
        """Make means and the 2 × 2 by the next scorer."""
        if self.view.next_scorer():
            self.view.figures_changed()
            self._arrange()
        else:
            self.app.notify("Every cell is scored by one scorer.", markup=False)

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self.view.descending = not self.view.descending
        self._arrange()

    def action_agents(self) -> None:
        """Choose which agents are shown."""

        def chosen(found: tuple[int, ...] | None) -> None:
            """Take the agents that were chosen."""
            if found:
                self.view.shown = list(found)
                self.pane.across()
                self._arrange()

        names = [f"{place} {name}" for place, name in enumerate(self.view.all_names, 1)]
        self.app.push_screen(PickScreen("agents", names, self.view.shown), chosen)

    def action_fold_all(self, fold: bool) -> None:
        """Fold or unfold all groups."""
        self.view.folded = set(range(len(self.view.grid.group_names))) if fold else set()
        self._arrange()

    def _look(self) -> None:
        """Read the grid again where something was written, and the last time is long enough ago."""
        if is_open(self) and time.monotonic() >= self._not_before and self._watch.changed():
            self._load()

    def action_look_again(self) -> None:
        """Read the grid again."""
        self._load()
