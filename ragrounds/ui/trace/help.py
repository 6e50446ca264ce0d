"""Help: every key of the screen it was asked from, filtered while one types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct
from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from ragrounds.ui.trace.fitting import fit
from ragrounds.ui.trace.pager import Pager
from ragrounds.ui.trace.pieces import Piece

LEGEND = (
    "✓ right   ✗ wrong   ½ partly right   ! failed   ^ capped   x refused",
    "~ abstained   ? could not be read   - not scored   · not run yet",
)


class Key(Struct, frozen=True):
    """A line of the help."""

    keys: str
    does: str
    id: str
    """By which `keys.toml` may give it another key."""


def keys(bindings: Iterable[ActiveBinding], shown: dict[str, str]) -> list[Key]:
    """What keys do, one line an action; `shown` says how a key is written."""
    written: dict[str, list[str]] = {}
    about: dict[str, Key] = {}
    for active in bindings:
        binding = active.binding
        if not binding.description or binding.system:
            continue
        action = binding.action.removeprefix("app.")
        written.setdefault(action, []).append(shown.get(binding.key, binding.key))
        if action not in about or binding.id:
            about[action] = Key("", binding.description, binding.id or "")
    return [Key(", ".join(dict.fromkeys(written[action])), key.does, key.id) for action, key in about.items()]


class HelpScreen(ModalScreen[None]):
    """All keys, with a filter."""

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > Vertical { width: 76; max-width: 96%; height: 90%; border: round $accent; background: $surface; }
        & Input { border: none; height: 1; padding: 0 1; background: $panel; &:focus { border: none; } }
        & Pager:focus { border: none; }
        & Pager { background: $surface; height: 1fr; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "leave", "Leave", priority=True, id="help.leave"),
        Binding("down", "scroll(1)", "Down", show=False, id="help.down"),
        Binding("up", "scroll(-1)", "Up", show=False, id="help.up"),
    ]

    def __init__(self, known: list[Key]) -> None:
        super().__init__()
        self.known = known

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "keys"
            yield Input(placeholder="type to filter")
            yield Pager(id="keys", title="")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._fill("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def _fill(self, text: str) -> None:
        wanted = text.casefold()
        rows = [key for key in self.known if wanted in f"{key.keys} {key.does} {key.id}".casefold()]
        lines = [Piece(f"{fit(key.keys, 16)} {fit(key.does, 32)} {key.id}") for key in rows]
        if not wanted:
            lines += [Piece("")] + [Piece(line, "dim") for line in LEGEND]
        self.query_one(Pager).show(lines or [Piece("No key does this.", "dim")])

    def action_scroll(self, by: int) -> None:
        self.query_one(Pager).scroll_relative(y=by, animate=False)

    def action_leave(self) -> None:
        self.dismiss(None)
