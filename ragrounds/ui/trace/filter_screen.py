"""The filter line: an expression is typed, what it may go on with stands below, and how many attempts it chooses.

Nothing is listed anew until Enter; what cannot be understood is said while it is typed, under the place.
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
from ragrounds.ui.text import number_of, one_line
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.bars import KeyBar
from ragrounds.ui.trace.completion import Suggestion, suggestions
from ragrounds.ui.trace.layout import Cells, TextBlock, fit
from ragrounds.ui.trace.lists import unknown_words
from ragrounds.ui.trace.view import answer, is_open
from ragrounds.ui.trace.widgets import Pager, Rows, type_early

_PAUSE = 0.05
"""Seconds after the last letter."""


class FilterScreen(ModalScreen[str | None]):
    """Asks for an expression; ``None``: the list stays as it is."""

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
        """The text that `offered` and `_problem` are about."""
        self._counted: dict[str, str] = {}
        """Expression → how many attempts it chooses, or what is wrong with it, in words."""

    def compose(self) -> ComposeResult:
        """The line, what it chooses, and what may go into it."""
        with Vertical() as box:
            box.border_title = "filter: an expression, empty lists all"
            yield Input(self.attempt_list.where, placeholder="wrong and hops>3 and gold not seen", id="filter-text")
            yield Pager(id="said", title="")
            yield Rows(self._row, id="offered", title="")
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin with the filter that is there."""
        line = self.query_one(Input)
        self.set_focus(line)
        line.cursor_position = len(line.value)
        self._typed()

    def on_key(self, event: events.Key) -> None:
        """Take what is typed before the line has the focus."""
        type_early(self.query_one(Input), event)

    def values(self, field: str) -> list[tuple[str, int]]:
        """The values of a field that there are, with the number of attempts; read once, and until then none."""
        if field not in self._values:
            self._values[field] = []
            self._read_values(field)
        return self._values[field]

    @work(thread=True, group="values")
    def _read_values(self, field: str) -> None:
        answer(self, self._values_are, field, self.attempt_list.pages.values(field))

    def _values_are(self, field: str, found: list[tuple[str, int]]) -> None:
        self._values[field] = found
        if found:
            self._typed()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._typed()

    def _typed(self) -> None:
        line = self.query_one(Input)
        self._moved, self._problem, self._looked_at = False, None, line.value
        # First what needs no store: the length and the words.
        try:
            parse(line.value)
        except FilterError as error:
            self._problem = error
        fits = len(line.value) <= LONGEST
        self.offered = suggestions(line.value, line.cursor_position, self.values) if fits else []
        rows = self.query_one("#offered", Rows)
        rows.show(len(self.offered), 0)
        self._say()
        if self._problem is None and line.value not in self._counted:
            self._count(line.value)
        else:
            self.workers.cancel_group(self, "count")

    @work(thread=True, exclusive=True, group="count")
    def _count(self, where: str) -> None:
        worker = get_current_worker()
        time.sleep(_PAUSE)
        if worker.is_cancelled:
            return  # more was typed meanwhile
        pages = self.attempt_list.pages
        try:
            found = len(pages.order(where)) if where.strip() else len(pages)
            words = f"{found:,} of {len(pages):,} attempts"
            unknown = pages.unknown(where) if where.strip() else None
            if lacking := pages.backlog(where):
                words += f"; {number_of(lacking, 'attempt')} more to be looked through when it is listed"
            said = (words, unknown_words(unknown).rstrip(".") if unknown else "", hint(where))
            words = ". ".join(filter(None, said))
        except UserError as error:
            words = str(error)
        answer(self, self._count_is, where, words)

    def _count_is(self, where: str, words: str) -> None:
        self._counted[where] = words
        self._say()

    def _say(self) -> None:
        line, problem = self.query_one(Input), self._problem
        said = self.query_one("#said", Pager)
        if problem is None:
            row = self.query_one("#offered", Rows).row
            about = self.offered[row].about if row < len(self.offered) else ""
            said.show([TextBlock(self._counted.get(line.value, "…"), "strong"), TextBlock(about, "dim")])
            return
        # Under the place, where the line has not been scrolled.
        room = max(10, said.columns)
        place = " " * problem.at + "^" * max(1, problem.length) if problem.at + problem.length < room else ""
        unfinished = problem.at >= len(line.value.rstrip())
        style = "dim" if unfinished else "wrong"
        said.show([TextBlock(place, style), TextBlock(one_line(str(problem), room), style)])

    def _row(self, row: int, width: int) -> Cells:
        if row >= len(self.offered):
            return []
        one = self.offered[row]
        size = min(max(18, *(len(each.shown) for each in self.offered[:40])), max(10, width // 2))
        return [
            (fit(one_line(one.shown, 400), size) + "  ", "key"),
            (fit(one_line(one.about, 400), max(0, width - size - 2)), "dim"),
        ]

    @on(Rows.Moved, "#offered")
    def _row_moved(self, event: Rows.Moved) -> None:
        event.stop()
        self._moved = True
        self._say()

    @on(Rows.Chosen, "#offered")
    def _row_chosen(self, event: Rows.Chosen) -> None:
        event.stop()
        self.action_take()

    def _in_turn(self, action: Callable[[], None]) -> None:
        """Do it when the letters typed before the key stand in the line."""

        def then() -> None:
            """Do it, with what is said and offered being about the text as it stands."""
            if not is_open(self):
                return
            line = self.query_one(Input)
            if self._looked_at != line.value:
                self._typed()
            action()

        # A key that comes before all others overtakes letters that wait for the screen or for the line.
        self.call_later(lambda: is_open(self) and self.query_one(Input).call_later(then))

    def action_move(self, by: int) -> None:
        """Go through what is offered."""
        self._in_turn(partial(self._move, by))

    def _move(self, by: int) -> None:
        rows = self.query_one("#offered", Rows)
        if not self._moved and by > 0 and not self.query_one(Input).value:
            self._moved = True
            rows.refresh()
            return
        self._moved = True
        rows.action_move(by)

    def action_take(self) -> None:
        """Put what is offered into the line."""
        self._in_turn(self._take)

    def _take(self) -> None:
        rows, line = self.query_one("#offered", Rows), self.query_one(Input)
        if rows.row < len(self.offered):
            one = self.offered[rows.row]
            line.value, line.cursor_position = one.text, one.cursor
            line.focus()

    def action_apply(self) -> None:
        """List what the expression chooses; after going through what is offered, take that first."""
        self._in_turn(self._apply)

    def _apply(self) -> None:
        line = self.query_one(Input)
        if self._moved and self.offered:
            self._moved = False
            self._take()
            return
        if self._problem is not None:
            self._say()
            self.app.bell()
            return
        where = line.value.strip()
        self.dismiss(where)

    def action_leave(self) -> None:
        """Close the line; the list stays as it was."""
        self.dismiss(None)
