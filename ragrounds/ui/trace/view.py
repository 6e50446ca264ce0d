"""Views of the attempts, and the base class of their screens.

A view is one :class:`View` in one file of the folder `views`, where it is discovered like a scorer: the keys, the line
above each screen, the help and ``ragrounds trace`` read it there. Nothing imports a view, and no view imports another:
one opens the other by its name.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, Literal, TypeVar, TypeVarTuple

from msgspec import Struct
from textual import work
from textual._context import NoActiveAppError
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import get_current_worker

from ragrounds.base import hooks, plugins
from ragrounds.base.errors import StopRun, UserError
from ragrounds.evals.store.attempt_notes import MARK_WORDS
from ragrounds.evals.store.database import ChangeWatch
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.dialogs import MenuLine, MenuScreen
from ragrounds.ui.trace.notes import MARK_SIGNS, OTHER_SIGN, NoteScreen, ReaderNotes
from ragrounds.ui.trace.widgets import Pager

Ending = TypeVar("Ending")
Given = TypeVarTuple("Given")
_LOOK = 1.0
"""Seconds between two checks of the store."""
_PATIENCE = 5
"""Pause between two readings, at least, in multiples of the time that the last one took."""

FILTER_KEY = Binding("f", "filter", "Filter", id="filter", priority=True)
"""Key of views that show the list as it is filtered and sorted."""
MARK_KEYS = (
    Binding("asterisk", "mark", "Mark …", id="mark", show=False, key_display="*"),
    Binding("a", "note", "Write a note", id="note", show=False, priority=True),
)
"""Keys of views with a row of the list under their cursor."""


class ReadingPace:
    """Pace of the readings that follow changes of the store: one at a time, with a pause after a slow one.

    A thread cannot be cancelled. A second reading would run next to the first one and slow it down.
    """

    def __init__(self) -> None:
        self._not_before = 0.0

    def is_due(self) -> bool:
        """Return True if no reading is at work and the pause after the last one is over."""
        return time.monotonic() >= self._not_before

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Mark the time of a reading."""
        began, self._not_before = time.monotonic(), math.inf
        try:
            yield
        finally:
            now = time.monotonic()
            self._not_before = now + _PATIENCE * (now - began)


class ViewScreen(Screen[int | None]):
    """Screen over an :class:`AttemptList`. It returns the index of the attempt to open.

    `chosen_place` is then the number of the call to go to.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", id="copy", show=False),
        Binding("o", "texts('shows_whole')", "Long texts whole, or folded", id="texts.whole", show=False),
        Binding("m", "texts('raw')", "Replies as written, or laid out", id="texts.raw", show=False),
    ]
    DETAIL = ""
    """Id of the :class:`Pager` that is copied if none has the focus."""
    chosen_place: int | None = None

    def __init__(self, attempt_list: AttemptList, notes: ReaderNotes) -> None:
        super().__init__()
        self.attempt_list, self.notes = attempt_list, notes
        self.store_watch = ChangeWatch(attempt_list.pages.store.engine)

    # Overridden by views

    def relisted(self) -> None:
        """Show the list again after a change of its filter, its order or its cursor."""

    def show_new_records(self) -> None:
        """Show what was written to the store since the last look."""

    def notes_changed(self) -> None:
        """Show the current marks and notes."""

    def place_here(self) -> int | None:
        """Return the index of the attempt under the cursor in the pages, if the list shows it."""
        return None

    # Common to all views

    def on_mount(self) -> None:
        """Start to check the store every second."""
        self.set_interval(_LOOK, self.look)

    def on_unmount(self) -> None:
        """Close the connection that watches the store."""
        self.store_watch.close()

    def look(self) -> None:
        """Show changes of the store since the last look, if there are any."""
        if is_open(self) and self.store_watch.changed():
            self.show_new_records()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that open an input line while one has the focus, where they are letters.

        These keys have priority, so that letters typed right after them arrive in the line that they open.
        """
        return not (action in ("find", "filter", "note") and isinstance(self.focused, Input))

    def open_view(self, name: str, *indices: int) -> None:
        """Open a view over this screen at the indices of some attempts; the attempt chosen there is opened."""
        try:
            screen = all_views()[name].opens(self.attempt_list, self.notes, indices)
        except UserError as error:
            self.app.notify(str(error), markup=False)
            return
        if screen is not None:
            self.app.push_screen(screen, lambda index: self.open_place(index, screen.chosen_place))

    def open_place(self, index: int | None, call: int | None = None) -> None:
        """Close the view to open the attempt at an index of the pages, and its call with the number `call`."""
        if index is not None:
            self.chosen_place = call
            self.dismiss(index)

    def action_leave(self) -> None:
        """Go back, to the attempt under the cursor."""
        self.dismiss(self.place_here())

    async def action_filter(self) -> None:
        """Open the filter line; the filter applies to all views."""
        await self.app.run_action("filter")

    @work(thread=True, exclusive=True, group="list")
    def action_seek(self, step: int, where: str, target: str) -> None:
        """Go to the next attempt that `where` matches (the previous one for `step` -1)."""
        row = self.attempt_list.seek(step, where)

        def go() -> None:
            """Go to the match."""
            if row is None:
                self.app.notify(f"There is no {target} in this list.", markup=False)
                return
            self.attempt_list.move(row)
            self.relisted()

        answer(self, go)

    def action_zoom(self) -> None:
        """Enlarge the focused pane to the whole screen, or restore it."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    # Copying the detail

    def detail_text(self) -> str:
        """Return the text of the focused detail, else of the first one, as it was recorded."""
        pager = self.focused if isinstance(self.focused, Pager) else self.query_one(f"#{self.DETAIL}", Pager)
        blocks = [part for block in pager.blocks for part in itertools.chain((block,), *block.beside)]
        return "\n".join(block.text for block in blocks if block.seen(raw=True) and not block.beside)

    def action_texts(self, how: Literal["raw", "shows_whole"]) -> None:
        """Toggle whether replies are shown as they were written, or long texts in full."""
        for pager in self.query(Pager):
            pager.toggle(how)

    def action_copy(self) -> None:
        """Copy the text selected with the mouse, else the whole detail."""
        text = self.get_selected_text() or self.detail_text()
        self.app.copy_to_clipboard(text)
        self.app.notify(f"Copied {len(text):,} characters.", markup=False)

    # Marks and notes on the attempt under the cursor

    def action_mark(self) -> None:
        """Choose a mark for the attempt under the cursor."""
        summary = self.attempt_list.current
        if summary is None:
            return
        mine = self.notes.mine(summary)
        current_mark = mine.mark if mine else ""
        words = [*MARK_WORDS, *(word for word in self.notes.marks() if word not in MARK_WORDS)]
        lines = [
            MenuLine(word, word, "the mark here" if word == current_mark else "", MARK_SIGNS.get(word, OTHER_SIGN))
            for word in words
        ]
        lines.append(MenuLine("", "no mark"))

        row = words.index(current_mark) if current_mark in words else 0
        self.app.push_screen(
            MenuScreen(f"mark {one_line(summary.question.id, 40)}", lines, row), partial(self._annotate, "mark")
        )

    def action_note(self) -> None:
        """Write a note on the attempt under the cursor."""
        summary = self.attempt_list.current
        if summary is None:
            return
        mine = self.notes.mine(summary)
        title = f"note on {one_line(summary.question.id, 30)}, {one_line(summary.agent_name, 30)}"
        self.app.push_screen(NoteScreen(title, mine.text if mine else ""), partial(self._annotate, "text"))

    def _annotate(self, part: Literal["mark", "text"], typed: str | None) -> None:
        """Write the reader's mark or note on the attempt under the cursor; ``None`` changes nothing."""
        summary = self.attempt_list.current
        if summary is None or typed is None:
            return
        try:
            self.notes.write(summary, **{part: typed})
        except (UserError, StopRun) as error:
            self.app.notify(str(error), markup=False, severity="error")
            return
        self.notes_changed()


