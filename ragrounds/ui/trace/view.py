"""A view of the attempts, and the screen that every view is.

A view is one :class:`View` in one file of the folder `views`, where it is found as a scorer is: the keys, the line
above each screen, the help and ``ragrounds trace`` read it there. Nothing imports a view,
and no view imports another: one opens the other by its name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
"""Seconds between looks at the store."""

FILTER_KEY = Binding("f", "filter", "Filter", id="filter", priority=True)
"""For views that show the list as it is filtered and sorted."""
MARK_KEYS = (
    Binding("asterisk", "mark", "Mark …", id="mark", show=False, key_display="*"),
    Binding("a", "note", "Write a note", id="note", show=False, priority=True),
)
"""For views with a row of the list under their cursor."""


class ViewScreen(Screen[int | None]):
    """A screen over an :class:`AttemptList`. It ends with the place of the attempt that is to be opened;
    `chosen_place` is then the place of the call to go to among its calls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", id="copy", show=False),
        Binding("o", "texts('whole')", "Long texts whole, or folded", id="texts.whole", show=False),
        Binding("m", "texts('raw')", "Replies as written, or laid out", id="texts.raw", show=False),
    ]
    DETAIL = ""
    """Id of the :class:`Pager` that is copied where none has the focus."""
    chosen_place: int | None = None

    def __init__(self, attempt_list: AttemptList, notes: ReaderNotes) -> None:
        super().__init__()
        self.attempt_list, self.notes = attempt_list, notes
        self.store_watch = ChangeWatch(attempt_list.pages.store.engine)

    # What a view says of itself

    def relisted(self) -> None:
        """Show the list again: its filter, its order or its cursor has changed."""

    def written(self) -> None:
        """Show what was written to the store since the last look."""

    def notes_changed(self) -> None:
        """Show the marks and the notes by now."""

    def place_here(self) -> int | None:
        """The place of the attempt under the cursor among the pages, where the list shows it."""
        return None

    # What all have in common

    def on_mount(self) -> None:
        """Look at the store every second from now on."""
        self.set_interval(_LOOK, self.look)

    def on_unmount(self) -> None:
        """Close the connection by which the store is looked at."""
        self.store_watch.close()

    def look(self) -> None:
        """Show what was written since the last look, if anything was."""
        if is_open(self) and self.store_watch.changed():
            self.written()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that open a line to type in come before all others, so that what is typed right after them arrives
        there; but in a line they are letters."""
        return not (action in ("find", "filter", "note") and isinstance(self.focused, Input))

    def open_view(self, name: str, *places: int) -> None:
        """Open a view over this screen, at the places of some attempts; what is chosen there is opened."""
        try:
            screen = all_views()[name].opens(self.attempt_list, self.notes, places)
        except UserError as error:
            self.app.notify(str(error), markup=False)
            return
        if screen is not None:
            self.app.push_screen(screen, lambda place: self.open_place(place, screen.chosen_place))

    def open_place(self, index: int | None, call: int | None = None) -> None:
        """Open the attempt at a place of the pages, and of its calls the one with this number, as another screen asks
        for it."""
        if index is not None:
            self.chosen_place = call
            self.dismiss(index)

    def action_leave(self) -> None:
        """Go back, to the attempt under the cursor."""
        self.dismiss(self.place_here())

    async def action_filter(self) -> None:
        """Open the filter line; what it chooses holds in all views."""
        await self.app.run_action("filter")

    def action_seek(self, step: int, where: str, what: str) -> None:
        """Go to the next attempt that `where` chooses (for `step` -1 the one before)."""
        self._seek(step, where, what)

    @work(thread=True, exclusive=True, group="list")
    def _seek(self, step: int, where: str, what: str) -> None:
        answer(self, self._sought, self.attempt_list.seek(step, where), what)

    def _sought(self, row: int | None, what: str) -> None:
        if row is None:
            self.app.notify(f"There is no {what} in this list.", markup=False)
            return
        self.attempt_list.move(row)
        self.relisted()

    def action_zoom(self) -> None:
        """Enlarge the pane with the focus to the whole screen, or make it small again."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    # Copying the detail

    def detail_text(self) -> str:
        """The text of the detail with the focus, else of the first, as it was recorded."""
        pager = self.focused if isinstance(self.focused, Pager) else self.query_one(f"#{self.DETAIL}", Pager)
        shown = [one for block in pager.blocks for one in itertools.chain((block,), *block.beside)]
        return "\n".join(block.text for block in shown if block.seen(raw=True) and not block.beside)

    def action_texts(self, how: Literal["raw", "whole"]) -> None:
        """Show replies as they were written, or long texts whole; or no more."""
        for pager in self.query(Pager):
            pager.toggle(how)

    def action_copy(self) -> None:
        """Copy what is selected with the mouse, else the whole detail."""
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
        here = mine.mark if mine else ""
        words = [*MARK_WORDS, *(word for word in self.notes.marks() if word not in MARK_WORDS)]
        lines = [
            MenuLine(word, word, "the mark here" if word == here else "", MARK_SIGNS.get(word, OTHER_SIGN))
            for word in words
        ]
        lines.append(MenuLine("", "no mark"))

        def chosen(word: str | None) -> None:
            """Leave the mark."""
            if word is not None:
                self._annotate(mark=word)

        at = words.index(here) if here in words else 0
        self.app.push_screen(MenuScreen(f"mark {one_line(summary.question.id, 40)}", lines, at), chosen)

    def action_note(self) -> None:
        """Write a note on the attempt under the cursor."""
        summary = self.attempt_list.current
        if summary is None:
            return
        mine = self.notes.mine(summary)

        def written(text: str | None) -> None:
            """Keep the note."""
            if text is not None:
                self._annotate(text=text)

        title = f"note on {one_line(summary.question.id, 30)}, {one_line(summary.run.agent, 30)}"
        self.app.push_screen(NoteScreen(title, mine.text if mine else ""), written)

    def _annotate(self, mark: str | None = None, text: str | None = None) -> None:
        summary = self.attempt_list.current
        if summary is None:
            return
        try:
            self.notes.write(summary, mark=mark, text=text)
        except (UserError, StopRun) as error:
            self.app.notify(str(error), markup=False, severity="error")
            return
        self.notes_changed()


