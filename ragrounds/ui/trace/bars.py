"""The first and the last line of a screen: which view this is and where one is in it, and the keys that apply here."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.screen import Screen
from textual.widget import Widget

from ragrounds.ui.text import one_line

_NAMED = 100
"""Columns from which on every view has its name."""


class TopLine(Widget, can_focus=False):
    """The views with their keys, then a text: where the cursor is, what is listed, by which scorer."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"top--here"}  # noqa: RUF012 (as Widget declares it)
    DEFAULT_CSS = """
    TopLine {
        height: 1; background: $panel; color: $foreground;
        & > .top--here { color: $text-accent; text-style: bold underline; }
    }
    """

    def __init__(self, view: str, id: str = "where") -> None:
        super().__init__(id=id)
        self.view = view
        self.text = ""
        """What stands beside the views."""

    def tell(self, *parts: str) -> None:
        """Show these parts, the most important first: the last ones are cut where there is no room."""
        self.text = " · ".join(part for part in parts if part)
        self.refresh()

    def render(self) -> Text:
        """The views, on a narrow line the others by their numbers alone, and as much of the text as has room."""
        line = Text(no_wrap=True, overflow="crop")
        for one in self.app.BINDINGS:
            if isinstance(one, Binding) and (name := (one.id or "").removeprefix("view.")) != one.id:
                here = name == self.view
                look = self.get_component_rich_style("top--here", partial=True) if here else ""
                line.append(f" {one.key} ").append(name if here or self.size.width >= _NAMED else "", look)
        return line.append("   ").append(one_line(self.text, max(1, self.size.width - line.cell_len - 1)))


class KeyBar(Widget, can_focus=False):
    """The keys of the pane with the focus that their bindings show, as many as fit; `?`, which has the others, always
    does. One line that is drawn anew: Textual's Footer mounts a widget for each key whenever the focus moves, which
    takes longer than all else that Tab does."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"bar--key"}  # noqa: RUF012 (as Widget declares it)
    DEFAULT_CSS = """
    KeyBar {
        height: 1; dock: bottom; background: $panel; color: $foreground;
        & > .bar--key { color: $text-accent; text-style: bold; }
    }
    """

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, _: Screen[object]) -> None:
        self.refresh()

    def shown(self) -> list[tuple[Binding, str]]:
        """The bindings that apply now, each with how its key is written and what it does; the help last."""
        active = [one.binding for one in self.screen.active_bindings.values() if one.enabled and one.binding.show]
        found: dict[str, Binding] = {}
        for one in sorted(active, key=lambda one: one.action == "help"):
            found.setdefault(one.action, one)
        return [(one, f"{self.app.get_key_display(one)} {one.description}") for one in found.values()]

    def fitting(self) -> list[tuple[Binding, str]]:
        """As many of them as there is room for, the last one in any case."""
        *keys, help = self.shown() or [(Binding("", "", ""), "")]
        room = self.size.width - cell_len(help[1]) - 3
        while keys and sum(cell_len(words) + 2 for _, words in keys) > room:
            keys.pop()
        return [*keys, help]

    def render(self) -> Text:
        """The keys with their words."""
        line, look = Text(" ", no_wrap=True, overflow="crop"), self.get_component_rich_style("bar--key", partial=True)
        for binding, words in self.fitting():
            written = self.app.get_key_display(binding)
            line.append(written, look).append(words.removeprefix(written)).append("  ")
        return line

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        at = 1
        for binding, words in self.fitting():
            if at <= event.x < at + cell_len(words):
                self.app.simulate_key(binding.key)
            at += cell_len(words) + 2
