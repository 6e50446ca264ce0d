"""Following a run that is going on: what was written appears, nothing moves under the reader's eyes."""

from __future__ import annotations

from array import array

from textual import work

from ragrounds.evals.store.outlines import Filter, SortBy
from ragrounds.evals.store.pages import Watch
from ragrounds.ui.trace.browsing import Browsing
from ragrounds.ui.trace.opened import Opened
from ragrounds.ui.trace.panes import PanesScreen
from ragrounds.ui.trace.treestate import TreeState

_LOOK = 1.0
"""Seconds between looks at the store."""


class FollowingScreen(PanesScreen):
    """Looks at the store every second."""

    def __init__(self, browsing: Browsing) -> None:
        super().__init__(browsing)
        self._watch = Watch(browsing.pages)

    def on_mount(self) -> None:
        self.set_interval(_LOOK, self.look)

    def on_unmount(self) -> None:
        self._watch.close()

    def look(self) -> None:
        """Show what was written since the last look, if anything was."""
        if self._watch.changed():
            self.action_look_again()

    def action_look_again(self) -> None:
        """Show what was written by now; the cursor and the scroll stay where they are."""
        self.browsing.forget()
        if self.browsing.order is not None:
            self._look_again_in_order()
            return
        self.list_changed(keep_scroll=True)
        self._open_again()

    @work(thread=True, exclusive=True, group="list")
    def _look_again_in_order(self) -> None:
        browsing = self.browsing
        wanted, sort, descending = browsing.filter, browsing.sort, browsing.descending
        order = browsing.make_order(wanted, sort, descending)
        self.app.call_from_thread(self._ordered_again, order, wanted, sort, descending)

    def _ordered_again(self, order: array[int] | None, wanted: Filter, sort: SortBy, descending: bool) -> None:
        browsing, before = self.browsing, self.browsing.row
        # At the head of the newest, the head is what is followed.
        following = sort == "newest" and before == 0
        browsing.arrange(order, wanted, sort, descending)
        if following:
            browsing.move(0)
        self.list_changed(keep_scroll=True)
        moved = browsing.row - before
        if moved:
            self.attempts.scroll_to(y=self.attempts.scroll_offset.y + moved, animate=False, immediate=True)
        self._open_again()

    def _open_again(self) -> None:
        outline, state = self.browsing.current, self.tree_state
        if outline is None or (state is not None and state.opened.outline == outline):
            return
        self.tree_state = TreeState(Opened(self.browsing.pages, outline))
        same = state is not None and state.opened.outline.index == outline.index
        if state is not None and same:
            self.tree_state.adopt(state)
        self.tree_changed(keep_scroll=same)
