"""The hop timeline: one line an attempt, its searches from left to right with the ranks of gold.

Only the rows on the screen are read, in a thread; filter and order of the list hold here too.
"""

from __future__ import annotations

import threading
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from ragrounds.evals.analyses.gold_by_hop import GoldByHop, gold_by_hop, gold_by_hop_picture
from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.hop_reading import HopReader, HopsOfAttempt, clusters_of, gold_hops, usual_searches
from ragrounds.evals.store.summaries import AttemptSummary
from ragrounds.ui.chart_text import draw
from ragrounds.ui.text import safe
from ragrounds.ui.trace.agent_names import short_names
from ragrounds.ui.trace.answers import answer, is_open
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.bars import KeyBar, KeysShown, TopLine
from ragrounds.ui.trace.dialogs import FindBar
from ragrounds.ui.trace.hop_lines import (
    LEGEND,
    NARROW_LEGEND,
    HopLine,
    hop_blocks,
    hop_cells,
    hop_columns,
    hop_heading,
    hop_line,
)
from ragrounds.ui.trace.layout import Cells, TextBlock
from ragrounds.ui.trace.mark_actions import MarkActions
from ragrounds.ui.trace.note_screen import note_signs
from ragrounds.ui.trace.reader_notes import ReaderNotes
from ragrounds.ui.trace.view_actions import ViewActions
from ragrounds.ui.trace.views import known_views
from ragrounds.ui.trace.widgets import DetailActions, Pager, Rows

_AT_ONCE = 16
"""Attempts read before those that were read are shown."""
_LOOK = 1.0
"""Seconds between looks at the store."""
_KEPT = 4000
"""Lines kept in memory."""
_FULL = 16
"""Attempts kept in full."""


