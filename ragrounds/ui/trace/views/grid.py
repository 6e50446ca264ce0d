"""Grid: questions × agents, coloured by score and status.

Questions are read when they become visible. During a run, new results fill the grid.
"""

from __future__ import annotations

from array import array
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from ragrounds.evals.compare.grid import GRID_SORTS, AgentGrid, GridSort
from ragrounds.evals.compare.overview import RunOverview, run_overviews
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.text import in_scale, number_of, one_line, safe
from ragrounds.ui.trace.attempt_list import AttemptList, agent_cell, mark, short_id
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.grid_pane import GridPane, cell_style, cell_text, score_text
from ragrounds.ui.trace.layout import Cells, TextBlock, fit
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.notes import ReaderNotes
from ragrounds.ui.trace.view import FILTER_KEY, ReadingPace, View, ViewScreen, answer
from ragrounds.ui.trace.widgets import Pager, Rows

_FIGURE = 7
"""Cells of the figure by which the grid is sorted."""
_SORTED: dict[GridSort, tuple[str, str]] = {
    "disagreement": ("most split first", "least split first"),
    "score": ("hardest first", "easiest first"),
    "question": ("as asked", "as asked"),
}


class GridScreen(ViewScreen):
    """Screen of questions × agents over the runs of an :class:`AttemptList`."""

    DETAIL = "cell"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (as Screen declares it)
    DEFAULT_CSS = """
    GridScreen {
        & #body { height: 1fr; layout: vertical; }
        & GridPane, & Pager { border: round $border-blurred; }
        & GridPane:focus, & Pager:focus { border: round $accent; }
        & GridPane { height: 1fr; }
        & #cell { height: 9; }
        &.-wide #body { layout: horizontal; }
        &.-wide GridPane { width: 2fr; height: 100%; }
        &.-wide #cell { width: 1fr; height: 100%; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort", id="grid.sort"),
        Binding("S", "reverse", "Sort the other way", id="grid.reverse", show=False),
        Binding("c", "compare", "Compare", id="grid.compare"),
        Binding("escape", "leave", "Back", id="grid.back"),
        FILTER_KEY,
    ]

    def __init__(self, attempt_list: AttemptList, notes: ReaderNotes) -> None:
        super().__init__(attempt_list, notes)
        self.grid = AgentGrid(attempt_list.pages)
        self.names = names_of_runs(attempt_list.pages.runs, attempt_list.pages.given_names)
        self.overviews: list[RunOverview] = []
        """Progress and figure of each run, once they are read."""
        self.sort: GridSort = "disagreement"
        self.descending = True
        self.rows: list[int] = []
        """Rows of the grid in display order."""
        self.texts = AttemptList(attempt_list.pages)
        """One attempt at the question of each line, read when it becomes visible."""
        self._pace = ReadingPace()
        self.pane = GridPane(self._question, self._cells)

    def compose(self) -> ComposeResult:
        """Compose the grid and the cell, with the position above."""
        yield TopLine("grid")
        with Container(id="body"):
            yield self.pane
            yield Pager(id="cell", title="cell")
        yield KeyBar()

    def on_mount(self) -> None:
        """Read the grid."""
        self.pane.focus()
        self.query_one(TopLine).tell("reading scores …")
        self._load()

    # Reading

    @work(thread=True)
    def _load(self) -> None:
        with self._pace.reading():
            self.grid.load()
            answer(self, self.show_lines)
            pages = self.grid.pages
            self.overviews = run_overviews(pages.store, pages.runs, pages.given_names, self.grid.scorer)
            answer(self, self.show_lines)

    def look(self) -> None:
        """Read the grid again if something was written and a reading is due."""
        if self._pace.is_due():
            super().look()

    def show_new_records(self) -> None:
        """Read the grid again."""
        self._load()

    def relisted(self) -> None:
        """Show the list again after a change of its filter or its order."""
        if self.grid.rows:
            self.show_lines()

    # Lines

    def show_lines(self) -> None:
        """Sort and filter the lines again; the cursor stays on its question. At first it is on the most split one."""
        grid, listed, pane = self.grid, self.attempt_list.order, self.pane
        current_row, before = self.row(pane.row), pane.row
        pane.agents = len(grid.runs)
        rows = None if listed is None else grid.rows_of(listed)
        descending = self.descending != (self.sort == "score")
        self.rows = grid.order(self.sort, descending, rows).tolist()
        self.texts.arrange(array("Q", grid.firsts[self.rows].tolist()), "", "asked")
        figures = grid.score() if self.sort == "score" else grid.disagreement()
        self._figures = [score_text(value) for value in figures[self.rows].tolist()]
        pane.figure = "score" if self.sort == "score" else "split"
        pane.heads = [("question", self._heading, "key")]
        if (overviews := self.overviews) and grid.scorer:
            # A run that this scorer has not scored has a figure by another one, which does not belong here.
            figures_by_run = [overview.score if overview.scorer == grid.scorer else None for overview in overviews]
            figure_cells = [
                in_scale(value, overview.unit) for value, overview in zip(figures_by_run, overviews, strict=True)
            ]
            pane.heads.append((f"score by {safe(grid.scorer)}", lambda column, _: figure_cells[column], "strong"))
        if any(overview.so_far for overview in overviews):
            pane.heads.append(("attempts made", lambda column, _: f"{overviews[column].made:,}", "dim"))
        row = self.rows.index(current_row) if current_row in self.rows else 0
        pane.show(len(self.rows), row, keep_scroll=row == before)
        self.show_here()

    def _heading(self, column: int, width: int) -> str:
        number = f"{column + 1} "
        return number + agent_cell(self.names, self.grid.runs[column].id, width - len(number)).strip()

    def row(self, line: int) -> int | None:
        """Return the question of a line; ``None`` if the line does not exist."""
        return self.rows[line] if 0 <= line < len(self.rows) else None

    def _question(self, line: int, width: int) -> Cells:
        summary, room = self.texts.row_at(line), max(0, width - _FIGURE - 1)
        label = f"{one_line(short_id(summary), 40)}  " if summary else "…"
        label += one_line(summary.question.text[: width * 2], max(2, width)) if summary else ""
        return [(fit(label, room) + " ", "plain"), (fit(self._figures[line], _FIGURE - 1, right=True) + " ", "dim")]

    def _cells(self, line: int) -> list[tuple[str, str]]:
        cells = [self.grid.cell(self.rows[line], column) for column in range(len(self.grid.runs))]
        return [(cell_text(cell), cell_style(cell)) for cell in cells]

    # The cell next to the grid

    def attempt_index(self, line: int) -> int | None:
        """Return the index of the attempt of the cell in the cursor's column: the first epoch that is not right.

        Returns ``None`` if this run was not asked the question.
        """
        row = self.row(line)
        return None if row is None else self.grid.index_of(row, self.pane.column)

    @on(Rows.Moved)
    @on(GridPane.AgentMoved)
    def show_here(self) -> None:
        """Show the cell under the cursor, and the filter and order above."""
        coverage = f"{len(self.rows):,} of {number_of(self.grid.rows, 'question')}"
        sort = _SORTED[self.sort][not self.descending]
        scorer = f"by {self.grid.scorer}" if self.grid.scorer else "not scored"
        scorer += f", other cells by {', '.join(others)}" if (others := self.grid.other_scorers) else ""
        self.query_one(TopLine).tell(coverage, safe(self.attempt_list.where), sort, safe(scorer))
        columns = self.pane.across()[2]
        more = f"agents {columns.start + 1} to {columns.stop} of {len(self.names)}"
        self.pane.border_subtitle = more if len(columns) < len(self.names) else ""
        self.query_one("#cell", Pager).show(self._cell_blocks())

    def _cell_blocks(self) -> list[TextBlock]:
        column, index = self.pane.column, self.attempt_index(self.pane.row)
        name = TextBlock(f"{column + 1} {self.names[self.grid.runs[column].id]}", "key")
        summaries = self.grid.pages.read([index]) if index is not None else []
        if not summaries:
            return [name, TextBlock("This run was not asked the question.", "dim")]
        (sign, style), loaded = mark(summaries[0]), LoadedAttempt(self.grid.pages, summaries[0])
        score = "no score" if summaries[0].value is None else f"score {summaries[0].value:.2f}"
        epoch = f", epoch {summaries[0].epoch + 1} of {summaries[0].run.epochs}" if summaries[0].run.epochs > 1 else ""
        return [
            TextBlock(f"{sign}{summaries[0].outcome.replace('_', ' ')}, {score}{epoch}", style),
            name,
            *detail(loaded, loaded.root),
        ]

    # Keys

    @on(Rows.Chosen)
    def _open_cell(self, event: Rows.Chosen) -> None:
        index = self.attempt_index(event.row)
        if index is not None:
            self.dismiss(index)
        else:
            self.app.notify("This run was not asked the question.", markup=False)

    def place_here(self) -> int | None:
        """Return the index of the attempt of the cell under the cursor, if the list shows it."""
        current, index = self.attempt_list.current, self.attempt_index(self.pane.row)
        if index is None or self.attempt_list.row_of(index) is None:
            return None
        # A cell covers all epochs: if the list's current attempt is one of them, it is kept.
        same = current is not None and self.grid.row_of[current.index] == self.grid.row_of[index]
        return current.index if current is not None and same else index

    def action_compare(self) -> None:
        """Compare the attempt of the cell under the cursor with another agent's."""
        index = self.attempt_index(self.pane.row)
        if index is not None:
            self.open_view("compare", index)

    def action_sort(self) -> None:
        """Sort by the next of disagreement, score and the order of the questions."""
        self.sort = GRID_SORTS[(GRID_SORTS.index(self.sort) + 1) % len(GRID_SORTS)]
        self.show_lines()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.descending = not self.descending
        self.show_lines()


GRID = View(
    name="grid",
    key="3",
    title="Grid: questions × agents",
    opens=lambda attempt_list, notes, _: GridScreen(attempt_list, notes),
)
