"""Main screen: attempts, steps and detail side by side.

It finds, filters and sorts attempts, folds the tree, follows running runs, and opens the other screens. New attempts
appear without moving what the reader looks at.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from ragrounds.base.errors import UserError
from ragrounds.evals.trace.attempt_filter import TextTest, joined, parse, quoted, single_conditions
from ragrounds.evals.trace.summaries import SORT_WORDS, SORTS, SortBy
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.text import safe
from ragrounds.ui.trace.attempt_list import AttemptList, attempt_cells, attempt_heading
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.dialogs import FindBar, MenuLine, MenuScreen
from ragrounds.ui.trace.filter_screen import FilterScreen
from ragrounds.ui.trace.layout import Cells, TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.notes import ReaderNotes, note_blocks, note_signs
from ragrounds.ui.trace.tree_view import TreeState, figure_heading, tree_cells
from ragrounds.ui.trace.view import FILTER_KEY, MARK_KEYS, ViewScreen, answer, progress_callback
from ragrounds.ui.trace.widgets import Pager, Rows

_WRONG, _ERROR = "'wrong', 'wrong attempt'", "'troubled', 'attempt with an error'"
"""Filter expression and description of the targets of the keys w and e."""
LEGEND = """
✓ right, ✗ wrong, ½ partly right, ! failed, ^ capped, = paused, x blocked or refused, ~ abstained, ? unreadable,
0 empty, \\- not scored, · not run yet
"""
"""Legend of the signs of :func:`ragrounds.ui.trace.attempt_list.mark`."""


class BrowseScreen(ViewScreen):
    """Main screen: panes over an :class:`AttemptList` and the :class:`TreeState` of the attempt under the cursor."""

    DETAIL = "detail"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 (as Screen declares it)
    HELP = LEGEND
    DEFAULT_CSS = """
    BrowseScreen {
        & #panes { height: 1fr; layout: vertical; }
        & #lists { height: 2fr; layout: horizontal; }
        & #attempts { width: 3fr; }
        & #tree { width: 2fr; }
        & #detail { height: 3fr; }
        & Rows, & Pager { border: round $border-blurred; }
        & Rows:focus, & Pager:focus { border: round $accent; }
        &.-wide #panes { layout: horizontal; }
        &.-wide #lists { width: 5fr; height: 1fr; layout: vertical; }
        &.-wide #attempts, &.-wide #tree { width: 1fr; height: 1fr; }
        &.-wide #detail { width: 6fr; height: 1fr; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "Find", id="find", key_display="/", priority=True),
        Binding("n", "match(1)", "Next match", id="match.next", show=False),
        Binding("N", "match(-1)", "Match before", id="match.previous", show=False),
        Binding("w", f"seek(1, {_WRONG})", "Next wrong", id="wrong.next"),
        Binding("W", f"seek(-1, {_WRONG})", "Wrong one before", id="wrong.previous", show=False),
        Binding("e", f"seek(1, {_ERROR})", "Next error", id="error.next"),
        Binding("E", f"seek(-1, {_ERROR})", "Error before", id="error.previous", show=False),
        FILTER_KEY,
        Binding("s", "sort", "Sort", id="sort"),
        Binding("S", "reverse", "Sort the other way", id="sort.reverse", show=False),
        Binding("c", "app.view('compare', True)", "Compare", id="compare"),
        Binding("space", "fold", "Fold, unfold", id="fold", show=False),
        Binding("left,h", "fold(True)", "Fold, or go up", id="fold.close", show=False),
        Binding("right,l", "fold(False)", "Unfold", id="fold.open", show=False),
        Binding("minus", "fold_all(True)", "Fold all", id="fold.all", show=False, key_display="-"),
        Binding("plus,equals_sign", "fold_all(False)", "Unfold all", id="fold.none", show=False, key_display="+"),
        Binding("z", "zoom", "Enlarge the pane", id="zoom", show=False),
        Binding("escape", "clear", "Back: search, filter, home", id="clear", show=False),
        *MARK_KEYS,
    ]

    def __init__(self, attempt_list: AttemptList, author: str) -> None:
        super().__init__(attempt_list, ReaderNotes(attempt_list.pages, author))
        self.tree_state: TreeState | None = None
        pages = attempt_list.pages
        self.agents = names_of_runs(pages.runs, pages.given_names)

    def compose(self) -> ComposeResult:
        """Compose the panes, with the position above and the keys below."""
        yield TopLine("attempts")
        with Container(id="panes"):
            with Container(id="lists"):
                yield Rows(
                    self._attempt_row,
                    id="attempts",
                    title="attempts",
                    head=lambda width: attempt_heading(width, self._shown_agents, bool(self.notes)),
                )
                yield Rows(
                    self._tree_row,
                    id="tree",
                    title="steps",
                    head=lambda width: figure_heading(width, self.tree_state.root.figures if self.tree_state else None),
                )
            yield Pager(id="detail", title="detail")
        yield FindBar()
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the list and its first attempt."""
        self.query_one("#attempts").focus()
        self.notes.read()
        self.list_changed()
        self.open()

    @property
    def _shown_agents(self) -> dict[str, str]:
        """Names in the agents' column; empty if all rows would have the same."""
        return {} if self.attempt_list.is_of_one_run else self.agents

    def _attempt_row(self, row: int, width: int) -> Cells:
        summary = self.attempt_list.row_at(row)
        signs = note_signs(self.notes.notes_on(summary)) if self.notes and summary else ""
        return attempt_cells(summary, width, self._shown_agents, signs if self.notes else None)

    def _tree_row(self, row: int, width: int) -> Cells:
        if self.tree_state is None:
            return []
        return tree_cells(self.tree_state.lines()[row], self.tree_state.root.figures, width)

    @property
    def attempts(self) -> Rows:
        """Pane with the list of attempts."""
        return self.query_one("#attempts", Rows)

    @property
    def tree_pane(self) -> Rows:
        """Pane with the steps of the attempt under the cursor."""
        return self.query_one("#tree", Rows)

    @property
    def pager(self) -> Pager:
        """Pane with the detail of the step under the cursor."""
        return self.query_one("#detail", Pager)

    def list_changed(self, keep_scroll: bool = False) -> None:
        """Show the list again after a change of its rows or its cursor."""
        self.attempts.show(len(self.attempt_list), self.attempt_list.row, keep_scroll)
        self.show_position()

    def show_position(self, doing: str = "") -> None:
        """Show position, filter and scorer above the panes, or the activity `doing`."""
        line, attempt_list, total = self.query_one(TopLine), self.attempt_list, len(self.attempt_list)
        if doing:
            for top_line in {line, *self.app.screen.query(TopLine)}:
                top_line.tell(doing)
            return
        every, runs, current = len(attempt_list.pages), attempt_list.pages.runs, attempt_list.current
        total_words = f"{total:,}" if total == every else f"{total:,} (all: {every:,})"
        position = f"{attempt_list.row + 1 if total else 0:,} of {total_words}"
        scorer = f"score: {current.scorer}" if current and current.scorer else "not scored"
        # The number identifies the agent if its column has no room for the name.
        number = f"#{runs.index(current.run) + 1} " if current and len(runs) > 1 else ""
        agent = number + safe(self.agents[current.run.id]) if current else ""
        line.tell(position, safe(attempt_list.description()), scorer, agent)

    def forget(self) -> None:
        """Drop the rows and the notes that were read; they are read again when they are shown."""
        self.attempt_list.forget()
        self.notes.read()

    def open(self) -> None:
        """Open the attempt under the cursor."""
        summary = self.attempt_list.current
        typed = self.tree_state.pattern if self.tree_state else ""
        self.tree_state = None if summary is None else TreeState(LoadedAttempt(self.attempt_list.pages, summary))
        if self.tree_state is not None and typed:
            self.tree_state.search(typed)
        self.tree_changed()
        self.show_position()

    def tree_changed(self, keep_scroll: bool = False) -> None:
        """Show the tree and the detail again after a change of the tree, its folds or its cursor."""
        state = self.tree_state
        self.tree_pane.show(len(state.lines()) if state else 0, state.row() if state else 0)
        self.pager.pattern = state.pattern if state else ""
        self.pager.show(self.detail_blocks(), keep_scroll)

    def detail_blocks(self) -> list[TextBlock]:
        """Return the detail of the step under the cursor; for the whole attempt, readers' notes come first."""
        state = self.tree_state
        if state is None:
            return []
        above = note_blocks(self.notes.notes_on(state.loaded.summary)) if state.node is state.root else []
        return [*above, *state.blocks()]

    @on(Rows.Moved, "#attempts")
    def _attempt_moved(self, event: Rows.Moved) -> None:
        self.attempt_list.move(event.row)
        self.open()

    @on(Rows.Moved, "#tree")
    def _tree_moved(self, event: Rows.Moved) -> None:
        if self.tree_state is not None:
            self.tree_state.move(event.row)
            self.pager.show(self.detail_blocks())

    @on(Rows.Chosen, "#attempts")
    def _attempt_chosen(self) -> None:
        self.tree_pane.focus()

    @on(Rows.Chosen, "#tree")
    def _tree_chosen(self) -> None:
        self.action_fold()

    def action_fold(self, folded: bool | None = None) -> None:
        """Fold or unfold the step under the cursor; by default toggle it."""
        if self.tree_state is not None and self.focused is self.tree_pane:
            before = self.tree_state.cursor
            self.tree_state.toggle(folded)
            self._show_folds(before)

    def action_fold_all(self, fold: bool) -> None:
        """Fold or unfold all steps."""
        if self.tree_state is not None:
            before = self.tree_state.cursor
            self.tree_state.fold_all(fold)
            self._show_folds(before)

    def _show_folds(self, before: str) -> None:
        state = self.tree_state
        if state is None:
            return
        self.tree_pane.show(len(state.lines()), state.row())
        if state.cursor != before:
            self.pager.show(self.detail_blocks())

    # Finding

    def action_find(self) -> None:
        """Ask for a text: in the list to find questions, in the other panes to find messages of this attempt."""
        in_list = self.focused is self.attempts
        title = "questions with" if in_list else "in the messages of this attempt"
        before = "" if in_list else (self.tree_state.pattern if self.tree_state else "")

        def find(text: str) -> None:
            """Find the text that was typed."""
            if not in_list:
                self._find_messages(text)
            elif text:
                self.rearrange(joined(self.attempt_list.where, f"about:{quoted(text)}"), self.attempt_list.sort)

        self.query_one(FindBar).ask(title, before, self.focused, find)

    def _find_messages(self, text: str) -> None:
        state = self.tree_state
        if state is None:
            return
        has_match = state.search(text)
        if text and not has_match:
            state.search("")
            self.app.notify(f"Nothing in this attempt holds {safe(text, 60)!r}.", markup=False)
        elif text:
            state.next_match(1)
        self.tree_changed()
        self.pager.search(state.pattern)

    def action_match(self, step: int) -> None:
        """Go to the next match of the search (the previous one for `step` -1); without a search, to the next
        attempt."""
        state = self.tree_state
        if state is None or not state.pattern:
            self.attempts.action_move(step)
            return
        if not self.pager.next_match(step) and state.next_match(step):
            self.tree_changed()
            self.pager.search(state.pattern)

    def action_clear(self) -> None:
        """Undo one thing: stop a running filter, else clear the search, else the filter and the order, else go home."""
        if any(worker.group == "list" and worker.is_running for worker in self.workers):
            self.workers.cancel_group(self, "list")
            self.show_position()
            return
        if self.tree_state is not None and self.tree_state.pattern:
            self.tree_state.search("")
            self.pager.search("")
            self.tree_changed()
        elif self.attempt_list.where or self.attempt_list.sort != "asked":
            self.rearrange("", "asked")
        else:
            self.app.call_later(self.app.run_action, "home")

    # Order

    @work(thread=True, exclusive=True, group="list")
    def rearrange(self, where: str, sort: SortBy, descending: bool = True) -> None:
        """Filter and sort the list; first compute the facts of attempts that are needed."""
        try:
            tell = progress_callback(self, lambda words: self.show_position(f"{words}; Escape stops"))
            self.attempt_list.complete(where, sort, tell)
            order = self.attempt_list.make_order(where, sort, descending)
        except UserError as error:
            self.app.call_from_thread(self.app.notify, str(error), markup=False, severity="error")
            self.app.call_from_thread(self._refresh_position)
            return
        answer(self, self._apply_order, order, where, sort, descending)

    def _apply_order(self, order: array[int] | None, where: str, sort: SortBy, descending: bool) -> None:
        if order is not None and not order:
            self.app.notify("No attempt is left by this filter; it was not applied.", markup=False)
            self._refresh_position()
            return
        self.attempt_list.arrange(order, where, sort, descending)
        self.relisted()
        # Texts of the filter are also searched in the open attempt, to mark them.
        texts = [test.text.strip('"*') for test in single_conditions(parse(where)) if isinstance(test, TextTest)]
        state = self.tree_state
        if state is not None and any(map(state.search, texts)):
            state.next_match(1)
            self.tree_changed()
            self.pager.search(state.pattern)
        elif state is not None and texts:
            state.search("")
        self._refresh_position()

    def _refresh_position(self) -> None:
        """Show the position again, here and in the views above."""
        self.show_position()
        for above in self.app.screen_stack[1:]:
            if isinstance(above, ViewScreen):
                above.relisted()

    def relisted(self) -> None:
        """Show the list and the attempt under the cursor."""
        self.list_changed()
        self.open()

    def action_sort(self) -> None:
        """Choose what to sort by; choosing the current order reverses it."""
        current_sort, arrow = self.attempt_list.sort, "▼" if self.attempt_list.descending else "▲"
        lines = [MenuLine(name, name, SORT_WORDS[name], arrow if name == current_sort else " ") for name in SORTS]

        def sort_by(name: str | None) -> None:
            """Sort by the chosen column."""
            if name == current_sort and name != "asked":
                self.action_reverse()
            elif name is not None:
                self.rearrange(self.attempt_list.where, name, self.attempt_list.descending)

        title = "sort by (the same again: the other way)"
        self.app.push_screen(MenuScreen(title, lines, SORTS.index(current_sort)), sort_by)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.rearrange(self.attempt_list.where, self.attempt_list.sort, not self.attempt_list.descending)

    async def action_filter(self) -> None:
        """Open the filter line; the attempts that match are listed."""

        def apply_filter(where: str | None) -> None:
            """Apply the filter that was typed."""
            if where is not None:
                self.rearrange(where, self.attempt_list.sort, self.attempt_list.descending)

        self.app.push_screen(FilterScreen(self.attempt_list), apply_filter)

    def notes_changed(self) -> None:
        """Show the current marks and notes."""
        self.attempts.refresh()
        self.pager.show(self.detail_blocks(), keep_scroll=True)

    # Other views

    def open_place(self, index: int | None, call: int | None = None) -> None:
        """Open the attempt at an index of the pages, and its call with the number `call`, for another screen."""
        if index is None:
            return
        row = self.attempt_list.row_of(index)
        if row is None:
            # The attempt was found by full text or in another view: the filter that hides it is removed.
            self.attempt_list.arrange(None, "", "asked")
            self.app.notify("The filter hides this attempt: it was taken back.", markup=False)
            row = self.attempt_list.row_of(index) or 0
        self.attempt_list.move(row)
        self.list_changed()
        state = self.tree_state
        if state is None or state.loaded.summary.index != index:
            self.open()
            state = self.tree_state
        else:
            self.notes_changed()  # the attempt itself stays as it was left
        if call is not None and state is not None and state.go_to(state.loaded.node_of(call)):
            self.tree_changed()
            self.tree_pane.focus()

    # Following runs that are not finished: nothing moves under the reader's eyes

    def show_new_records(self) -> None:
        """Show what was written since; the cursor and the scroll position stay."""
        self.forget()
        if self.attempt_list.order is not None:
            self._update_order()
            return
        self.list_changed(keep_scroll=True)
        self._reopen()

    @work(thread=True, exclusive=True, group="list")
    def _update_order(self) -> None:
        listed = self.attempt_list
        with suppress(UserError):  # a store that cannot be written is shown as it is
            listed.complete(listed.where, listed.sort, lambda words: None)
        order = listed.make_order(listed.where, listed.sort, listed.descending)
        answer(self, self._apply_new_order, order, listed.where, listed.sort, listed.descending)

    def _apply_new_order(self, order: array[int] | None, where: str, sort: SortBy, descending: bool) -> None:
        attempt_list, before = self.attempt_list, self.attempt_list.row
        attempt_list.arrange(order, where, sort, descending)
        if sort == "newest" and before == 0:  # at the head of the newest, follow the newest
            attempt_list.move(0)
        self.list_changed(keep_scroll=True)
        if moved := attempt_list.row - before:
            self.attempts.scroll_to(y=self.attempts.scroll_offset.y + moved, animate=False, immediate=True)
        self._reopen()

    def _reopen(self) -> None:
        """Open the attempt under the cursor again if it has changed."""
        summary, state = self.attempt_list.current, self.tree_state
        if summary is None:
            return
        before = state.loaded.summary if state else None
        if summary == before:
            return
        same = before is not None and before.index == summary.index
        self.tree_state = TreeState(LoadedAttempt(self.attempt_list.pages, summary))
        if state is not None and same:
            self.tree_state.adopt(state)
        self.tree_changed(keep_scroll=same)
