"""What is laid over a screen: the help with all keys, the line in which a search is typed, menus and lists to tick."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct
from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Label

from ragrounds.evals.store.filter_fields import EXAMPLES
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.bars import KeyBar, KeysShown
from ragrounds.ui.trace.layout import Cells, TextBlock, fit
from ragrounds.ui.trace.widgets import Pager, Rows, type_early

ResultT = TypeVar("ResultT")

LEGEND = (
    "✓ right   ✗ wrong   ½ partly right   ! failed   ^ capped   = paused",
    "x blocked or refused   ~ abstained   ? unreadable   0 empty",
    "- not scored   · not run yet",
)
"""The signs of :func:`ragrounds.ui.trace.attempt_list.mark`."""


_TOPICS = {
    "views": ("view.", "compare"),
    "move": ("rows.", "detail.", "focus", "wrong.", "error."),
    "find and list": ("find", "match.", "filter", "sort", "clear", "text.", "mark", "note"),
    "steps and detail": ("fold", "bars", "markdown", "zoom", "copy", "editor", "reload"),
    "this screen": ("menu.",),
}
"""Topics of the help, with what the ids of their keys begin with. Each view has one; what fits none is the viewer's."""


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
        for name, under in self._topics(rows).items():
            lines += [TextBlock(name, "heading")]
            lines += [TextBlock(f"{fit(key.keys, 16)} {fit(key.description, 32)} {key.id}") for key in under]
        filters = any(key.id == "filter" for key in self.known)
        examples = [one for one in EXAMPLES if filters and wanted in " ".join(("filter", *one)).casefold()]
        lines += [TextBlock("filters by example (f)", "heading")] if examples else []
        for where, about in examples:
            lines += [TextBlock(where, "key"), TextBlock(about, "dim", indent=4)]
        if not wanted:
            lines += [TextBlock("signs", "heading")] + [TextBlock(line, "dim") for line in LEGEND]
        self.query_one(Pager).show(lines or [TextBlock("No key does this.", "dim")])

    def _topics(self, rows: Iterable[KeyHelp]) -> dict[str, list[KeyHelp]]:
        """The keys by topic, without topics that have none."""
        views = [key.id.removeprefix("view.") for key in self.known if key.id.startswith("view.")]
        starts = {**_TOPICS, **{name: (f"{name}.",) for name in views}}
        made: dict[str, list[KeyHelp]] = {name: [] for name in (*starts, "viewer")}
        for key in rows:
            fitting = [(len(one), name) for name, ones in starts.items() for one in ones if key.id.startswith(one)]
            made[max(fitting)[1] if fitting else "viewer"].append(key)
        return {name: under for name, under in made.items() if under}

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


class MenuLine(Struct, frozen=True):
    """A line of a menu."""

    value: str
    """What choosing it gives."""
    label: str
    about: str = ""
    letter: str = ""
    """The key that chooses it at once."""
    sign: str = "  "
    """What stands before it: that it is what is chosen now."""


def letters(names: Sequence[str], taken: str) -> list[str]:
    """A letter of each name that no other has and that is not `taken`; empty where none is left."""
    given: list[str] = []
    for name in names:
        free = (
            one for one in (*name.lower(), *name.upper()) if one.isalpha() and one not in taken and one not in given
        )
        given.append(next(free, ""))
    return given


class BoxScreen(ModalScreen[ResultT]):
    """Lines in a box over a screen, and the keys below. Escape leaves it: then it gives ``None``."""

    DEFAULT_CSS = """
    BoxScreen {
        align: center middle;
        & > Vertical { width: 62; max-width: 96%; height: auto; max-height: 90%; border: round $accent;
                       background: $surface; }
        & Rows { height: auto; background: $surface; border: none; padding: 0 1; &:focus { border: none; } }
    }
    """

    def __init__(self, title: str, count: int, at: int = 0) -> None:
        super().__init__()
        self._box_title, self._count, self._at = title, count, at

    def compose(self) -> ComposeResult:
        """The lines in a box, and the keys below."""
        with Vertical() as box:
            box.border_title = self._box_title
            yield Rows(self._row, id="lines", title="")
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin on the line that was asked for."""
        rows = self.query_one(Rows)
        rows.styles.height = min(self._count, max(3, self.app.size.height - 6))
        rows.show(self._count, self._at)
        rows.focus()

    def _row(self, row: int, width: int) -> Cells:
        raise NotImplementedError

    def action_leave(self) -> None:
        """Close the box; nothing changes."""
        self.dismiss(None)


class MenuScreen(BoxScreen[str | None]):
    """Chooses one line; ``None``: none was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Leave", id="menu.leave"),
    ]
    KEYS_SHOWN: ClassVar[KeysShown] = {"": (("rows.open", "choose"), ("menu.leave", "leave"))}

    def __init__(self, title: str, lines: Sequence[MenuLine], at: int = 0) -> None:
        super().__init__(title, len(lines), at)
        self.menu_lines = tuple(lines)

    def _row(self, row: int, width: int) -> Cells:
        line = self.menu_lines[row]
        room = max(4, width - 6)
        label = min(room, max((len(one.label) for one in self.menu_lines), default=0) + 2)
        return [
            (fit(line.letter, 2), "key"),
            (fit(line.sign, 3), "right"),
            (fit(one_line(line.label, room), label), "plain"),
            (fit(one_line(line.about, 200), room - label), "dim"),
        ]

    @on(Rows.Chosen)
    def _chosen(self, event: Rows.Chosen) -> None:
        event.stop()
        self.dismiss(self.menu_lines[event.row].value)

    def on_key(self, event: events.Key) -> None:
        """Choose the line that has this letter."""
        for line in self.menu_lines:
            if line.letter and event.character == line.letter:
                event.stop()
                self.dismiss(line.value)
                return


class PickScreen(BoxScreen[tuple[int, ...] | None]):
    """Lines to tick. It ends with the places of those that are ticked, or with ``None`` where it was left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "tick", "Tick, or no longer", id="pick.tick"),
        Binding("a", "tick_all", "Tick all, or none", id="pick.all"),
        Binding("enter", "take", "Take what is ticked", priority=True, id="pick.take"),
        Binding("escape,q", "leave", "Leave", id="pick.leave"),
    ]
    KEYS_SHOWN: ClassVar[KeysShown] = {
        "": (("pick.take", "take"), ("pick.tick", "tick"), ("pick.all", "all or none"), ("pick.leave", "leave"))
    }

    def __init__(self, title: str, lines: Sequence[str], chosen: Collection[int]) -> None:
        super().__init__(title, len(lines))
        self.lines, self.chosen = tuple(lines), set(chosen)

    def _row(self, row: int, width: int) -> Cells:
        sign = "[x] " if row in self.chosen else "[ ] "
        return [(sign, "right"), (fit(one_line(self.lines[row], 200), max(0, width - 4)), "plain")]

    @on(Rows.Chosen)
    def _clicked(self, event: Rows.Chosen) -> None:
        event.stop()
        self.action_tick()

    def action_tick(self) -> None:
        """Tick the line under the cursor, or no longer."""
        self.chosen ^= {self.query_one(Rows).row}
        self.query_one(Rows).refresh()

    def action_tick_all(self) -> None:
        """Tick all lines; where all are, none."""
        every = set(range(len(self.lines)))
        self.chosen = set() if self.chosen == every else every
        self.query_one(Rows).refresh()

    def action_take(self) -> None:
        """End with what is ticked."""
        self.dismiss(tuple(sorted(self.chosen)))
