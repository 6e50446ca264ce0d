"""The main screen: finding, filtering and sorting attempts, and the way to the other screens."""

from __future__ import annotations

import asyncio
from array import array
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from ragrounds.evals.store.outlines import SORTS, Filter, SortBy
from ragrounds.ui.text import safe
from ragrounds.ui.trace.browsing import is_troubled, is_wrong
from ragrounds.ui.trace.finding import FindBar
from ragrounds.ui.trace.following import FollowingScreen
from ragrounds.ui.trace.opened import Opened
from ragrounds.ui.trace.outside import Outside
from ragrounds.ui.trace.treestate import TreeState

_TELL = 25
"""Attempts after which a search through all of them says how far it is."""


class BrowseScreen(FollowingScreen):
    """Attempts, steps, detail."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "Find", id="find", key_display="/"),
        Binding("F", "find_everywhere", "Find in all messages", id="find.everywhere", show=False),
        Binding("n", "match(1)", "Next match", id="match.next", show=False),
        Binding("N", "match(-1)", "Match before", id="match.previous", show=False),
        Binding("w", "seek_wrong(1)", "Next wrong", id="wrong.next"),
        Binding("W", "seek_wrong(-1)", "Wrong one before", id="wrong.previous", show=False),
        Binding("e", "seek_error(1)", "Next error", id="error.next"),
        Binding("E", "seek_error(-1)", "Error before", id="error.previous", show=False),
        Binding("f", "filter", "Filter", id="filter"),
        Binding("s", "sort", "Sort", id="sort"),
        Binding("S", "reverse", "Sort the other way", id="sort.reverse", show=False),
        Binding("c", "compare", "Compare", id="compare"),
        Binding("space", "fold", "Fold, unfold", id="fold", show=False),
        Binding("left,h", "fold_to(True)", "Fold, or go up", id="fold.close", show=False),
        Binding("right,l", "fold_to(False)", "Unfold", id="fold.open", show=False),
        Binding("minus", "fold_all(True)", "Fold all", id="fold.all", show=False, key_display="-"),
        Binding("plus,equals_sign", "fold_all(False)", "Unfold all", id="fold.none", show=False, key_display="+"),
        Binding("b", "measure", "Bars: time, tokens, cost", id="bars", show=False),
        Binding("m", "markdown", "Replies as Markdown or text", id="markdown", show=False),
        Binding("z", "zoom", "Enlarge the pane", id="zoom", show=False),
        Binding("r", "look_again", "Read the store again", id="reload", show=False),
        Binding("escape", "clear", "Clear search and filter", id="clear", show=False),
        *Outside.BINDINGS,
    ]

    def action_find(self) -> None:
        in_list = self.focused is self.attempts
        title = "questions with" if in_list else "in the messages of this attempt"
        before = self.browsing.filter.text if in_list else (self.tree_state.pattern if self.tree_state else "")
        self.query_one(FindBar).ask(
            title, before, self.focused, self._find_questions if in_list else self._find_messages
        )

    def _find_questions(self, text: str) -> None:
        wanted = self.browsing.filter
        self.rearrange(Filter(wanted.runs, wanted.outcomes, wanted.subjects, wanted.marks, text), self.browsing.sort)

    def _find_messages(self, text: str) -> None:
        state = self.tree_state
        if state is None:
            return
        found = state.search(text)
        if text and not found:
            state.search("")
            self.app.notify(f"Nothing in this attempt holds {safe(text, 60)!r}.", markup=False)
        elif text:
            state.next_match(1)
        self.tree_changed()
        self.pager.search(state.pattern)

    def action_find_everywhere(self) -> None:
        before = self.tree_state.pattern if self.tree_state else ""
        self.query_one(FindBar).ask("in the messages of all listed attempts", before, self.focused, self._sweep)

    def _sweep(self, text: str) -> None:
        if text:
            self._go_to_text(text)

    @work(exclusive=True, group="sweep")
    async def _go_to_text(self, text: str) -> None:
        """Go to the next attempt in whose messages a text stands. Attempts are read one after the other between what
        the reader does meanwhile; Escape ends it."""
        total, start = len(self.browsing), self.browsing.row
        for ahead in range(1, total + 1):
            row = (start + ahead) % total
            outline = self.browsing.at(row)
            if outline is not None and outline.calls is not None:
                found = TreeState(Opened(self.browsing.pages, outline)).search(text)
                if found:
                    self.browsing.move(row)
                    self.list_changed()
                    self.open()
                    self._find_messages(text)
                    return
            if ahead % _TELL == 0:
                self.say_where(f"looked into {ahead:,} of {total:,}; Escape stops")
            await asyncio.sleep(0)
        self.say_where()
        self.app.notify(f"No listed attempt holds {safe(text, 60)!r}.", markup=False)

    def action_match(self, step: int) -> None:
        state = self.tree_state
        if state is None or not state.pattern:
            self.attempts.action_move(step)
            return
        if self.pager.next_match(step):
            return
        if state.next_match(step):
            self.tree_changed()
            self.pager.search(state.pattern)

    def action_clear(self) -> None:
        if self.workers.cancel_group(self, "sweep"):
            self.say_where()
            return
        if self.tree_state is not None and self.tree_state.pattern:
            self.tree_state.search("")
            self.pager.search("")
            self.tree_changed()
        elif self.browsing.filter or self.browsing.sort != "asked":
            self.rearrange(Filter(), "asked")

    def action_seek_wrong(self, step: int) -> None:
        self._seek(step, wrong=True)

    def action_seek_error(self, step: int) -> None:
        self._seek(step, wrong=False)

    @work(thread=True, exclusive=True, group="list")
    def _seek(self, step: int, wrong: bool) -> None:
        row = self.browsing.seek(step, is_wrong if wrong else is_troubled)
        self.app.call_from_thread(self._sought, row, "wrong attempt" if wrong else "attempt with an error")

    def _sought(self, row: int | None, what: str) -> None:
        if row is None:
            self.app.notify(f"There is no {what} in this list.", markup=False)
            return
        self.browsing.move(row)
        self.list_changed()
        self.open()

    # Order

    @work(thread=True, exclusive=True, group="list")
    def rearrange(self, wanted: Filter, sort: SortBy, descending: bool = True) -> None:
        """Filter and sort the list."""
        order = self.browsing.make_order(wanted, sort, descending)
        self.app.call_from_thread(self._arranged, order, wanted, sort, descending)

    def _arranged(self, order: array[int] | None, wanted: Filter, sort: SortBy, descending: bool) -> None:
        if order is not None and not order:
            self.app.notify("No attempt is left by this filter; it was not applied.", markup=False)
            return
        self.browsing.arrange(order, wanted, sort, descending)
        self.list_changed()
        self.open()

    def action_sort(self) -> None:
        after = SORTS[(SORTS.index(self.browsing.sort) + 1) % len(SORTS)]
        self.rearrange(self.browsing.filter, after, self.browsing.descending)

    def action_reverse(self) -> None:
        self.rearrange(self.browsing.filter, self.browsing.sort, not self.browsing.descending)

    def action_filter(self) -> None:
        from ragrounds.ui.trace.filtering import FilterScreen

        def chosen(wanted: Filter | None) -> None:
            if wanted is not None:
                self.rearrange(wanted, self.browsing.sort, self.browsing.descending)

        self.app.push_screen(FilterScreen(self.browsing), chosen)

    def action_compare(self) -> None:
        from ragrounds.ui.trace.compare import CompareScreen

        current = self.browsing.current
        if len(self.browsing.pages.runs) < 2 or current is None:
            self.app.notify("Comparing needs two runs: name them, ragrounds trace RUN RUN.", markup=False)
            return
        self.app.push_screen(CompareScreen(self.browsing.pages, current))