class HopScreen(ViewActions, MarkActions, DetailActions, Screen[int | None]):
    """The hops of the attempts of a list. Dismissed with the place of the row that is to be opened; `chosen_place` is
    then the place of the search under the cursor among the attempt's calls."""

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
        Binding("w", "seek_wrong(1)", "Next wrong", id="hops.wrong"),
        Binding("W", "seek_wrong(-1)", "Wrong one before", id="hops.wrong_before", show=False),
        Binding("b", "chart", "Gold found by search, as bars", id="hops.chart"),
        Binding("escape", "back", "Back", id="hops.back"),
        *ViewActions.BINDINGS,
        *MarkActions.BINDINGS,
        *DetailActions.BINDINGS,
    ]

    KEYS_SHOWN: ClassVar[KeysShown] = {
        "hops": (
            ("rows.open", "open the step"),
            ("hops.next", "next search"),
            ("hops.wrong", "next wrong"),
            ("hops.chart", "gold by search"),
            ("hops.back", "back"),
            ("filter", "filter"),
            ("mark", "mark"),
            ("note", "note"),
        ),
        "find-text": (("submit", "mark"), ("find.leave", "leave")),
    }

    def __init__(self, attempt_list: AttemptList, notes: ReaderNotes | None = None) -> None:
        super().__init__()
        self.attempt_list = attempt_list
        self.notes = ReaderNotes(attempt_list.pages, "reader") if notes is None else notes
        self.agents = short_names(attempt_list.pages.runs)
        self.hop = 0
        """The hop under the cursor, from 0."""
        self.first = 0
        """The first hop that is shown."""
        self.most = 1
        """Searches that have a column: what nearly all attempts need."""
        self.counted = False
        """Whether `most` is of all attempts, and not only of those read so far."""
        self.chart: tuple[GoldByHop, ...] | None = None
        """What is shown in place of the hop; ``None``: the hop is."""
        self.chosen_place: int | None = None
        self.lines: dict[int, tuple[AttemptSummary, HopLine]] = {}
        """By the place among the pages, with the row that each was made of: a run that goes on makes others."""
        self.full: dict[int, HopsOfAttempt] = {}
        self._reader = HopReader(attempt_list.pages)
        self._watch = ChangeWatch(attempt_list.pages.store.engine)
        self._lock = threading.Lock()
        self._wanted: dict[int, AttemptSummary] = {}
        self._filling = False

    def compose(self) -> ComposeResult:
        """The lines, their legend, and the hop under the cursor in full."""
        yield TopLine("hops", known_views())
        yield Rows(self._row, id="hops", title="hops", head=self._heading)
        yield Static(id="legend", markup=False)
        yield Pager(id="hop", title="this search")
        yield FindBar()
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the list with the cursor where the main screen has it."""
        self.rows.focus()
        self.rows.show(len(self.attempt_list), self.attempt_list.row)
        self.show_hop()
        self._count()
        self.set_interval(_LOOK, self.look)

    def on_unmount(self) -> None:
        """Close the connection by which the store is looked at."""
        self._watch.close()

    def look(self) -> None:
        """Show what was written since the last look, if anything was."""
        if is_open(self) and self._watch.changed():
            self.attempt_list.forget()
            self.rows.refresh()
            self.show_hop()
            self._count()

    @work(thread=True, group="count")
    def _count(self) -> None:
        most = usual_searches(self.attempt_list.pages)
        if most:
            answer(self, self._counted, most)

    def _counted(self, most: int) -> None:
        self.most, self.counted = most, True
        self.rows.refresh()

    def on_resize(self) -> None:
        """The legend has fewer words where there is less room."""
        width = self.size.width
        legend = LEGEND if width >= len(LEGEND) + 2 else NARROW_LEGEND
        self.query_one("#legend", Static).update(Text(f" {legend}", no_wrap=True, overflow="ellipsis"))

    @property
    def rows(self) -> Rows:
        """The list."""
        return self.query_one("#hops", Rows)

    @property
    def pager(self) -> Pager:
        """The hop in full."""
        return self.query_one("#hop", Pager)

    def _heading(self, width: int) -> str:
        return hop_heading(hop_columns(width, self.agents, self.most), self.first, self.most)

    def _row(self, row: int, width: int) -> Cells:
        summary = self.attempt_list.at(row)
        line = self.line_of(summary)
        if summary is not None and line is None:
            self._want(summary)
        here = self.hop if row == self.attempt_list.row and line and line.hops else None
        if here is not None and line is not None:
            here = min(here, len(line.hops) - 1)
        columns = hop_columns(width, self.agents, self.most)
        return hop_cells(summary, line, columns, self.agents, self.first, here)

    def line_of(self, summary: AttemptSummary | None) -> HopLine | None:
        """The line of a row as it is now; ``None``: it is not read yet."""
        made, line = self.lines.get(summary.index, (None, None)) if summary else (None, None)
        return line if made == summary else None

    # Reading

    def _want(self, summary: AttemptSummary) -> None:
        self._wanted[summary.index] = summary
        if not self._filling:
            self._filling = True
            self.call_after_refresh(self._fill)

    @work(thread=True, group="hops")
    def _fill(self) -> None:
        """Read the lines that were wanted, those wanted last first: what was scrolled past can wait."""
        while self._wanted and is_open(self):
            part = [self._wanted.pop(index) for index in list(self._wanted)[-_AT_ONCE:] if index in self._wanted]
            with self._lock:
                read = self._reader.read(part)
            answer(self, self._read, {one.summary.index: (one.summary, hop_line(one)) for one in read})
        self._filling = False

    def _read(self, lines: dict[int, tuple[AttemptSummary, HopLine]]) -> None:
        self.lines.update(lines)
        for index in list(self.lines)[: max(0, len(self.lines) - _KEPT)]:
            del self.lines[index]
        if not self.counted:
            self.most = max(self.most, *(len(line.hops) for _, line in lines.values()))
        self.rows.refresh()
        self.show_position()

    @work(thread=True, exclusive=True, group="hop")
    def _read_full(self, summary: AttemptSummary) -> None:
        with self._lock:
            read = self._reader.read([summary], only_gold=False)[0]
        answer(self, self._show_full, read)

    def _show_full(self, read: HopsOfAttempt) -> None:
        self.full[read.summary.index] = read
        while len(self.full) > _FULL:
            del self.full[next(iter(self.full))]
        current = self.attempt_list.current
        if current is not None and current.index == read.summary.index and self.chart is None:
            self.pager.show(hop_blocks(read, self.hop))

    # Showing

    def show_hop(self) -> None:
        """Show the hop under the cursor in full, when it is read."""
        self.show_position()
        summary = self.attempt_list.current
        if self.chart is not None:
            return
        if summary is None:
            self.pager.show(())
        elif (read := self.full.get(summary.index)) is not None and read.summary == summary:
            self.pager.show(hop_blocks(read, self.hop))
        else:
            self._read_full(summary)

    def show_position(self) -> None:
        """Say above the list where the cursor is and what is listed."""
        shown, total, current = self.attempt_list, len(self.attempt_list), self.attempt_list.current
        description = safe(shown.description())
        place = f"{shown.row + 1 if total else 0:,} of {total:,}"
        agent = safe(current.run.agent) if current else ""
        signs = note_signs(self.notes.of(current)) if current else ""
        self.query_one(TopLine).tell(place, signs, description, agent)

    def notes_changed(self) -> None:
        """Show the marks and the notes by now."""
        self.show_position()

    def relisted(self) -> None:
        """Show the list again: its filter or its order has changed."""
        self.rows.show(len(self.attempt_list), self.attempt_list.row)
        self.show_hop()

    def place_here(self) -> int | None:
        """The place of the attempt under the cursor among the pages."""
        current = self.attempt_list.current
        return current.index if current else None

    @on(Rows.Moved, "#hops")
    def _moved(self, event: Rows.Moved) -> None:
        self.attempt_list.move(event.row)
        self.show_hop()

    @on(Rows.Chosen, "#hops")
    def _chosen(self) -> None:
        summary = self.attempt_list.current
        if summary is None:
            return
        line = self.line_of(summary)
        if line is not None and line.hops:
            self.chosen_place = line.hops[min(self.hop, len(line.hops) - 1)].place
        self.dismiss(summary.index)

    def action_hop(self, by: int) -> None:
        """Go to the next search of the attempt (for -1 the one before)."""
        summary = self.attempt_list.current
        line = self.line_of(summary)
        count = len(line.hops) if line else 0
        here = min(self.hop, max(0, count - 1)) + by
        self.hop = max(0, min(here, count - 1))
        columns = hop_columns(self.rows.size.width, self.agents, self.most)
        self.first = min(max(self.first, self.hop - columns.shown + 1), self.hop)
        self.rows.refresh()
        self.show_hop()

    def action_chart(self) -> None:
        """Show by which search the attempts had found gold, or again the search under the cursor."""
        if self.chart is not None:
            self.chart = None
            self.pager.border_title = "this search"
            self.show_hop()
            return
        self._draw_chart()

    @work(thread=True, exclusive=True, group="chart")
    def _draw_chart(self) -> None:
        pages, made = self.attempt_list.pages, []
        for run in pages.runs:
            hops = gold_hops(pages, run)
            made.append(
                gold_by_hop(short_names(pages.runs).get(run.id, safe(run.agent)), clusters_of(pages, run), hops)
            )
        answer(self, self._show_chart, tuple(made))

    def _show_chart(self, made: tuple[GoldByHop, ...]) -> None:
        self.chart = made
        self.pager.border_title = "attempts of these runs that had found gold, by search"
        if not any(one.shares for one in made):
            self.pager.show([TextBlock("No attempt searched for a question whose gold documents are known.", "dim")])
            return
        drawn = draw(gold_by_hop_picture(made), self.pager.columns - 1).plain
        self.pager.show(
            [
                TextBlock(line, "heading" if line in {one.run for one in made} else "plain")
                for line in drawn.splitlines()
            ]
        )

    def action_seek_wrong(self, step: int) -> None:
        """Go to the next attempt that was not right (for `step` -1 the one before)."""
        self._seek(step)

    @work(thread=True, exclusive=True, group="list")
    def _seek(self, step: int) -> None:
        row = self.attempt_list.seek(step, "wrong")
        answer(self, self._sought, row)

    def _sought(self, row: int | None) -> None:
        if row is None:
            self.app.notify("There is no wrong attempt in this list.", markup=False)
            return
        self.attempt_list.move(row)
        self.rows.show(len(self.attempt_list), row)
        self.show_hop()

    def action_back(self) -> None:
        """Go back, to the attempt under the cursor."""
        self.dismiss(self.place_here())

    def detail_text(self) -> str:
        """The hop in full, as it was recorded."""
        return "\n".join(block.text for block in self.pager.blocks)
