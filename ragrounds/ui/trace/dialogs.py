"""What is laid over a screen: the help with all keys, the filter, and the line in which a search is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from textual import on, work
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Label

from ragrounds.evals.store.attempt_filter import FlagTest, ValueTest, joined, parse, quoted
from ragrounds.evals.store.summaries import MARKS
from ragrounds.records import OUTCOMES, Run
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.layout import Cells, TextBlock, fit
from ragrounds.ui.trace.widgets import Pager, Rows

LEGEND = (
    "✓ right   ✗ wrong   ½ partly right   ! failed   ^ capped   = paused",
    "x blocked or refused   ~ abstained   ? unreadable   0 empty",
    "- not scored   · not run yet",
)
"""The signs of :func:`ragrounds.ui.trace.attempt_list.mark`."""


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
        self.query_one(Input).focus()
        self._fill("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def _fill(self, text: str) -> None:
        wanted = text.casefold()
        rows = [key for key in self.known if wanted in f"{key.keys} {key.description} {key.id}".casefold()]
        lines = [TextBlock(f"{fit(key.keys, 16)} {fit(key.description, 32)} {key.id}") for key in rows]
        if not wanted:
            lines += [TextBlock("")] + [TextBlock(line, "dim") for line in LEGEND]
        self.query_one(Pager).show(lines or [TextBlock("No key does this.", "dim")])

    def action_scroll(self, by: int) -> None:
        """Scroll the keys by lines."""
        self.query_one(Pager).scroll_relative(y=by, animate=False)

    def action_leave(self) -> None:
        """Close the help."""
        self.dismiss(None)


class FilterChoice(Struct, frozen=True):
    """A line of the filter: a mark, an outcome, a run or a subject, and how many attempts have it."""

    kind: str
    value: str
    label: str
    count: int | None = None


def choices(runs: Sequence[Run], outcomes: Mapping[str, int], subjects: Mapping[str, int]) -> list[FilterChoice]:
    """Everything that can be chosen; subjects and counts where they are known."""
    return [
        *(FilterChoice("mark", name, f"{name}, by its score") for name in MARKS),
        *(FilterChoice("outcome", name, name, outcomes.get(name)) for name in OUTCOMES),
        *(FilterChoice("run", run.id, f"agent {run.agent}") for run in runs),
        *(FilterChoice("subject", name, f"subject {name}", count) for name, count in sorted(subjects.items())),
    ]


def chosen_in(where: str) -> set[tuple[str, str]]:
    """The choices that a filter of :func:`chosen_text` holds."""
    wanted = parse(where)
    found: set[tuple[str, str]] = set()
    for test in wanted.tests() if wanted else ():
        if isinstance(test, FlagTest) and test.field in MARKS:
            found.add(("mark", test.field))
        elif isinstance(test, ValueTest) and test.field in ("status", "run", "subject"):
            found.add(("outcome" if test.field == "status" else test.field, test.value))
    return found


def chosen_text(chosen: Iterable[tuple[str, str]]) -> str:
    """Choices as a filter: of each kind any, of all kinds one."""
    written: dict[str, list[str]] = {}
    for kind, value in sorted(chosen):
        field = "status" if kind == "outcome" else kind
        written.setdefault(kind, []).append(value if kind == "mark" else f"{field}={quoted(value)}")
    return joined(*(" or ".join(each) for each in written.values()))


class FilterScreen(ModalScreen[str | None]):
    """Chooses by marks, outcomes, agents and subjects which attempts are listed.

    Subjects and counts are shown as soon as they have been counted.
    """

    DEFAULT_CSS = """
    FilterScreen {
        align: center middle;
        & > Vertical { width: 64; max-width: 95%; height: 90%; border: round $accent; background: $surface; }
        & Label { padding: 0 1; color: $foreground 70%; }
        & Rows { height: 1fr; background: $surface; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "choose", "Choose", id="filter.choose"),
        Binding("enter", "apply", "Apply", priority=True, id="filter.apply"),
        Binding("escape", "leave", "Leave", id="filter.leave"),
        Binding("backspace", "none", "Choose none", id="filter.none"),
    ]

    def __init__(self, attempt_list: AttemptList) -> None:
        super().__init__()
        self.attempt_list = attempt_list
        self.chosen = chosen_in(attempt_list.where)
        self.choices = choices(attempt_list.pages.runs, {}, {})

    def compose(self) -> ComposeResult:
        """A list of everything that can be chosen, under what the keys do."""
        with Vertical() as box:
            box.border_title = "filter"
            yield Label("Space chooses, Enter applies, Backspace empties.\nNothing chosen of a kind: all of it.")
            yield Rows(self._row, id="choices", title="")

    def on_mount(self) -> None:
        """Show what is known at once, and count the rest in another thread."""
        self.query_one(Rows).focus()
        self._fill()
        self._count()

    @work(thread=True, exclusive=True, group="filter")
    def _count(self) -> None:
        pages = self.attempt_list.pages
        totals: dict[str, int] = {}
        for outcomes in pages.counts().values():
            for name, count in outcomes.items():
                totals[name] = totals.get(name, 0) + count
        found = choices(pages.runs, totals, pages.subjects())
        self.app.call_from_thread(self._counted, found)

    def _counted(self, found: list[FilterChoice]) -> None:
        self.choices = found
        self._fill()

    def _fill(self) -> None:
        rows = self.query_one(Rows)
        rows.show(len(self.choices), rows.row, keep_scroll=True)

    def _row(self, row: int, width: int) -> Cells:
        choice = self.choices[row]
        count = "" if choice.count is None else f"{choice.count:,}"
        sign = "[x] " if (choice.kind, choice.value) in self.chosen else "[ ] "
        room = max(0, width - 4 - 9)
        return [(sign, "right"), (fit(one_line(choice.label, 200), room), "plain"), (fit(count, 9, right=True), "dim")]

    @on(Rows.Chosen)
    def _clicked(self, event: Rows.Chosen) -> None:
        event.stop()
        self.action_choose()

    def action_choose(self) -> None:
        """Choose the line under the cursor, or no longer."""
        choice = self.choices[self.query_one(Rows).row]
        self.chosen ^= {(choice.kind, choice.value)}
        self.query_one(Rows).refresh()

    def action_none(self) -> None:
        """Choose nothing, which lists everything."""
        self.chosen.clear()
        self.query_one(Rows).refresh()

    def action_leave(self) -> None:
        """Close the dialog; the list stays as it was."""
        self.dismiss(None)

    def action_apply(self) -> None:
        """Close the dialog with the filter that was chosen."""
        self.dismiss(chosen_text(self.chosen))


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
        line.focus()

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
