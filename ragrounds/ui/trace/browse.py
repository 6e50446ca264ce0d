"""Three panes - attempts, steps, detail - over a :class:`AttemptList` and a :class:`TreeState`: drawing and folding.

Following a run that is going on: what was written appears, nothing moves under the reader's eyes.

The main screen: finding, filtering and sorting attempts, and the way to the other screens.
"""

from __future__ import annotations

import asyncio
from array import array
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Footer, Static

from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.summaries import SORTS, Filter, SortBy
from ragrounds.ui.text import safe
from ragrounds.ui.trace.attempt_list import AttemptList, is_troubled, is_wrong
from ragrounds.ui.trace.dialogs import FindBar
from ragrounds.ui.trace.layout import Cells
from ragrounds.ui.trace.tree import LoadedAttempt
from ragrounds.ui.trace.tree_view import (
    MEASURES,
    TreeState,
    attempt_cells,
    attempt_heading,
    branch_cells,
    figure_heading,
    short_names,
)
from ragrounds.ui.trace.widgets import DetailActions, Pager, Rows


class PanesScreen(DetailActions, Screen[None]):
    """What is shown, and how the tree is folded; where the rows come from is its heirs' part."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide"), (190, "-very-wide")]  # noqa: RUF012 (as Screen declares it)
    DEFAULT_CSS = """
    PanesScreen {
        & #where { height: 1; background: $panel; color: $foreground; }
        & #panes { height: 1fr; layout: grid; grid-size: 2 2; grid-columns: 3fr 2fr; grid-rows: 2fr 3fr; }
        & Rows, & Pager { border: round $foreground 30%; &:focus { border: round $accent; } }
        & #detail { column-span: 2; }
        &.-wide #panes { grid-size: 3 1; grid-columns: 3fr 4fr 5fr; grid-rows: 1fr; }
        &.-wide #detail { column-span: 1; }
        &.-very-wide #panes { grid-columns: 4fr 4fr 7fr; }
    }
    """

    def __init__(self, browsing: AttemptList) -> None:
        super().__init__()
        self.browsing = browsing
        self.tree_state: TreeState | None = None
        self.measure = MEASURES[0]
        self.agents = short_names(browsing.pages.runs)

    def compose(self) -> ComposeResult:
        yield Static(id="where", markup=False)
        with Container(id="panes"):
            yield Rows(self._attempt_row, id="attempts", title="attempts", head=self._heading)
            yield Rows(self._branch_row, id="tree", title="steps", head=figure_heading)
            yield Pager(id="detail", title="detail")
        yield FindBar()
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#attempts").focus()
        self.list_changed()
        self.open()

    def _attempt_row(self, row: int, width: int) -> Cells:
        return attempt_cells(self.browsing.at(row), width, self.agents)

    def _heading(self, width: int) -> str:
        return attempt_heading(width, self.agents)

    def _branch_row(self, row: int, width: int) -> Cells:
        if self.tree_state is None:
            return []
        return branch_cells(self.tree_state.branches()[row], self.tree_state.root.figures, width, self.measure)

    @property
    def attempts(self) -> Rows:
        return self.query_one("#attempts", Rows)

    @property
    def tree_pane(self) -> Rows:
        return self.query_one("#tree", Rows)

    @property
    def pager(self) -> Pager:
        return self.query_one("#detail", Pager)

    def list_changed(self, keep_scroll: bool = False) -> None:
        """The rows are other ones, or the cursor is elsewhere."""
        self.attempts.show(len(self.browsing), self.browsing.row, keep_scroll)
        self.say_where()

    def say_where(self, doing: str = "") -> None:
        """Where the cursor is, what is listed, by which scorer the score is; what is being done."""
        browsing, total = self.browsing, len(self.browsing)
        current = browsing.current
        place = f"{browsing.row + 1 if total else 0:,} of {total:,}"
        agent = safe(current.run.agent) if current else ""
        scorer = f"score: {current.scorer}" if current and current.scorer else "not scored"
        said = safe(browsing.said())
        parts = [doing] if doing else [place, *([said] if said else []), scorer, agent]
        self.query_one("#where", Static).update(Text(" " + "  |  ".join(parts), no_wrap=True, overflow="ellipsis"))

    def open(self) -> None:
        """Open the attempt under the cursor."""
        outline = self.browsing.current
        pattern = self.tree_state.pattern if self.tree_state else ""
        self.tree_state = None if outline is None else TreeState(LoadedAttempt(self.browsing.pages, outline))
        if self.tree_state is not None and pattern:
            self.tree_state.search(pattern)
        self.tree_changed()
        self.say_where()

    def tree_changed(self, keep_scroll: bool = False) -> None:
        """The tree, its folds or its cursor are other ones."""
        state = self.tree_state
        self.tree_pane.show(len(state.branches()) if state else 0, state.row() if state else 0)
        self.tree_pane.border_title = f"steps, share of {self.measure}"
        self.pager.pattern = state.pattern if state else ""
        self.pager.show(state.pieces() if state else (), keep_scroll)

    @on(Rows.Moved, "#attempts")
    def _attempt_moved(self, event: Rows.Moved) -> None:
        self.browsing.move(event.row)
        self.open()

    @on(Rows.Moved, "#tree")
    def _branch_moved(self, event: Rows.Moved) -> None:
        if self.tree_state is not None:
            self.tree_state.move(event.row)
            self.pager.show(self.tree_state.pieces())

    @on(Rows.Chosen, "#attempts")
    def _attempt_chosen(self) -> None:
        self.tree_pane.focus()

    @on(Rows.Chosen, "#tree")
    def _branch_chosen(self) -> None:
        self.action_fold()

    def action_fold(self) -> None:
        self._fold(None)

    def action_fold_to(self, folded: bool) -> None:
        self._fold(folded)

    def _fold(self, folded: bool | None) -> None:
        if self.tree_state is not None and self.focused is self.tree_pane:
            before = self.tree_state.cursor
            self.tree_state.toggle(folded)
            self._tree_refolded(before)

    def action_fold_all(self, fold: bool) -> None:
        if self.tree_state is not None:
            before = self.tree_state.cursor
            self.tree_state.fold_all(fold)
            self._tree_refolded(before)

    def _tree_refolded(self, before: str) -> None:
        state = self.tree_state
        if state is None:
            return
        self.tree_pane.show(len(state.branches()), state.row())
        if state.cursor != before:
            self.pager.show(state.pieces())

    def action_measure(self) -> None:
        self.measure = MEASURES[(MEASURES.index(self.measure) + 1) % len(MEASURES)]
        self.tree_changed(keep_scroll=True)

    def action_markdown(self) -> None:
        self.pager.toggle_markdown()
        self.pager.border_title = "detail, replies as Markdown" if self.pager.markdown else "detail"

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    def text_outside(self) -> str:
        return "\n".join(piece.text for piece in self.pager.pieces)


_LOOK = 1.0
"""Seconds between looks at the store."""


class FollowingScreen(PanesScreen):
    """Looks at the store every second."""

    def __init__(self, browsing: AttemptList) -> None:
        super().__init__(browsing)
        self._watch = ChangeWatch(browsing.pages.store.engine)

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
        self.tree_state = TreeState(LoadedAttempt(self.browsing.pages, outline))
        same = state is not None and state.opened.outline.index == outline.index
        if state is not None and same:
            self.tree_state.adopt(state)
        self.tree_changed(keep_scroll=same)


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
        *DetailActions.BINDINGS,
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
                found = TreeState(LoadedAttempt(self.browsing.pages, outline)).search(text)
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
        from ragrounds.ui.trace.dialogs import FilterScreen

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
