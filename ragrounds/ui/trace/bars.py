"""The first and the last line of a screen: which view this is and where one is in it, and the keys that apply here.

Neither is ever cut in the middle of a word: what has no room is left out whole, and `?` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.screen import Screen
from textual.widget import Widget

from ragrounds.ui.text import one_line

_ALWAYS = ("help",)
_NAMED = 110
"""Columns from which on every view has its name, whatever else is to be told."""
_APART = 2
"""Cells between two keys."""

KeysShown = Mapping[str, Sequence[tuple[str, str]]]
"""Id of a focused widget → ids of bindings with a short word for each, the most wanted first; ``""``: any other."""


class _Line(Widget, can_focus=False):
    """A line of parts of which some can be clicked."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"bar--key", "bar--here"}
    DEFAULT_CSS = """
    _Line {
        height: 1; background: $panel; color: $foreground;
        & > .bar--key { color: $text-accent; text-style: bold; }
        & > .bar--here { color: $text-accent; text-style: bold underline; }
    }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._places: list[tuple[int, int, str]] = []
        """Begin and end in cells, and the key that a click there presses."""

    def style_of(self, name: str) -> Style:
        """How a key or the name of this view looks."""
        return self.get_component_rich_style(f"bar--{name}", partial=True)

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        for begin, end, key in self._places:
            if begin <= event.x < end:
                self.app.simulate_key(key)


class TopLine(_Line):
    """The views with their keys, then a text: where the cursor is, what is listed, by which scorer."""

    def __init__(self, view: str, id: str = "where") -> None:
        super().__init__(id=id)
        self.view = view
        self._parts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What stands beside the views."""
        return " · ".join(self._parts)

    def tell(self, *parts: str) -> None:
        """Show these parts, the most important first: the last ones go where there is no room."""
        self._parts = tuple(part for part in parts if part)
        self.refresh()

    def render(self) -> Text:
        """The views and as many parts as there is room for; where a narrow line has no room for all, the other views
        are numbers alone."""
        width = self.size.width
        bound = ((one.key, (one.id or "").split(".")) for one in self.app.BINDINGS if isinstance(one, Binding))
        views = [(key, id[1]) for key, id in bound if id[0] == "view"]
        named = sum(len(key) + len(name) + 3 for key, name in views)
        short = width < _NAMED and named + sum(cell_len(part) + 3 for part in self._parts) > width
        line, self._places = Text(" ", no_wrap=True, overflow="crop"), []
        for key, name in views:
            begin, here = line.cell_len, name == self.view
            line.append(key, self.style_of("key"))
            if here or not short:
                line.append(" ")
                line.append(name, self.style_of("here") if here else None)
            self._places.append((begin, line.cell_len, key))
            line.append("  ")
        line.append("  " if width >= 100 else "")
        for number, part in enumerate(self._parts):
            room = width - line.cell_len - 1
            joint = " · " if number else ""
            if cell_len(joint + part) > room:
                if room > 12 + len(joint):
                    line.append(joint + one_line(part, room - len(joint)))
                break
            line.append(joint + part)
        return line


class KeyBar(_Line):
    """The keys of the pane with the focus, each with a word; `?` at the end has the others."""

    DEFAULT_CSS = "KeyBar { dock: bottom; }"

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def on_unmount(self) -> None:
        """Follow it no longer."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _changed(self, _: Screen[object]) -> None:
        self.refresh()

    def shown(self) -> list[tuple[str, str, str]]:
        """Key, how it is written, and its word, for what applies now, the most wanted first."""
        known: dict[str, Binding] = {}
        active = [one.binding for one in self.screen.active_bindings.values() if one.enabled]
        for binding in sorted(active, key=lambda one: not one.id):
            known.setdefault(binding.id or binding.action, binding)
        shown: KeysShown = getattr(self.screen, "KEYS_SHOWN", {})
        focused = self.screen.focused
        chosen = list(shown.get(focused.id or "" if focused else "", shown.get("", ())))
        if not chosen:
            chosen = [(name, binding.description) for name, binding in known.items() if binding.show]
        chosen += [(name, "keys") for name in _ALWAYS if name not in dict(chosen)]
        return [
            (known[name].key, self.app.get_key_display(known[name]), word or known[name].description)
            for name, word in chosen
            if name in known
        ]

    def render(self) -> Text:
        """As many keys as fit; the last one, `?`, always does."""
        width = self.size.width
        keys = self.shown()
        sizes = [cell_len(written) + 1 + cell_len(word) + _APART for _, written, word in keys]
        while len(keys) > 1 and sum(sizes) + 1 > width:
            at = len(keys) - 2
            del keys[at], sizes[at]
        line, self._places = Text(" ", no_wrap=True, overflow="crop"), []
        for key, written, word in keys:
            begin = line.cell_len
            line.append(written, self.style_of("key"))
            line.append(f" {word}")
            self._places.append((begin, line.cell_len, key))
            line.append(" " * _APART)
        return line
