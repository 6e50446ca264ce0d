"""The line in which a search is typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Label


class FindBar(Horizontal):
    """Hidden until something is looked for. Enter looks, Escape leaves everything as it was."""

    DEFAULT_CSS = """
    FindBar {
        height: 1; display: none; dock: bottom; background: $panel;
        & Label { padding: 0 1; }
        & Input { border: none; height: 1; width: 1fr; padding: 0; background: $panel; }
        & Input:focus { border: none; }
        &.-open { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", show=False, id="find.leave")]

    def __init__(self) -> None:
        super().__init__()
        self._found: Callable[[str], None] | None = None
        self._back: Widget | None = None

    def compose(self) -> ComposeResult:
        yield Label("", markup=False)
        yield Input(select_on_focus=True)

    def ask(self, title: str, before: str, back: Widget | None, found: Callable[[str], None]) -> None:
        """Ask for a text; `found` is told it, `back` is focused again."""
        self._found, self._back = found, back
        self.query_one(Label).update(f"/ {title}:")
        field = self.query_one(Input)
        field.value = before
        self.add_class("-open")
        field.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_leave()
        if self._found is not None:
            self._found(event.value.strip())

    def action_leave(self) -> None:
        self.remove_class("-open")
        if self._back is not None:
            self._back.focus()