class View(Struct, frozen=True, kw_only=True):
    """View: how it is opened, and its line in the help."""

    name: str
    """Name of the view; the ids of its keys begin with it."""
    key: str
    """Number key that opens it from every screen."""
    title: str
    """Description of its key, for the help."""
    opens: Callable[[AttemptList, ReaderNotes, tuple[int, ...]], ViewScreen | None]
    """Makes the view's screen over a list, at the indices of some attempts; without indices, at the list's cursor.

    ``None`` is returned for the list itself. A :class:`UserError` explains why there is nothing to show.
    """


ATTEMPTS = View(name="attempts", key="1", title="Attempts and their steps", opens=lambda *_: None)
"""Main screen, over which all others are opened."""


def all_views() -> dict[str, View]:
    """Return the views by name, in the order of their numbers."""
    views = [ATTEMPTS, *plugins.discover(hooks.VIEW, View).values()]
    return {view.name: view for view in sorted(views, key=lambda view: view.key)}


def is_open(screen: Screen[Ending]) -> bool:
    """Return True if a screen was not closed. Another one may cover it."""
    return screen.is_attached and screen in screen.app.screen_stack


def answer(screen: Screen[Ending], show: Callable[[*Given], object], *arguments: *Given) -> None:
    """Call `show` on the thread of the display, and wait for it; do nothing if the screen was closed.

    Args:
        screen: screen whose worker calls this, on the worker's thread.
        show: shows results on the screen.
        arguments: arguments of `show`.
    """

    def show_if_open() -> None:
        """Check on the display's thread whether the screen is open: keys may have been pressed since the call."""
        if is_open(screen):
            show(*arguments)

    try:
        app = screen.app
    except NoActiveAppError:  # the application has ended
        return
    app.call_from_thread(show_if_open)


def progress_callback(screen: Screen[Ending], show: Callable[[str], object]) -> Callable[[str], None]:
    """Return a callback that shows a worker's progress on its screen, and stops a cancelled worker."""
    worker = get_current_worker()

    def tell(words: str) -> None:
        """Show the progress, or raise UserError if the worker was cancelled."""
        if worker.is_cancelled:
            raise UserError("Stopped. What was made is kept; the next search resumes.")
        answer(screen, show, words)

    return tell
