"""Dialogs over a screen: menus, and the line in which a search is typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList

from ragrounds.ui.text import one_line
from ragrounds.ui.trace.bars import KeyBar
from ragrounds.ui.trace.layout import fit


class FindBar(Horizontal):
    """Line in which a search is typed, hidden until one begins. Enter searches, Escape changes nothing."""

    DEFAULT_CSS = """
    FindBar {
        height: 1; display: none; dock: bottom; background: $panel;
        & Label { padding: 0 1; }
        & Input { border: none; height: 1; width: 1fr; padding: 0; background: $panel; }
        & Input:focus { border: none; }
        &.-open { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", id="find.leave")]

    def __init__(self) -> None:
        super().__init__()
        self._search_for: Callable[[str], None] | None = None
        self._back: Widget | None = None

    def compose(self) -> ComposeResult:
        """Compose the name of the searched texts, and the input."""
        yield Label("", markup=False)
        yield Input(select_on_focus=True, id="find-text")

    def ask(self, title: str, before: str, back: Widget | None, on_submit: Callable[[str], None]) -> None:
        """Ask for a text; `on_submit` is called with it, then `back` is focused again."""
        self._search_for, self._back = on_submit, back
        self.query_one(Label).update(f"/ {title}:")
        line = self.query_one(Input)
        line.value = before
        self.add_class("-open")
        self.screen.set_focus(line)

    @on(Input.Submitted)
    def _search_typed(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_leave()
        if self._search_for is not None:
            self._search_for(event.value.strip())

    def action_leave(self) -> None:
        """Hide the line, and restore the focus."""
        self.remove_class("-open")
        if self._back is not None:
            self._back.focus()


class MenuLine(Struct, frozen=True):
    """Line of a menu."""

    value: str
    """Result of choosing the line."""
    label: str
    """Label; its first letter moves to the line, and chooses it if no other line begins with that letter."""
    about: str = ""
    sign: str = " "
    """Sign before the label, which marks the current choice."""


class MenuScreen(ModalScreen[str | None]):
    """Menu that returns the chosen line's value, or ``None`` if it was closed."""

    DEFAULT_CSS = """
    MenuScreen {
        align: center middle;
        & OptionList { width: 62; max-width: 96%; height: auto; max-height: 90%; border: round $accent;
                       border-title-color: $foreground; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", id="menu.leave")]

    def __init__(self, title: str, lines: Sequence[MenuLine], selected: int = 0) -> None:
        super().__init__()
        self.menu_title, self.menu_lines, self._first_highlighted = title, tuple(lines), selected

    def compose(self) -> ComposeResult:
        """Compose the lines in a box, and the keys below."""
        size = max(len(line.label) for line in self.menu_lines) + 2
        texts = [
            f"{line.sign} {fit(one_line(line.label, 50), size)}{one_line(line.about, 60)}" for line in self.menu_lines
        ]
        menu = OptionList(*(line.rstrip() for line in texts), markup=False)
        menu.border_title, menu.highlighted = self.menu_title.replace("[", r"\["), self._first_highlighted
        yield menu
        yield KeyBar()

    @on(OptionList.OptionSelected)
    def _option_taken(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.menu_lines[event.option_index].value)

    def on_key(self, event: events.Key) -> None:
        """Go to the next line that begins with this letter; choose it if it is the only one."""
        letter, menu = (event.character or "").casefold(), self.query_one(OptionList)
        fitting = [
            index for index, line in enumerate(self.menu_lines) if letter and line.label.casefold().startswith(letter)
        ]
        if fitting:
            event.stop()  # else the screen below would handle the key
        if len(fitting) == 1:
            self.dismiss(self.menu_lines[fitting[0]].value)
        elif fitting:
            menu.highlighted = next((index for index in fitting if index > (menu.highlighted or 0)), fitting[0])

    def action_leave(self) -> None:
        """Close the menu without a change."""
        self.dismiss(None)
