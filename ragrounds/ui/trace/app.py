"""The application: opens the main screen, knows themes, keys, help, the command palette and the user's own keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.events import Event, Key
from textual.screen import Screen
from textual.widgets import HelpPanel

from ragrounds.errors import UserError, nearest
from ragrounds.evals.store.summaries import Pages, SortBy
from ragrounds.text import parse_toml
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.themes import DARK as DARK
from ragrounds.ui.trace.themes import LIGHT as LIGHT
from ragrounds.ui.trace.themes import THEMES
from ragrounds.ui.trace.view import ATTEMPTS, ViewScreen, all_views
from ragrounds.ui.trace.viewer_memory import ViewerMemory


class TraceApp(App[None]):
    """The trace viewer of the runs of some pages."""

    TITLE = "ragrounds trace"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(view.key, f"view('{view.name}')", view.title, id=f"view.{view.name}", show=False)
            for view in all_views().values()
        ),
        Binding("question_mark", "help", "Keys", id="help", key_display="?"),
        Binding("t", "light", "Light or dark, remembered", id="theme", show=False),
        Binding("q", "quit", "Quit", id="quit"),
    ]

    def __init__(
        self,
        pages: Pages,
        *,
        where: str = "",
        sort: SortBy = "asked",
        row: int = 0,
        theme: str = "",
        keymap: Mapping[str, str] | None = None,
        view: str = ATTEMPTS.name,
        memory: ViewerMemory | None = None,
        author: str = "reader",
    ) -> None:
        super().__init__()
        for each in THEMES:
            self.register_theme(each)
        self.attempt_list = AttemptList(pages)
        order = self.attempt_list.make_order(where, sort)
        self.attempt_list.arrange(order, where, sort)
        self.attempt_list.move(row)
        self.memory, self.author = memory or ViewerMemory(), author
        self.theme = theme or (self.memory.theme if self.memory.theme in (DARK, LIGHT) else DARK)
        self._view = view
        if keymap:
            self.set_keymap(dict(keymap))

    def get_default_screen(self) -> Screen[int | None]:
        """The main screen over the attempt list."""
        return BrowseScreen(self.attempt_list, self.memory, self.author)

    def on_mount(self) -> None:
        """Open the view that was asked for."""
        if self._view != ATTEMPTS.name:
            self.call_after_refresh(self.action_view, self._view)

    def action_view(self, name: str, here: bool = False) -> None:
        """Show the same attempts in another view; `here`: at this attempt, wherever the list stands."""
        place: int | None = None
        while len(self.screen_stack) > 1:
            if place is None and isinstance(self.screen, ViewScreen):
                place = self.screen.place_here()
            self.pop_screen()
        self.browse.open_place(place)
        current = self.attempt_list.current
        self.browse.open_view(name, *([current.index] if here and current else []))

    @property
    def browse(self) -> BrowseScreen:
        """The main screen."""
        main = self.screen_stack[0]
        assert isinstance(main, BrowseScreen)
        return main

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
        self.memory.take(theme=self.theme)

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

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key with a description is also a command of the palette, the cursor's own apart."""
        listed: set[str] = set()
        for active in screen.active_bindings.values():
            binding, node = active.binding, active.node
            cursor = (binding.id or "").startswith(("rows.", "detail."))
            if not active.enabled or not binding.description or binding.action in listed or cursor or not binding.id:
                continue
            listed.add(binding.action)

            async def _run(action: str = binding.action, owner: object = node) -> None:
                await self.run_action(action, owner)  # type: ignore[arg-type]

            about = f"key {self.get_key_display(binding)}, id {binding.id}"
            yield SystemCommand(binding.description, about, _run)
        yield SystemCommand(
            "Picture of this screen", "saved as SVG", lambda: self.set_timer(0.1, self.deliver_screenshot)
        )


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


def screens() -> list[type[DOMNode]]:
    """All that has keys of its own: the application, its screens, dialogs and panes."""
    room, found, owners = __package__, [], list(DOMNode.__subclasses__())
    for owner in owners:
        owners += [one for one in owner.__subclasses__() if one not in owners]
        if owner.__module__.startswith(room) and owner.__dict__.get("BINDINGS"):
            found.append(owner)
    return found


def bindings() -> list[Binding]:
    """Every key of the viewer, on all its screens."""
    return [binding for owner in screens() for binding in owner.BINDINGS if isinstance(binding, Binding)]
