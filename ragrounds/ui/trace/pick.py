"""A list over a screen in which any number of lines are ticked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from ragrounds.ui.text import one_line
from ragrounds.ui.trace.bars import KeysShown
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.menu import BoxScreen
from ragrounds.ui.trace.widgets import Rows


class PickScreen(BoxScreen[tuple[int, ...] | None]):
    """Lines to tick. It ends with the places of those that are ticked, or with ``None`` where it was left."""

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
        super().__init__(title, len(lines))
        self.lines, self.chosen = tuple(lines), set(chosen)

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
