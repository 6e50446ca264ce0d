"""A list over a screen in which any number of lines are ticked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ragrounds.ui.text import one_line
from ragrounds.ui.trace.bars import KeyBar, KeysShown
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.widgets import Rows


class PickScreen(ModalScreen[tuple[int, ...] | None]):
    """Lines to tick. It ends with the places of those that are ticked, or with ``None`` where it was left."""

    DEFAULT_CSS = """
    PickScreen {
        align: center middle;
        & > Vertical { width: 62; max-width: 96%; height: auto; max-height: 90%; border: round $accent;
                       background: $surface; }
        & Rows { height: auto; background: $surface; border: none; padding: 0 1; &:focus { border: none; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "tick", "Tick, or no longer", id="pick.tick"),
        Binding("a", "tick_all", "Tick all, or none", id="pick.all"),
        Binding("enter", "take", "Take what is ticked", priority=True, id="pick.take"),
        Binding("escape,q", "leave", "Leave", id="pick.leave"),
    ]
    KEYS_SHOWN: ClassVar[KeysShown] = {
        "": (("pick.take", "take"), ("pick.tick", "tick"), ("pick.all", "all or none"), ("pick.leave", "leave"))
    }

    def __init__(self, title: str, lines: Sequence[str], chosen: Collection[int]) -> None:
        super().__init__()
        self.pick_title, self.lines, self.chosen = title, tuple(lines), set(chosen)

    def compose(self) -> ComposeResult:
        """The lines in a box, and the keys below."""
        with Vertical() as box:
            box.border_title = self.pick_title
            yield Rows(self._row, id="pick", title="")
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin on the first line."""
        rows = self.query_one(Rows)
        rows.styles.height = min(len(self.lines), max(3, self.app.size.height - 6))
        rows.show(len(self.lines), 0)
        rows.focus()

    def _row(self, row: int, width: int) -> Cells:
        sign = "[x] " if row in self.chosen else "[ ] "
        return [(sign, "right"), (fit(one_line(self.lines[row], 200), max(0, width - 4)), "plain")]

    @on(Rows.Chosen)
    def _clicked(self, event: Rows.Chosen) -> None:
        event.stop()
        self.action_tick()

    def action_tick(self) -> None:
        """Tick the line under the cursor, or no longer."""
        self.chosen ^= {self.query_one(Rows).row}
        self.query_one(Rows).refresh()

    def action_tick_all(self) -> None:
        """Tick all lines; where all are, none."""
        every = set(range(len(self.lines)))
        self.chosen = set() if self.chosen == every else every
        self.query_one(Rows).refresh()

    def action_take(self) -> None:
        """End with what is ticked."""
        self.dismiss(tuple(sorted(self.chosen)))

    def action_leave(self) -> None:
        """End without a choice."""
        self.dismiss(None)
