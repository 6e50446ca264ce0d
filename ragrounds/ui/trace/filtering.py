"""The dialog that chooses which attempts are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label

from ragrounds.evals.store.outlines import MARKS, OUTCOMES, Filter
from ragrounds.records import Run
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.browsing import Browsing
from ragrounds.ui.trace.fitting import fit
from ragrounds.ui.trace.lines import Rows
from ragrounds.ui.trace.pieces import Cells


class Choice(Struct, frozen=True):
    """A line of the dialog."""

    kind: str
    value: str
    label: str
    count: int | None = None


def choices(runs: Sequence[Run], outcomes: Mapping[str, int], subjects: Mapping[str, int]) -> list[Choice]:
    """Everything that can be chosen; counts are told where they are known."""
    return [
        *(Choice("mark", name, f"{name}, by its score") for name in MARKS),
        *(Choice("outcome", name, name, outcomes.get(name)) for name in OUTCOMES),
        *(Choice("run", run.id, f"agent {run.agent}") for run in runs),
        *(Choice("subject", name, f"subject {name}", count) for name, count in sorted(subjects.items())),
    ]


class FilterScreen(ModalScreen[Filter | None]):
    """Marks, outcomes, agents and subjects; counts and subjects come in when they are known."""

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

    def __init__(self, browsing: Browsing) -> None:
        super().__init__()
        self.browsing = browsing
        wanted = browsing.filter
        self.chosen: set[tuple[str, str]] = {
            *(("mark", name) for name in wanted.marks),
            *(("outcome", name) for name in wanted.outcomes),
            *(("run", name) for name in wanted.runs),
            *(("subject", name) for name in wanted.subjects),
        }
        self.choices = choices(browsing.pages.runs, {}, {})

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "filter"
            yield Label("Space chooses, Enter applies, Backspace empties.\nNothing chosen of a kind: all of it.")
            yield Rows(self._row, id="choices", title="")

    def on_mount(self) -> None:
        self.query_one(Rows).focus()
        self._fill()
        self._count()

    @work(thread=True, exclusive=True, group="filter")
    def _count(self) -> None:
        pages = self.browsing.pages
        totals: dict[str, int] = {}
        for outcomes in pages.counts().values():
            for name, count in outcomes.items():
                totals[name] = totals.get(name, 0) + count
        found = choices(pages.runs, totals, pages.subjects())
        self.app.call_from_thread(self._counted, found)

    def _counted(self, found: list[Choice]) -> None:
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
        choice = self.choices[self.query_one(Rows).row]
        self.chosen ^= {(choice.kind, choice.value)}
        self.query_one(Rows).refresh()

    def action_none(self) -> None:
        self.chosen.clear()
        self.query_one(Rows).refresh()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_apply(self) -> None:
        def of(kind: str) -> frozenset[str]:
            return frozenset(value for name, value in self.chosen if name == kind)

        self.dismiss(Filter(of("run"), of("outcome"), of("subject"), of("mark"), self.browsing.filter.text))
