"""What is laid over a screen: menus, and the line in which a search is typed."""

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
    """The line in which a search is typed, hidden until one begins. Enter searches, Escape leaves all as it was."""

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
        self._found: Callable[[str], None] | None = None
        self._back: Widget | None = None

    def compose(self) -> ComposeResult:
        """A name of what is searched, and the line to type in."""
        yield Label("", markup=False)
        yield Input(select_on_focus=True, id="find-text")

    def ask(self, title: str, before: str, back: Widget | None, found: Callable[[str], None]) -> None:
        """Ask for a text; `found` is called with it, then `back` is focused again."""
        self._found, self._back = found, back
        self.query_one(Label).update(f"/ {title}:")
        line = self.query_one(Input)
        line.value = before
        self.add_class("-open")
        self.screen.set_focus(line)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_leave()
        if self._found is not None:
            self._found(event.value.strip())

    def action_leave(self) -> None:
        """Hide the line, and focus what was focused before."""
        self.remove_class("-open")
        if self._back is not None:
            self._back.focus()


class MenuLine(Struct, frozen=True):
    """A line of a menu."""

    value: str
    """What choosing it gives."""
    label: str
    """Its first letter goes to it, and chooses it where no other line begins so."""
    about: str = ""
    sign: str = " "
    """What stands before it: that it is what is chosen now."""


class MenuScreen(ModalScreen[str | None]):
    """Chooses one line; ``None``: none was chosen."""

    DEFAULT_CSS = """
    MenuScreen {
        align: center middle;
        & OptionList { width: 62; max-width: 96%; height: auto; max-height: 90%; border: round $accent;
                       border-title-color: $foreground; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", id="menu.leave")]

    def __init__(self, title: str, lines: Sequence[MenuLine], at: int = 0) -> None:
        super().__init__()
        self.menu_title, self.menu_lines, self._at = title, tuple(lines), at

    def compose(self) -> ComposeResult:
        """The lines in a box, and the keys below."""
        size = max(len(line.label) for line in self.menu_lines) + 2
        shown = [f"{one.sign} {fit(one_line(one.label, 50), size)}{one_line(one.about, 60)}" for one in self.menu_lines]
        menu = OptionList(*(line.rstrip() for line in shown), markup=False)
        menu.border_title, menu.highlighted = self.menu_title.replace("[", r"\["), self._at
        yield menu
        yield KeyBar()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.menu_lines[event.option_index].value)

    def on_key(self, event: events.Key) -> None:
        """Go to the next line that begins with this letter; choose it where it is the only one."""
        letter, menu = (event.character or "").casefold(), self.query_one(OptionList)
        fitting = [at for at, one in enumerate(self.menu_lines) if letter and one.label.casefold().startswith(letter)]
        if fitting:
            event.stop()  # else the screen below would take it for a key of its own
        if len(fitting) == 1:
            self.dismiss(self.menu_lines[fitting[0]].value)
        elif fitting:
            menu.highlighted = next((at for at in fitting if at > (menu.highlighted or 0)), fitting[0])

    def action_leave(self) -> None:
        """Close the menu; nothing changes."""
        self.dismiss(None)
