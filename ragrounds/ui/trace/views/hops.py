"""Hops: one line per attempt, its searches from left to right with the ranks of gold.

Only visible rows are read, in a thread; the filter and the order of the list apply.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from ragrounds.evals.trace.hop_reading import HopReader
from ragrounds.evals.trace.summaries import AttemptSummary
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.text import safe
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.details import hop_blocks
from ragrounds.ui.trace.hop_lines import (
    LEGEND,
    NARROW_LEGEND,
    HopColumns,
    HopLine,
    hop_cells,
    hop_columns,
    hop_heading,
    hop_line,
)
from ragrounds.ui.trace.layout import Cells
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.notes import ReaderNotes, note_signs
from ragrounds.ui.trace.view import FILTER_KEY, MARK_KEYS, View, ViewScreen, answer, is_open
from ragrounds.ui.trace.widgets import Pager, Rows

_AT_ONCE = 16
"""Attempts that are read before the next update of the display."""
_KEPT = 4000
"""Lines kept in memory."""


class HopScreen(ViewScreen):
    """Screen of the hops of a list's attempts; `chosen_place` is the call number of the search under the cursor."""

    DETAIL = "hop"
    DEFAULT_CSS = """
    HopScreen {
        & Rows, & Pager { border: round $foreground 30%; &:focus { border: round $accent; } }
        & #hops { height: 3fr; }
        & #legend { height: 1; color: $foreground; }
        & #hop { height: 2fr; min-height: 8; max-height: 20; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "hop(-1)", "Search before", id="hops.before", show=False),
        Binding("right,l", "hop(1)", "Next search", id="hops.next", show=False),
        Binding("w", "seek(1, 'wrong', 'wrong attempt')", "Next wrong", id="hops.wrong"),
        Binding("W", "seek(-1, 'wrong', 'wrong attempt')", "Wrong one before", id="hops.wrong_before", show=False),
        Binding("escape", "leave", "Back", id="hops.back"),
        FILTER_KEY,
        *MARK_KEYS,
    ]

    def __init__(self, attempt_list: AttemptList, notes: ReaderNotes) -> None:
        super().__init__(attempt_list, notes)
        pages = attempt_list.pages
        self.agents = names_of_runs(pages.runs, pages.given_names) if len(pages.runs) > 1 else {}
        self.hop = 0
        """Number of the hop under the cursor, from 0."""
        self.first = 0
        """Number of the first visible hop."""
        self.hop_count = 1
        """Largest number of searches of an attempt that was read."""
        self.lines: dict[int, tuple[AttemptSummary, HopLine]] = {}
        """Lines by index in the pages, each with the row it was made from: during a run, rows change."""
        self._loaded: LoadedAttempt | None = None
        self._reader = HopReader(attempt_list.pages)
        self._unread: dict[int, AttemptSummary] = {}
        self._filling = False

    def compose(self) -> ComposeResult:
        """Compose the lines, their legend, and the hop under the cursor in full."""
        yield TopLine("hops")
        yield Rows(self._row, id="hops", title="hops", head=self._heading)
        yield Static(id="legend", markup=False)
        yield Pager(id="hop", title="this search")
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the list with the cursor of the main screen."""
        self.rows.focus()
        self.relisted()

    def show_new_records(self) -> None:
        """Show what was written since the last look."""
        self.attempt_list.forget()
        self.rows.refresh()
        self.show_hop()

    def on_resize(self) -> None:
        """Use the short legend if the screen is narrow."""
        legend = LEGEND if self.size.width >= len(LEGEND) + 2 else NARROW_LEGEND
        self.query_one("#legend", Static).update(Text(f" {legend}", no_wrap=True, overflow="ellipsis"))

    @property
    def rows(self) -> Rows:
        """List of attempts."""
        return self.query_one("#hops", Rows)

    @property
    def pager(self) -> Pager:
        """Pane with the hop in full."""
        return self.query_one("#hop", Pager)

    def _columns(self, width: int) -> HopColumns:
        return hop_columns(width, self.agents, self.hop_count)

    def _heading(self, width: int) -> str:
        return hop_heading(self._columns(width), self.first)

    def _row(self, row: int, width: int) -> Cells:
        summary = self.attempt_list.row_at(row)
        line = self.line_of(summary)
        if summary is not None and line is None:
            self._request_line(summary)
        cursor_hop = None
        if row == self.attempt_list.row and line and line.hops:
            cursor_hop = min(self.hop, len(line.hops) - 1)
        return hop_cells(summary, line, self._columns(width), self.agents, self.first, cursor_hop)

    def line_of(self, summary: AttemptSummary | None) -> HopLine | None:
        """Return the line of a row if it is up to date; ``None`` if it has not been read yet."""
        source, line = self.lines.get(summary.index, (None, None)) if summary else (None, None)
        return line if source == summary else None

    # Reading

    def _request_line(self, summary: AttemptSummary) -> None:
        self._unread[summary.index] = summary
        if not self._filling:
            self._filling = True
            self.call_after_refresh(self._fill)

    @work(thread=True, group="hops")
    def _fill(self) -> None:
        """Read the unread lines, the last requested first: lines that were scrolled past can wait."""
        while self._unread and is_open(self):
            part = [self._unread.pop(index) for index in list(self._unread)[-_AT_ONCE:] if index in self._unread]
            answer(
                self,
                self._read,
                {attempt.summary.index: (attempt.summary, hop_line(attempt)) for attempt in self._reader.read(part)},
            )
        answer(self, self._continue_filling)

    def _continue_filling(self) -> None:
        self._filling = False
        for summary in list(self._unread.values())[:1]:  # requested since the last check
            self._request_line(summary)

    def _read(self, lines: dict[int, tuple[AttemptSummary, HopLine]]) -> None:
        self.lines.update(lines)
        for index in list(self.lines)[: max(0, len(self.lines) - _KEPT)]:
            del self.lines[index]
        self.hop_count = max(self.hop_count, *(len(line.hops) for _, line in lines.values()))
        self.rows.refresh()

    # Showing

    def show_hop(self) -> None:
        """Show the hop under the cursor in full, and the position and the filter above the list."""
        attempt_list, total, current = self.attempt_list, len(self.attempt_list), self.attempt_list.current
        self.query_one(TopLine).tell(
            f"{attempt_list.row + 1 if total else 0:,} of {total:,}",
            note_signs(self.notes.notes_on(current)) if current else "",
            safe(attempt_list.description()),
            safe(self.agents.get(current.run.id, current.agent_name)) if current else "",
        )
        if current is None:
            self.pager.show(())
            return
        if self._loaded is None or self._loaded.summary != current:
            self._loaded = LoadedAttempt(attempt_list.pages, current)
        self.pager.show(hop_blocks(self._loaded, self.hop))

    def notes_changed(self) -> None:
        """Show the current marks and notes."""
        self.show_hop()

    def relisted(self) -> None:
        """Show the list again after a change of its filter, its order or its cursor."""
        self.rows.show(len(self.attempt_list), self.attempt_list.row)
        self.show_hop()

    def place_here(self) -> int | None:
        """Return the index of the attempt under the cursor in the pages."""
        current = self.attempt_list.current
        return current.index if current else None

    @on(Rows.Moved, "#hops")
    def _moved(self, event: Rows.Moved) -> None:
        self.attempt_list.move(event.row)
        self.show_hop()

    @on(Rows.Chosen, "#hops")
    def _open_attempt(self) -> None:
        line = self.line_of(self.attempt_list.current)
        if line is not None and line.hops:
            self.chosen_place = line.hops[min(self.hop, len(line.hops) - 1)].call_number
        self.action_leave()

    def action_hop(self, step: int) -> None:
        """Move the cursor by `step` searches of the attempt."""
        line = self.line_of(self.attempt_list.current)
        last = max(0, len(line.hops) - 1) if line else 0
        self.hop = max(0, min(min(self.hop, last) + step, last))
        self.first = min(max(self.first, self.hop - self._columns(self.rows.size.width).visible + 1), self.hop)
        self.rows.refresh()
        self.show_hop()


HOPS = View(
    name="hops",
    key="2",
    title="Hops of each attempt",
    opens=lambda attempt_list, notes, _: HopScreen(attempt_list, notes),
)
