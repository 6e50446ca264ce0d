"""The application: opens the main screen, knows themes, keys, help and the command palette."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ragrounds.evals.store.outlines import Filter, SortBy
from ragrounds.evals.store.pages import Pages
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.browsing import Browsing
from ragrounds.ui.trace.help import HelpScreen, keys

DARK, LIGHT = "textual-dark", "textual-light"


class TraceApp(App[None]):
    """The trace viewer."""

    TITLE = "ragrounds trace"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Keys", id="help", key_display="?"),
        Binding("t", "light", "Light or dark", id="theme", show=False),
        Binding("q", "quit", "Quit", id="quit"),
    ]

    def __init__(
        self,
        pages: Pages,
        *,
        wanted: Filter | None = None,
        sort: SortBy = "asked",
        row: int = 0,
        theme: str = DARK,
        keymap: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.browsing = Browsing(pages)
        order = self.browsing.make_order(wanted or Filter(), sort)
        self.browsing.arrange(order, wanted or Filter(), sort)
        self.browsing.move(row)
        self.theme = theme
        if keymap:
            self.set_keymap(dict(keymap))

    def get_default_screen(self) -> Screen[None]:
        return BrowseScreen(self.browsing)

    def action_help(self) -> None:
        """Show the keys of this screen."""
        active = self.screen.active_bindings.values()
        written = {one.binding.key: self.get_key_display(one.binding) for one in active}
        self.push_screen(HelpScreen(keys(active, written)))

    def action_light(self) -> None:
        """Change between light and dark."""
        self.theme = DARK if self.theme == LIGHT else LIGHT

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        told: set[str] = set()
        for active in screen.active_bindings.values():
            binding, node = active.binding, active.node
            if not binding.description or binding.action in told or (binding.id or "").startswith("rows."):
                continue
            told.add(binding.action)

            async def run(action: str = binding.action, owner: object = node) -> None:
                await self.run_action(action, owner)  # type: ignore[arg-type]

            yield SystemCommand(binding.description, f"key {self.get_key_display(binding)}", run)
