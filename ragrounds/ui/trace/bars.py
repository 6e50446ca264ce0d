"""First and last line of a screen: the views with the current position, and the keys that apply."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.widget import Widget

from ragrounds.ui.text import one_line

_NAMED = 100
"""Columns from which on every view is named, also if the text is cut."""


class TopLine(Widget, can_focus=False):
    """Line of the views with their keys, followed by a text: position of the cursor, filter, scorer."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"top--here"}  # noqa: RUF012 (as Widget declares it)
    DEFAULT_CSS = """
    TopLine {
        height: 1; background: $panel; color: $foreground;
        & > .top--here { color: $text-accent; text-style: bold underline; }
    }
    """

    def __init__(self, view: str) -> None:
        super().__init__(id="where")
        self.view = view
        self.text = ""
        """Text that follows the views."""

    def tell(self, *parts: str) -> None:
        """Show these parts, the most important first: the last ones are cut if the line is too short."""
        self.text = " · ".join(part for part in parts if part)
        self.refresh()

    def render(self) -> Text:
        """Render the views and as much of the text as fits.

        On a narrow line the other views have only their number, unless all names fit.
        """
        line = Text(no_wrap=True, overflow="crop")
        views = [
            (binding.key, name)
            for binding in self.app.BINDINGS
            if isinstance(binding, Binding) and (name := (binding.id or "").removeprefix("view.")) != binding.id
        ]
        # Three blanks come before the text, and a cell after it stays free.
        needed = sum(len(f" {key} {name}") for key, name in views) + 3 + cell_len(self.text) + 1
        is_named = self.size.width >= min(_NAMED, needed)
        for key, name in views:
            look = self.get_component_rich_style("top--here", partial=True) if name == self.view else ""
            line.append(f" {key} ").append(name if is_named or name == self.view else "", look)
        return line.append("   ").append(one_line(self.text, max(1, self.size.width - line.cell_len - 1)))


class KeyBar(Widget, can_focus=False):
    """Bar of the keys that the focused pane shows, as many as fit; always with `?`, which lists the others.

    It is one line of text: Textual's Footer mounts a widget for each key whenever the focus moves, which takes longer
    than everything else that Tab does.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"bar--key"}  # noqa: RUF012 (as Widget declares it)
    DEFAULT_CSS = """
    KeyBar {
        height: 1; dock: bottom; background: $panel; color: $foreground;
        & > .bar--key { color: $text-accent; text-style: bold; }
    }
    """

    def on_mount(self) -> None:
        """Refresh when the focus changes."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def visible_bindings(self) -> list[tuple[Binding, str]]:
        """Return the bindings that apply now, each with its key and description; the help is last."""
        active = [
            active_binding.binding
            for active_binding in self.screen.active_bindings.values()
            if active_binding.enabled and active_binding.binding.show
        ]
        by_action: dict[str, Binding] = {}
        for binding in sorted(active, key=lambda binding: binding.action == "help"):
            by_action.setdefault(binding.action, binding)
        return [
            (binding, f"{self.app.get_key_display(binding)} {binding.description}") for binding in by_action.values()
        ]

    def fitting(self) -> list[tuple[Binding, str]]:
        """Return as many of the bindings as fit; the last one is always included."""
        *keys, help = self.visible_bindings() or [(Binding("", "", ""), "")]
        room = self.size.width - cell_len(help[1]) - 3
        while keys and sum(cell_len(words) + 2 for _, words in keys) > room:
            keys.pop()
        return [*keys, help]

    def render(self) -> Text:
        """Render the keys with their descriptions."""
        line, look = Text(" ", no_wrap=True, overflow="crop"), self.get_component_rich_style("bar--key", partial=True)
        for binding, words in self.fitting():
            key_label = self.app.get_key_display(binding)
            line.append(key_label, look).append(words.removeprefix(key_label)).append("  ")
        return line

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        left = 1
        for binding, words in self.fitting():
            if left <= event.x < left + cell_len(words):
                self.app.simulate_key(binding.key)
            left += cell_len(words) + 2
