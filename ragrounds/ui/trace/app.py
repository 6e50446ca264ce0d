"""The application: opens the main screen, knows themes, keys, help, the command palette and the user's own keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ragrounds.errors import UserError, nearest
from ragrounds.evals.store.summaries import Pages, SortBy
from ragrounds.text import parse_toml
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.compare import CompareScreen
from ragrounds.ui.trace.dialogs import FilterScreen, FindBar, HelpScreen, key_help
from ragrounds.ui.trace.menu import MenuScreen
from ragrounds.ui.trace.themes import DARK as DARK
from ragrounds.ui.trace.themes import LIGHT as LIGHT
from ragrounds.ui.trace.themes import THEMES
from ragrounds.ui.trace.views import known_views, view_screen
from ragrounds.ui.trace.widgets import Pager, Rows


class TraceApp(App[None]):
    """The trace viewer of the runs of some pages."""

    TITLE = "ragrounds trace"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "view('attempts')", "Attempts and their steps", id="view.attempts", show=False),
        Binding("2", "view('hops')", "Hops of each attempt", id="view.hops", show=False),
        Binding("3", "view('grid')", "Grid: questions × agents", id="view.grid", show=False),
        Binding("4", "view('compare')", "Compare two answers", id="view.compare", show=False),
        Binding("question_mark", "help", "Keys", id="help", key_display="?"),
        Binding("t", "light", "Light or dark", id="theme", show=False),
        Binding("q", "quit", "Quit", id="quit"),
    ]

    def __init__(
        self,
        pages: Pages,
        *,
        where: str = "",
        sort: SortBy = "asked",
        row: int = 0,
        theme: str = DARK,
        keymap: Mapping[str, str] | None = None,
        view: str = "attempts",
    ) -> None:
        super().__init__()
        for each in THEMES:
            self.register_theme(each)
        self.attempt_list = AttemptList(pages)
        order = self.attempt_list.make_order(where, sort)
        self.attempt_list.arrange(order, where, sort)
        self.attempt_list.move(row)
        self.theme = theme
        self._view = view
        if keymap:
            self.set_keymap(dict(keymap))

    def get_default_screen(self) -> Screen[None]:
        """The main screen over the attempt list."""
        return BrowseScreen(self.attempt_list)

    def on_mount(self) -> None:
        """Open the view that was asked for."""
        if self._view != "attempts":
            self.call_after_refresh(self.action_view, self._view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action can be taken now: a view that is not there is not offered."""
        return action != "view" or parameters[:1] == () or parameters[0] in known_views()

    def action_view(self, name: str) -> None:
        """Show the same attempts in another view."""
        while len(self.screen_stack) > 1 and not isinstance(self.screen, BrowseScreen):
            self.pop_screen()
        browse = self.screen
        if isinstance(browse, BrowseScreen) and name != "attempts":
            opened = browse.compare_screen() if name == "compare" else view_screen(name, self.attempt_list)
            if opened is not None:
                self.push_screen(opened, lambda index: browse.open_place(index, getattr(opened, "chosen_step", "")))

    def action_help(self) -> None:
        """Show the keys of this screen."""
        active = self.screen.active_bindings.values()
        written = {one.binding.key: self.get_key_display(one.binding) for one in active}
        self.push_screen(HelpScreen(key_help(active, written)))

    def action_light(self) -> None:
        """Change between light and dark."""
        self.theme = DARK if self.theme == LIGHT else LIGHT

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key with a description is also a command of the palette, the cursor's own apart."""
        yield from super().get_system_commands(screen)
        listed: set[str] = set()
        for active in screen.active_bindings.values():
            binding, node = active.binding, active.node
            if not binding.description or binding.action in listed or (binding.id or "").startswith("rows."):
                continue
            listed.add(binding.action)

            async def _run(action: str = binding.action, owner: object = node) -> None:
                await self.run_action(action, owner)  # type: ignore[arg-type]

            yield SystemCommand(binding.description, f"key {self.get_key_display(binding)}", _run)


def read_keymap(file: Path) -> dict[str, str]:
    """The user's own keys: the id of a key → keys, separated by commas; empty where there is no file.

    Raises:
        UserError: not TOML, a value that is not text, or an id that no binding has.
    """
    try:
        found = parse_toml(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read {file}: {error}") from error
    known = sorted({binding.id for binding in bindings() if binding.id})
    for name, value in found.items():
        if name not in known:
            raise UserError(f"{file}: unknown key id {name!r}.{nearest(name, known)} `?` in the viewer lists all.")
        if not isinstance(value, str):
            raise UserError(f'{file}: {name} = {value!r} is not text; expected keys such as "ctrl+f,f3".')
    return found


def bindings() -> list[Binding]:
    """Every key of the viewer, on all its screens."""
    from ragrounds.ui.trace.grid_pane import GridPane
    from ragrounds.ui.trace.grid_screen import GridScreen
    from ragrounds.ui.trace.pick import PickScreen

    owners = (TraceApp, BrowseScreen, CompareScreen, FilterScreen, FindBar, HelpScreen, MenuScreen, Rows, Pager)
    of_grid = (GridScreen, GridPane, PickScreen)
    return [binding for owner in (*owners, *of_grid) for binding in owner.BINDINGS if isinstance(binding, Binding)]
