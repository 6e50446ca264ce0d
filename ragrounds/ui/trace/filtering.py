"""The dialog that chooses which attempts are listed."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, SelectionList
from textual.widgets.selection_list import Selection

from ragrounds.evals.store.outlines import MARKS, OUTCOMES, Filter
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.browsing import Browsing


class FilterScreen(ModalScreen[Filter | None]):
    """Marks, outcomes, agents and subjects; counts come in as they are known."""

    DEFAULT_CSS = """
    FilterScreen {
        align: center middle;
        & > Vertical { width: 64; max-width: 95%; height: 90%; border: round $accent; background: $surface; }
        & Label { padding: 0 1; color: $foreground 70%; }
        & SelectionList { height: 1fr; border: none; &:focus { border: none; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "apply", "Apply", priority=True, id="filter.apply"),
        Binding("escape", "leave", "Leave", id="filter.leave"),
        Binding("backspace", "none", "Choose none", id="filter.none"),
    ]

    def __init__(self, browsing: Browsing) -> None:
        super().__init__()
        self.browsing = browsing
        self._counted = False

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "filter"
            yield Label("Space chooses, Enter applies, Backspace empties. Nothing of a kind: all.")
            yield SelectionList[str]()

    def on_mount(self) -> None:
        self._fill({}, {})
        self.query_one(SelectionList).focus()
        self._count()

    @work(thread=True, exclusive=True, group="filter")
    def _count(self) -> None:
        pages = self.browsing.pages
        totals: dict[str, int] = {}
        for outcomes in pages.counts().values():
            for name, count in outcomes.items():
                totals[name] = totals.get(name, 0) + count
        subjects = pages.subjects()
        self.app.call_from_thread(self._fill, totals, subjects)

    def _fill(self, outcomes: dict[str, int], subjects: dict[str, int]) -> None:
        choices: SelectionList[str] = self.query_one(SelectionList)
        wanted = self.browsing.filter
        chosen = set(choices.selected) or {
            *(f"mark:{name}" for name in wanted.marks),
            *(f"outcome:{name}" for name in wanted.outcomes),
            *(f"run:{name}" for name in wanted.runs),
            *(f"subject:{name}" for name in wanted.subjects),
        }
        lines = [(f"mark:{name}", f"{name} by its score") for name in MARKS]
        lines += [
            (f"outcome:{name}", name + (f"  {outcomes[name]:,}" if outcomes.get(name) else "")) for name in OUTCOMES
        ]
        lines += [(f"run:{run.id}", f"agent {run.agent}") for run in self.browsing.pages.runs]
        lines += [(f"subject:{name}", f"subject {name}  {count:,}") for name, count in sorted(subjects.items())]
        at = choices.highlighted
        self._counted = bool(subjects)
        choices.clear_options()
        # Agents' and subjects' names are text, not markup.
        choices.add_options([Selection(Content(one_line(text, 56)), value, value in chosen) for value, text in lines])
        choices.highlighted = at or 0

    @on(SelectionList.SelectedChanged)
    def _changed(self, event: SelectionList.SelectedChanged[str]) -> None:
        event.stop()

    def action_none(self) -> None:
        self.query_one(SelectionList).deselect_all()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_apply(self) -> None:
        chosen: list[str] = self.query_one(SelectionList).selected

        def of(kind: str) -> frozenset[str]:
            return frozenset(value.partition(":")[2] for value in chosen if value.startswith(f"{kind}:"))

        before = self.browsing.filter
        subjects = of("subject") if self._counted else before.subjects
        self.dismiss(Filter(of("run"), of("outcome"), subjects, of("mark"), before.text))
