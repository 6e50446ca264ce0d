"""Application of the trace viewer: its screens, themes, keys and help."""

from __future__ import annotations

from collections.abc import Sequence
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
from ragrounds.ui.trace.loaded import open_pages
from ragrounds.ui.trace.themes import DARK as DARK
from ragrounds.ui.trace.themes import LIGHT as LIGHT
from ragrounds.ui.trace.themes import THEMES
from ragrounds.ui.trace.view import ATTEMPTS, ViewScreen, all_views


class TraceApp(App[None]):
    """Trace viewer of the runs of some pages, or of a whole store, which opens with the home screen.

    Args:
        source: runs whose attempts are listed first, or a store, for which the home screen is shown.
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
        source: Pages | Store,
        *,
        where: str = "",
        sort: SortBy = "asked",
        row: int = 0,
        theme: str = DARK,
        view: str = ATTEMPTS.name,
        author: str = "reader",
    ) -> None:
        super().__init__()
        for app_theme in THEMES:
            self.register_theme(app_theme)
        self.store, pages = (source, None) if isinstance(source, Store) else (source.store, source)
        self.scorers = pages.asked if pages else ()
        """Scorers that a user named, by preference."""
        self.attempt_list: AttemptList | None = None
        self.author, self.theme, self._view = author, theme, view
        if pages is not None:
            self.attempt_list = self._listed(pages, where, sort)
            self.attempt_list.move(row)

    @staticmethod
    def _listed(pages: Pages, where: str, sort: SortBy) -> AttemptList:
        attempt_list = AttemptList(pages)
        attempt_list.arrange(attempt_list.make_order(where, sort), where, sort)
        return attempt_list

    def get_default_screen(self) -> Screen[int | None]:
        """Return the home screen, or the main screen over the attempt list."""
        return (
            BrowseScreen(self.attempt_list, self.author)
            if self.attempt_list
            else HomeScreen(self.store, self.open_runs)
        )

    def on_mount(self) -> None:
        """Open the view that was requested."""
        if self._view != ATTEMPTS.name:
            self.call_after_refresh(self.action_view, self._view)

    def open_runs(self, runs: Sequence[Run], view: str, where: str = "") -> None:
        """List the attempts of runs over the home, and open a view of them."""
        self.attempt_list = self._listed(open_pages(self.store, runs, self.scorers), where, "asked")
        self.push_screen(BrowseScreen(self.attempt_list, self.author))
        if view != ATTEMPTS.name:
            self.call_after_refresh(self.action_view, view)

    def action_home(self) -> None:
        """Go to the home screen. If the viewer was opened for some runs, a home screen with all runs is added."""
        while len(self.screen_stack) > 1 and not isinstance(self.screen, HomeScreen):
            self.pop_screen()
        if not isinstance(self.screen, HomeScreen):
            self.push_screen(HomeScreen(self.store, self.open_runs))

    async def action_view(self, name: str, at_cursor: bool = False) -> None:
        """Show the same attempts in another view; if `at_cursor`, at the attempt under the cursor."""
        if isinstance(self.screen, HomeScreen):
            await self.screen.action_view(name)
            return
        index: int | None = None
        while not isinstance(self.screen, BrowseScreen):
            if index is None and isinstance(self.screen, ViewScreen):
                index = self.screen.place_here()
            self.pop_screen()
        self.browse.open_place(index)
        current = self.browse.attempt_list.current
        self.browse.open_view(name, *([current.index] if at_cursor and current else []))

    @property
    def browse(self) -> BrowseScreen:
        """Main screen, the topmost one of its kind."""
        return next(screen for screen in reversed(self.screen_stack) if isinstance(screen, BrowseScreen))

    async def action_filter(self) -> None:
        """Open the filter line over the current screen."""
        await self.browse.action_filter()

    def action_help(self) -> None:
        """Show or hide the keys of the focused pane."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def action_light(self) -> None:
        """Change between light and dark."""
        self.theme = DARK if self.theme == LIGHT else LIGHT

    async def on_event(self, event: Event) -> None:
        """Clear notifications at each key: they concern the screen on which they appeared."""
        if isinstance(event, Key):
            self.clear_notifications()
        await super().on_event(event)

    async def action_quit(self) -> None:
        """Clear the screen, then end the viewer. If the terminal was resized, tmux would keep the old content."""
        if self._driver is not None:
            self._driver.write("\x1b[2J\x1b[H")
        await super().action_quit()
