"""What is laid over a screen: the help with all keys, the filter, and the line in which a search is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from msgspec import Struct
from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Label

from ragrounds.evals.store.filter_fields import EXAMPLES
from ragrounds.ui.trace.layout import TextBlock, fit
from ragrounds.ui.trace.widgets import Pager, type_early

LEGEND = (
    "✓ right   ✗ wrong   ½ partly right   ! failed   ^ capped   = paused",
    "x blocked or refused   ~ abstained   ? unreadable   0 empty",
    "- not scored   · not run yet",
)
"""The signs of :func:`ragrounds.ui.trace.attempt_list.mark`."""


TOPICS = {
    "views": ("view.", "compare"),
    "move": ("rows.", "detail.", "focus", "wrong.", "error."),
    "find and list": ("find", "match.", "filter", "sort", "clear", "text.", "mark", "note"),
    "steps and detail": ("fold", "bars", "markdown", "zoom", "copy", "editor", "reload"),
    "hops": ("hops.",),
    "grid": ("grid.",),
    "this screen": ("compare.", "menu."),
}
"""Topics of the help, with what the ids of their keys begin with; what fits none is the viewer's own."""


def topic(key: str) -> str:
    """The topic of a key by its id."""
    fitting = [(len(start), name) for name, starts in TOPICS.items() for start in starts if key.startswith(start)]
    return max(fitting)[1] if fitting and key else "viewer"


class KeyHelp(Struct, frozen=True):
    """A line of the help."""

    keys: str
    description: str
    id: str
    """The name by which `keys.toml` may give it another key."""


def key_help(bindings: Iterable[ActiveBinding], shown: dict[str, str]) -> list[KeyHelp]:
    """The keys of each action in a line, as `shown` says that a key is written."""
    written: dict[str, list[str]] = {}
    about: dict[str, KeyHelp] = {}
    for active in bindings:
        binding = active.binding
        if not binding.description or binding.system:
            continue
        action = binding.action.removeprefix("app.")
        written.setdefault(action, []).append(shown.get(binding.key, binding.key))
        if action not in about or binding.id:
            about[action] = KeyHelp("", binding.description, binding.id or "")
    return [
        KeyHelp(", ".join(dict.fromkeys(written[action])), key.description, key.id) for action, key in about.items()
    ]


class HelpScreen(ModalScreen[None]):
    """Every key of the screen from which help was asked, filtered while one types."""

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

    def __init__(self, known: list[KeyHelp]) -> None:
        super().__init__()
        self.known = known

    def compose(self) -> ComposeResult:
        """A line to type in above the keys."""
        with Vertical() as box:
            box.border_title = "keys"
            yield Input(placeholder="type to filter")
            yield Pager(id="keys", title="")

    def on_mount(self) -> None:
        """Show all keys."""
        self.set_focus(self.query_one(Input))
        self._fill("")

    def on_key(self, event: events.Key) -> None:
        """Take what is typed before the line has the focus."""
        type_early(self.query_one(Input), event)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def _fill(self, text: str) -> None:
        wanted = text.casefold()
        rows = [key for key in self.known if wanted in f"{key.keys} {key.description} {key.id}".casefold()]
        lines: list[TextBlock] = []
        for name in (*TOPICS, "viewer"):
            under = [key for key in rows if topic(key.id) == name]
            lines += [TextBlock(name, "heading")] if under else []
            lines += [TextBlock(f"{fit(key.keys, 16)} {fit(key.description, 32)} {key.id}") for key in under]
        filters = any(key.id == "filter" for key in self.known)
        examples = [one for one in EXAMPLES if filters and wanted in " ".join(("filter", *one)).casefold()]
        lines += [TextBlock("filters by example (f)", "heading")] if examples else []
        for where, about in examples:
            lines += [TextBlock(where, "key"), TextBlock(about, "dim", indent=4)]
        if not wanted:
            lines += [TextBlock("signs", "heading")] + [TextBlock(line, "dim") for line in LEGEND]
        self.query_one(Pager).show(lines or [TextBlock("No key does this.", "dim")])

    def action_scroll(self, by: int) -> None:
        """Scroll the keys by lines."""
        self.query_one(Pager).scroll_relative(y=by, animate=False)

    def action_leave(self) -> None:
        """Close the help."""
        self.dismiss(None)


class FindBar(Horizontal):
    """The line in which a search is typed, hidden until one begins. Enter searches, Escape leaves all as it was."""

    DEFAULT_CSS = """
    FindBar {
        height: 1; display: none; dock: bottom; background: $panel;
        & Label { padding: 0 1; }
        & Input { border: none; height: 1; width: 1fr; padding: 0; background: $panel; }
        & Input:focus { border: none; }
        &.-open { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", show=False, id="find.leave")]

    def __init__(self) -> None:
        super().__init__()
        self._found: Callable[[str], None] | None = None
        self._back: Widget | None = None

    def compose(self) -> ComposeResult:
        """A name of what is searched, and the line to type in."""
        yield Label("", markup=False)
        yield Input(select_on_focus=True, id="find-text")

    def ask(self, title: str, before: str, back: Widget | None, found: Callable[[str], None]) -> None:
        """Ask for a text; `found` is called with it, then `back` is focused again."""
        self._found, self._back = found, back
        self.query_one(Label).update(f"/ {title}:")
        line = self.query_one(Input)
        line.value = before
        self.add_class("-open")
        self.screen.set_focus(line)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_leave()
        if self._found is not None:
            self._found(event.value.strip())

    def action_leave(self) -> None:
        """Hide the line, and focus what was focused before."""
        self.remove_class("-open")
        if self._back is not None:
            self._back.focus()
