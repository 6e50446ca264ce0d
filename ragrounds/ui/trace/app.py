"""The application: opens the main screen, knows themes, keys and help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Event, Key
from textual.screen import Screen
from textual.widgets import HelpPanel

from ragrounds.base.records import Run
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages, SortBy
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.home import HomeScreen
from ragrounds.ui.trace.themes import DARK as DARK
from ragrounds.ui.trace.themes import LIGHT as LIGHT
from ragrounds.ui.trace.themes import THEMES
from ragrounds.ui.trace.view import ATTEMPTS, ViewScreen, all_views


class TraceApp(App[None]):
    """The trace viewer of the runs of some pages, or of a whole store, whose home it begins with.

    Args:
        shown: the runs whose attempts are listed at first; a store: none, it begins with its home.
        pages_of: makes the rows of the runs that are chosen in the home; by default by the scorers of `shown`.
    """

    TITLE = "ragrounds trace"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("0", "home", "Home: all runs", id="view.home", show=False),
        *(
            Binding(view.key, f"view('{view.name}')", view.title, id=f"view.{view.name}", show=False)
            for view in all_views().values()
        ),
        Binding("question_mark", "help", "Keys", id="help", key_display="?"),
        Binding("t", "light", "Light or dark", id="theme", show=False),
        Binding("q", "quit", "Quit", id="quit"),
    ]

    def __init__(
        self,
        shown: Pages | Store,
        *,
        pages_of: Callable[[Sequence[Run]], Pages] | None = None,
        where: str = "",
        sort: SortBy = "asked",
        row: int = 0,
        theme: str = DARK,
        view: str = ATTEMPTS.name,
        author: str = "reader",
    ) -> None:
        super().__init__()
        for each in THEMES:
            self.register_theme(each)
        self.store, pages = (shown, None) if isinstance(shown, Store) else (shown.store, shown)
        self.pages_of = pages_of or (lambda runs: Pages(self.store, runs, *([pages.scorers] if pages else [])))
        self.attempt_list: AttemptList | None = None
        self.author, self.theme, self._view = author, theme, view
        if pages is not None:
            self.attempt_list = self._listed(pages, where, sort)
            self.attempt_list.move(row)

    @staticmethod
    def _listed(pages: Pages, where: str, sort: SortBy) -> AttemptList:
        made = AttemptList(pages)
        made.arrange(made.make_order(where, sort), where, sort)
        return made

    def get_default_screen(self) -> Screen[int | None]:
        """The home, or the main screen over the attempt list."""
        return (
            BrowseScreen(self.attempt_list, self.author)
            if self.attempt_list
            else HomeScreen(self.store, self.open_runs)
        )

    def on_mount(self) -> None:
        """Open the view that was asked for."""
        if self._view != ATTEMPTS.name:
            self.call_after_refresh(self.action_view, self._view)

    def open_runs(self, runs: Sequence[Run], view: str, where: str = "") -> None:
        """List the attempts of runs over the home, and open a view of them."""
        self.attempt_list = self._listed(self.pages_of(runs), where, "asked")
        self.push_screen(BrowseScreen(self.attempt_list, self.author))
        if view != ATTEMPTS.name:
            self.call_after_refresh(self.action_view, view)

    def action_home(self) -> None:
        """Leave all that was opened; where the viewer began with some runs, show all of them."""
        while len(self.screen_stack) > 1 and not isinstance(self.screen, HomeScreen):
            self.pop_screen()
        if not isinstance(self.screen, HomeScreen):
            self.push_screen(HomeScreen(self.store, self.open_runs))

    async def action_view(self, name: str, here: bool = False) -> None:
        """Show the same attempts in another view; `here`: at this attempt, wherever the list stands."""
        if isinstance(self.screen, HomeScreen):
            await self.screen.action_view(name)
            return
        place: int | None = None
        while not isinstance(self.screen, BrowseScreen):
            if place is None and isinstance(self.screen, ViewScreen):
                place = self.screen.place_here()
            self.pop_screen()
        self.browse.open_place(place)
        current = self.browse.attempt_list.current
        self.browse.open_view(name, *([current.index] if here and current else []))

    @property
    def browse(self) -> BrowseScreen:
        """The main screen."""
        return next(one for one in reversed(self.screen_stack) if isinstance(one, BrowseScreen))

    async def action_filter(self) -> None:
        """Open the filter line over the screen that is shown."""
        await self.browse.action_filter()

    def action_help(self) -> None:
        """Show the keys of the pane with the focus beside it, or hide them again."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def action_light(self) -> None:
        """Change between light and dark."""
        self.theme = DARK if self.theme == LIGHT else LIGHT

    async def on_event(self, event: Event) -> None:
        """A note goes with the next key: it speaks of the screen on which it came."""
        if isinstance(event, Key):
            self.clear_notifications()
        await super().on_event(event)

    async def action_quit(self) -> None:
        """End the viewer on an empty screen: resized meanwhile, tmux would keep what stands there."""
        if self._driver is not None:
            self._driver.write("\x1b[2J\x1b[H")
        await super().action_quit()