class View(Struct, frozen=True, kw_only=True):
    """A view: what opens it, and what the help says of it."""

    name: str
    """Its own; the ids of its keys begin with it."""
    key: str
    """The number that opens it from every screen."""
    title: str
    """What its key does, for the help."""
    opens: Callable[[AttemptList, ReaderNotes, tuple[int, ...]], ViewScreen | None]
    """Makes its screen over a list, at the places of some attempts; none: where the list stands. ``None``: the list
    itself. A :class:`UserError` says why there is nothing to show."""


ATTEMPTS = View(name="attempts", key="1", title="Attempts and their steps", opens=lambda *_: None)
"""The main screen, over which all others are opened."""


def all_views() -> dict[str, View]:
    """The views by name, in the order of their numbers."""
    found = [ATTEMPTS, *plugins.discover(hooks.VIEW, View).values()]
    return {view.name: view for view in sorted(found, key=lambda view: view.key)}


def is_open(screen: Screen[Ending]) -> bool:
    """Whether a screen still has its panes: it was not left, though another one may stand before it."""
    return screen.is_attached and screen in screen.app.screen_stack


def answer(screen: Screen[Ending], show: Callable[[*Given], object], *given: *Given) -> None:
    """Call `show` with what was read, on the thread that draws, and wait for it; where the screen was left, do nothing.

    Args:
        screen: whose worker it is that calls this, on a thread of its own.
        show: shows it on the screen.
        given: the arguments of `show`.
    """

    def shown() -> None:
        """Look only now whether it is wanted: keys may have been pressed since the call."""
        if is_open(screen):
            show(*given)

    try:
        app = screen.app
    except NoActiveAppError:  # it is gone altogether
        return
    app.call_from_thread(shown)


def teller(screen: Screen[Ending], show: Callable[[str], object]) -> Callable[[str], None]:
    """For a worker's long work: says on its screen how far it is, and ends it where it is not wanted any more."""
    worker = get_current_worker()

    def tell(words: str) -> None:
        """Say it."""
        if worker.is_cancelled:
            raise UserError("Stopped. What was made is kept; the next search resumes.")
        answer(screen, show, words)

    return tell
