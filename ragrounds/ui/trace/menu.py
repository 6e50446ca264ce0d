"""A menu over a screen: a few lines to choose one from, each with the letter that chooses it at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ragrounds.ui.text import one_line
from ragrounds.ui.trace.bars import KeyBar, KeysShown
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.widgets import Rows

ResultT = TypeVar("ResultT")


class MenuLine(Struct, frozen=True):
    """A line of a menu."""

    value: str
    """What choosing it gives."""
    label: str
    about: str = ""
    letter: str = ""
    """The key that chooses it at once."""
    sign: str = "  "
    """What stands before it: that it is what is chosen now."""


def letters(names: Sequence[str], taken: str) -> list[str]:
    """A letter of each name that no other has and that is not `taken`; empty where none is left."""
    given: list[str] = []
    for name in names:
        free = (
            one for one in (*name.lower(), *name.upper()) if one.isalpha() and one not in taken and one not in given
        )
        given.append(next(free, ""))
    return given


class BoxScreen(ModalScreen[ResultT]):
    """Lines in a box over a screen, and the keys below. Escape leaves it: then it gives ``None``."""

    DEFAULT_CSS = """
    BoxScreen {
        align: center middle;
        & > Vertical { width: 62; max-width: 96%; height: auto; max-height: 90%; border: round $accent;
                       background: $surface; }
        & Rows { height: auto; background: $surface; border: none; padding: 0 1; &:focus { border: none; } }
    }
    """

    def __init__(self, title: str, count: int, at: int = 0) -> None:
        super().__init__()
        self._box_title, self._count, self._at = title, count, at

    def compose(self) -> ComposeResult:
        """The lines in a box, and the keys below."""
        with Vertical() as box:
            box.border_title = self._box_title
            yield Rows(self._row, id="lines", title="")
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin on the line that was asked for."""
        rows = self.query_one(Rows)
        rows.styles.height = min(self._count, max(3, self.app.size.height - 6))
        rows.show(self._count, self._at)
        rows.focus()

    def _row(self, row: int, width: int) -> Cells:
        raise NotImplementedError

    def action_leave(self) -> None:
        """Close the box; nothing changes."""
        self.dismiss(None)


class MenuScreen(BoxScreen[str | None]):
    """Chooses one line; ``None``: none was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Leave", id="menu.leave"),
    ]
    KEYS_SHOWN: ClassVar[KeysShown] = {"": (("rows.open", "choose"), ("menu.leave", "leave"))}

    def __init__(self, title: str, lines: Sequence[MenuLine], at: int = 0) -> None:
        super().__init__(title, len(lines), at)
        self.menu_lines = tuple(lines)

    def _row(self, row: int, width: int) -> Cells:
        line = self.menu_lines[row]
        room = max(4, width - 6)
        label = min(room, max((len(one.label) for one in self.menu_lines), default=0) + 2)
        return [
            (fit(line.letter, 2), "key"),
            (fit(line.sign, 3), "right"),
            (fit(one_line(line.label, room), label), "plain"),
            (fit(one_line(line.about, 200), room - label), "dim"),
        ]

    @on(Rows.Chosen)
    def _chosen(self, event: Rows.Chosen) -> None:
        event.stop()
        self.dismiss(self.menu_lines[event.row].value)

    def on_key(self, event: events.Key) -> None:
        """Choose the line that has this letter."""
        for line in self.menu_lines:
            if line.letter and event.character == line.letter:
                event.stop()
                self.dismiss(line.value)
                return
