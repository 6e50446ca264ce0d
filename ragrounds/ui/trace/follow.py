"""Following runs that are being made: what was written meanwhile appears, and so does what is in flight.

The store is looked at every second, and so are the processes that make attempts. Nothing moves under the reader's eyes.
"""

from __future__ import annotations

from array import array

from textual import on, work
from textual.message import Message
from textual.screen import Screen

from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.summaries import SortBy
from ragrounds.ui.trace.answers import answer, is_open
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.live_rows import LiveRows
from ragrounds.ui.trace.tree_view import TreeState
from ragrounds.ui.trace.widgets import Rows

LOOK = 1.0
"""Seconds between two looks."""


class FollowScreen(Screen[int | None]):
    """A screen over an :class:`AttemptList` that shows what becomes of its rows, and the attempt under the cursor with
    its steps as they happen."""

    class FlightsTold(Message):
        """What is in flight is known."""

        def __init__(self, some: bool) -> None:
            super().__init__()
            self.some = some
            """Whether anything is in flight, or was."""

    attempt_list: AttemptList
    tree_state: TreeState | None
    live: LiveRows
    store_watch: ChangeWatch
    _asks = _asks_again = False
    """Whether what is in flight is asked for now, and whether somebody else wants to know meanwhile."""

    def list_changed(self, keep_scroll: bool = False) -> None:
        """Show the list again: its rows or its cursor have changed."""
        raise NotImplementedError

    def tree_changed(self, keep_scroll: bool = False) -> None:
        """Show the tree and the detail again."""
        raise NotImplementedError

    def show_position(self, doing: str = "") -> None:
        """Say where the cursor is, or what is being done."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what was read of the list; it is read again when it is shown."""
        self.attempt_list.forget()

    @property
    def attempts(self) -> Rows:
        """The pane with the list of attempts."""
        raise NotImplementedError

    def look(self) -> None:
        """Show what was written since the last look, if anything was, and what is in flight."""
        if not is_open(self):
            return
        if self.store_watch.changed():
            self.action_look_again()
        self.look_at_flights()

    def action_look_again(self) -> None:
        """Show what was written by now; the cursor and the scroll stay where they are."""
        self.forget()
        if self.attempt_list.order is not None:
            self._look_again_in_order()
            return
        self.list_changed(keep_scroll=True)
        self._open_again()

    @work(thread=True, exclusive=True, group="list")
    def _look_again_in_order(self) -> None:
        attempt_list = self.attempt_list
        where, sort, descending = attempt_list.where, attempt_list.sort, attempt_list.descending
        order = attempt_list.make_order(where, sort, descending)
        answer(self, self._ordered_again, order, where, sort, descending)

    def _ordered_again(self, order: array[int] | None, where: str, sort: SortBy, descending: bool) -> None:
        attempt_list, before = self.attempt_list, self.attempt_list.row
        # At the head of the newest, the head is what is followed.
        following = sort == "newest" and before == 0
        attempt_list.arrange(order, where, sort, descending)
        if following:
            attempt_list.move(0)
        self.list_changed(keep_scroll=True)
        moved = attempt_list.row - before
        if moved:
            self.attempts.scroll_to(y=self.attempts.scroll_offset.y + moved, animate=False, immediate=True)
        self._open_again()

    def _open_again(self) -> None:
        """Open the attempt under the cursor again, where it is not what is shown."""
        summary, state = self.attempt_list.current, self.tree_state
        if summary is None:
            return
        shown = state.loaded if state is not None else None
        same = shown is not None and shown.summary.index == summary.index
        flying = self.live.of(summary) is not None or (shown is not None and shown.in_flight is not None)
        if same and shown is not None and shown.summary == summary and not flying:
            return
        self.tree_state = TreeState(self.live.loaded(summary, shown if same else None))
        if state is not None and same:
            self.tree_state.adopt(state)
        self.tree_changed(keep_scroll=same)

    # Attempts in flight

    def look_at_flights(self) -> None:
        """Ask what is in flight, on a thread: another process answers. One question at a time."""
        self._asks_again = self._asks
        if not self._asks:
            self._asks = True
            self._ask_flights()

    @work(thread=True, group="flights")
    def _ask_flights(self) -> None:
        # Told by a message, so that nobody waits for a viewer that is closed meanwhile.
        self.post_message(self.FlightsTold(self.live.look(self.attempt_list.current)))

    @on(FlightsTold)
    def _flights_told(self, event: FlightsTold) -> None:
        self._asks = False
        if not is_open(self):
            return
        if event.some:
            self._flights_changed()
        if self._asks_again:
            self.look_at_flights()

    def _flights_changed(self) -> None:
        self.attempts.refresh()
        self.show_position()
        summary, state = self.attempt_list.current, self.tree_state
        if summary is not None and (
            self.live.of(summary) is not None or (state is not None and state.loaded.in_flight is not None)
        ):
            self._open_again()
