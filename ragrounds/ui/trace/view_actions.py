"""What the other views of the attempts (hops, grid) have in common: the filter, and where they were left."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from ragrounds.ui.trace.attempt_list import AttemptList

if TYPE_CHECKING:
    from textual.screen import Screen

    _Base = Screen[int | None]
else:
    _Base = object


class ViewActions(_Base):
    """A view over an :class:`AttemptList`, above the main screen: this one arranges the list, the view shows it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "main_filter", "Filter", id="filter", priority=True),
    ]
    attempt_list: AttemptList

    def relisted(self) -> None:
        """Show the list again: its filter or its order has changed."""
        raise NotImplementedError

    def place_here(self) -> int | None:
        """The place of the attempt under the cursor among the pages, where the list shows it."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that open a line to type in come before all others; but in a line they are letters."""
        return not (action in ("main_filter", "note") and isinstance(self.focused, Input))

    async def action_main_filter(self) -> None:
        """Open the filter line; what it chooses holds in all views."""
        await self.app.run_action("filter")
