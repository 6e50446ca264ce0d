"""Filter line: an expression is typed; suggestions and the number of matching attempts are shown below.

The list changes only at Enter. Errors are shown while typing, under their position.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input
from textual.worker import get_current_worker

from ragrounds.base.errors import UserError
from ragrounds.evals.trace.attempt_filter import LONGEST, FilterError, hint, parse
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.bars import KeyBar
from ragrounds.ui.trace.completion import Suggestion, suggestions
from ragrounds.ui.trace.layout import Cells, TextBlock, fit
from ragrounds.ui.trace.lists import unknown_words
from ragrounds.ui.trace.view import answer, is_open
from ragrounds.ui.trace.widgets import Pager, Rows, type_early

_PAUSE = 0.05
"""Seconds to wait after the last letter."""


class FilterScreen(ModalScreen[str | None]):
    """Dialog that asks for an expression; it returns ``None`` if the list stays unchanged."""

    DEFAULT_CSS = """
    FilterScreen {
        align: center top;
        & > Vertical { width: 100%; height: auto; max-height: 90%; margin-top: 1; border: round $accent;
                       background: $surface; }
        & Input { border: none; height: 1; padding: 0 1; background: $panel; &:focus { border: none; } }
        & #said { height: 3; background: $surface; border: none; padding: 0 1; }
        & Rows { height: 12; background: $surface; border: none; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "apply", "List", priority=True, id="filter.apply"),
        Binding("tab", "take", "Take", priority=True, id="filter.take"),
        Binding("down", "move(1)", "Next", priority=True, id="filter.down"),
        Binding("up", "move(-1)", "Before", priority=True, id="filter.up"),
        Binding("escape", "leave", "Leave", priority=True, id="filter.leave"),
    ]

    def __init__(self, attempt_list: AttemptList) -> None:
        super().__init__()
        self.attempt_list = attempt_list
        self.offered: list[Suggestion] = []
        self._values: dict[str, list[tuple[str, int]]] = {}
        self._moved = False
        self._problem: FilterError | None = None
        self._looked_at = ""
        """Text that `offered` and `_problem` are about."""
        self._counted: dict[str, str] = {}
        """Expression → the number of attempts that match it, or its error, in words."""

    def compose(self) -> ComposeResult:
        """Compose the line, its matches, and the suggestions."""
        with Vertical() as box:
            box.border_title = "filter: an expression, empty lists all"
            yield Input(self.attempt_list.where, placeholder="wrong and hops>3 and gold not seen", id="filter-text")
            yield Pager(id="said", title="")
            yield Rows(self._row, id="offered", title="")
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin with the current filter."""
        line = self.query_one(Input)
        self.set_focus(line)
        line.cursor_position = len(line.value)
        self._read_line()

    def on_key(self, event: events.Key) -> None:
        """Keep letters that are typed before the line has the focus."""
        type_early(self.query_one(Input), event)

    def values(self, field: str) -> list[tuple[str, int]]:
        """Return the values of a field with the number of attempts. They are read once; until then the list is
        empty."""
        if field not in self._values:
            self._values[field] = []
            self._read_values(field)
        return self._values[field]

    @work(thread=True, group="values")
    def _read_values(self, field: str) -> None:
        values = self.attempt_list.pages.values(field)

        def show() -> None:
            """Suggest the values."""
            self._values[field] = values
            if values:
                self._read_line()

        answer(self, show)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._read_line()

    def _read_line(self) -> None:
        line = self.query_one(Input)
        self._moved, self._problem, self._looked_at = False, None, line.value
        # Length and words are checked first: that needs no store.
        try:
            parse(line.value)
        except FilterError as error:
            self._problem = error
        fits = len(line.value) <= LONGEST
        self.offered = suggestions(line.value, line.cursor_position, self.values) if fits else []
        rows = self.query_one("#offered", Rows)
        rows.show(len(self.offered), 0)
        self._show_message()
        if self._problem is None and line.value not in self._counted:
            self._count(line.value)
        else:
            self.workers.cancel_group(self, "count")

    @work(thread=True, exclusive=True, group="count")
    def _count(self, where: str) -> None:
        worker = get_current_worker()
        time.sleep(_PAUSE)
        if worker.is_cancelled:
            return  # more was typed since
        pages = self.attempt_list.pages
        try:
            unknown = None
            if lacking := pages.backlog(where):  # a count would not be that of the list
                words = f"{lacking:,} of {len(pages):,} attempts are looked through when it is listed"
            else:
                count = len(pages.order(where)) if where.strip() else len(pages)
                words = f"{count:,} of {len(pages):,} attempts"
                unknown = pages.unknown(where) if where.strip() else None
            parts = (words, unknown_words(unknown).rstrip(".") if unknown else "", hint(where, is_typing=True))
            words = ". ".join(filter(None, parts))
        except UserError as error:
            words = str(error)
        self._counted[where] = words
        answer(self, self._show_message)

    def _show_message(self) -> None:
        line, problem = self.query_one(Input), self._problem
        message_pane = self.query_one("#said", Pager)
        if problem is None:
            row = self.query_one("#offered", Rows).row
            about = self.offered[row].about if row < len(self.offered) else ""
            message_pane.show([TextBlock(self._counted.get(line.value, "…"), "strong"), TextBlock(about, "dim")])
            return
        # The marker is aligned with the error's position, unless the line is scrolled.
        room = max(10, message_pane.columns)
        marker = (
            " " * problem.position + "^" * max(1, problem.length) if problem.position + problem.length < room else ""
        )
        unfinished = problem.position >= len(line.value.rstrip())
        style = "dim" if unfinished else "wrong"
        message_pane.show([TextBlock(marker, style), TextBlock(one_line(str(problem), room), style)])

    def _row(self, row: int, width: int) -> Cells:
        if row >= len(self.offered):
            return []
        suggestion = self.offered[row]
        size = min(max(18, *(len(offer.label) for offer in self.offered[:40])), max(10, width // 2))
        return [
            (fit(one_line(suggestion.label, 400), size) + "  ", "key"),
            (fit(one_line(suggestion.about, 400), max(0, width - size - 2)), "dim"),
        ]

    @on(Rows.Moved, "#offered")
    def _row_moved(self, event: Rows.Moved) -> None:
        event.stop()
        self._moved = True
        self._show_message()

    @on(Rows.Chosen, "#offered")
    def _row_chosen(self, event: Rows.Chosen) -> None:
        event.stop()
        self.action_take()

    def _after_typing(self, action: Callable[[], None]) -> None:
        """Perform an action after the letters typed before its key have arrived in the line."""

        def perform() -> None:
            """Perform the action with problem and suggestions updated to the current text."""
            if not is_open(self):
                return
            line = self.query_one(Input)
            if self._looked_at != line.value:
                self._read_line()
            action()

        # Priority keys overtake letters that still wait in the queue of the screen or of the line.
        self.call_later(lambda: is_open(self) and self.query_one(Input).call_later(perform))

    def action_move(self, step: int) -> None:
        """Move through the suggestions."""
        self._after_typing(partial(self._move, step))

    def _move(self, step: int) -> None:
        rows = self.query_one("#offered", Rows)
        if not self._moved and step > 0 and not self.query_one(Input).value:
            self._moved = True
            rows.refresh()
            return
        self._moved = True
        rows.action_move(step)

    def action_take(self) -> None:
        """Put the suggestion under the cursor into the line."""
        self._after_typing(self._take)

    def _take(self) -> None:
        rows, line = self.query_one("#offered", Rows), self.query_one(Input)
        if rows.row < len(self.offered):
            suggestion = self.offered[rows.row]
            line.value, line.cursor_position = suggestion.text, suggestion.cursor
            line.focus()

    def action_apply(self) -> None:
        """List the attempts that match; after moving through the suggestions, take the one under the cursor first."""
        self._after_typing(self._apply)

    def _apply(self) -> None:
        line = self.query_one(Input)
        if self._moved and self.offered:
            self._moved = False
            self._take()
            return
        if self._problem is not None:
            self._show_message()
            self.app.bell()
            return
        self.dismiss(line.value.strip())

    def action_leave(self) -> None:
        """Close the line without a change."""
        self.dismiss(None)
