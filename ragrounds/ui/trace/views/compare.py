"""The compare screen: two answers to a question on one page, and the questions on which their runs differ."""

from __future__ import annotations

from array import array
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from ragrounds.base.errors import UserError
from ragrounds.evals.trace.summaries import AttemptSummary, Pages
from ragrounds.ui.text import number_of, one_line, safe
from ragrounds.ui.trace.attempt_list import AttemptList, ScoreDifference, agent_names, differences
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.notes import ReaderNotes
from ragrounds.ui.trace.parting import parting_blocks, side_name
from ragrounds.ui.trace.view import View, ViewScreen, answer
from ragrounds.ui.trace.widgets import Pager, Rows


def counterpart(pages: Pages, current: AttemptSummary) -> int | None:
    """The attempt that one is compared with at first, by its place: of a wrong one a right one, else that of the next
    run that was asked the question, else that of another epoch; ``None``: there is none."""
    others = _others(pages, current)
    right = (one.index for one in pages.read(others) if one.value is not None and one.value >= 1)
    return next(right if current.wrong else iter(others), next(iter(others), None))


def _others(pages: Pages, current: AttemptSummary) -> list[int]:
    """The places of all other attempts at the question: of the runs that follow, then of other epochs."""
    here, total = pages.runs.index(current.run), len(pages.runs)
    found: list[int | None] = []
    for ahead in range(1, total + 1):
        run = (here + ahead) % total
        first = pages.row_of(run, current.question.id)
        if first is not None:
            # The same epoch comes first, then the others.
            epochs = sorted(range(pages.runs[run].epochs), key=lambda epoch: (epoch != current.epoch, epoch))
            found += [first + epoch for epoch in epochs]
    return [place for place in found if place is not None and place != current.index]


class CompareScreen(ViewScreen):
    """Why one of two answers lost, on one page. Dismissed with the place of the attempt that is to be opened.

    Args:
        attempt_list: of the viewer.
        notes: of the viewer.
        first: the left attempt's place among the pages.
        second: the right one's.
        seek: go on to the first question on which their runs differ where they do not differ on this one.
    """

    DETAIL = "page"
    DEFAULT_CSS = """
    CompareScreen {
        & Rows, & Pager { border: round $foreground 30%; &:focus { border: round $accent; } }
        & #both { height: 1fr; }
        & #questions { display: none; height: 8; }
        &.-list #questions { display: block; }
        & #page { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "next_difference(1)", "Next difference", id="compare.next"),
        Binding("W", "next_difference(-1)", "Difference before", id="compare.before", show=False),
        Binding("d", "which", "Questions", id="compare.which"),
        Binding("left_square_bracket", "other(0)", "Other left", id="compare.left", key_display="["),
        Binding("right_square_bracket", "other(1)", "Other right", id="compare.right", key_display="]"),
        Binding("enter", "open(0)", "Open the left", id="compare.open"),
        Binding("greater_than_sign", "open(1)", "Open the right", id="compare.open_right", key_display=">"),
        Binding("escape,c", "leave", "Back", id="compare.back"),
    ]

    def __init__(
        self,
        attempt_list: AttemptList,
        notes: ReaderNotes,
        first: int,
        second: int,
        *,
        seek: bool = False,
    ) -> None:
        super().__init__(attempt_list, notes)
        self._seeks, self._finding = seek, False
        """Whether the questions on which they differ are still read."""
        self.pages = attempt_list.pages
        self.agents = agent_names(self.pages.runs)
        self.chosen = [first, second]
        """The places of both attempts."""
        self.runs: tuple[int, int] | None = None
        """The runs, by their places in the pages, that `found` is of."""
        self.found: list[ScoreDifference] = []
        """The questions on which they differ."""
        self.texts = AttemptList(self.pages)
        """The questions of the list, read as they are shown."""
        self.pair: tuple[LoadedAttempt, LoadedAttempt] | None = None

    def compose(self) -> ComposeResult:
        """The list of questions, and the page."""
        yield TopLine("compare")
        with Container(id="both"):
            yield Rows(self._question_row, id="questions", title="questions")
            yield Pager(id="page", title="two answers")
        yield KeyBar()

    def on_mount(self) -> None:
        """Read both attempts, and look for the questions on which their runs differ."""
        self.query_one("#page").focus()
        self._again()

    # Reading

    def _again(self) -> None:
        """Show the chosen pair, and find the questions on which its runs differ."""
        first, second = (self.pages.runs.index(one.summary.run) for one in self._show_pair())
        if self.runs != (first, second):
            self.runs, self.found = (first, second), []
            self._finding = True
            self._find(first, second)

    @work(thread=True, exclusive=True, group="compare")
    def _find(self, first: int, second: int) -> None:
        found = differences(self.pages, first, second) if first != second else []
        answer(self, self._found, found)

    def _found(self, found: list[ScoreDifference]) -> None:
        seek, self.found, self._finding, self._seeks = self._seeks, found, False, False
        self._questions_changed()
        if seek and self.found and not self._listed():
            self._take(self.found[0])

    # Showing

    def _questions_changed(self) -> None:
        """Show the list; it stands at the question that is compared, where this is in it."""
        shown, rows = self.found, self.query_one("#questions", Rows)
        self.texts.arrange(array("Q", (one.row for one in shown)), "", "asked")
        rows.show(len(shown), next((row for row, one in enumerate(shown) if one.row == self.chosen[0]), 0))
        self._show_position()

    def _show_pair(self) -> tuple[LoadedAttempt, LoadedAttempt]:
        read = {one.index: one for one in self.pages.read(self.chosen)}
        left, right = (LoadedAttempt(self.pages, read[place]) for place in self.chosen)
        self.pair = left, right
        chosen: dict[str, list[str]] = {}
        for each in self.pages.read([*self.chosen, *_others(self.pages, left.summary)]):
            names = chosen.setdefault(each.prediction, [])
            if (name := side_name(self.agents, each)) not in names:
                names.append(name)
        self.query_one("#page", Pager).show(parting_blocks(self.pair, self._names(), chosen))
        self._show_position()
        return self.pair

    def _names(self) -> list[str]:
        return [side_name(self.agents, loaded.summary) for loaded in self.pair or ()]

    def _show_position(self) -> None:
        if self.pair is None:
            return
        differ = "still reading" if self._finding else f"{number_of(len(self.found), 'question')} on which they differ"
        parts = [" | ".join(self._names()), differ]
        first, second = (loaded.summary for loaded in self.pair)
        if first.run.questions != second.run.questions:
            parts.append("their runs were asked different questions")
        self.query_one(TopLine).tell(*parts)

    def _question_row(self, row: int, width: int) -> Cells:
        found = self.found[row]
        signs: Cells = []
        for value in (found.first, found.second):
            signs.append(("✓ ", "right") if value >= 1 else ("✗ ", "wrong") if value <= 0 else ("½ ", "key"))
        summary = self.texts.at(row)
        epoch = f" #{found.epoch}" if summary and summary.run.epochs > 1 else ""
        name = safe(found.question_id.rpartition("/")[2][:80])
        text = one_line(summary.question.text[: width * 2], width) if summary else ""
        return [*signs, (fit(f"{name}{epoch}  {text}", max(0, width - 4)), "plain")]

    @on(Rows.Moved)
    def _question_moved(self, event: Rows.Moved) -> None:
        self._take(self.found[event.row])

    @on(Rows.Chosen)
    def _question_chosen(self) -> None:
        self.action_which()

    def _take(self, found: ScoreDifference) -> None:
        """Show a question of the list."""
        assert self.runs is not None
        against = self.pages.row_of(self.runs[1], found.question_id, found.epoch)
        if against is not None:
            self.chosen = [found.row, against]
            self._show_pair()

    # Keys

    def action_next_difference(self, step: int) -> None:
        """Go to the next question on which the runs differ (for `step` -1 the one before), round the end."""
        shown = self.found
        if not shown:
            why = "It is still read on which questions they differ." if self._finding else "They differ on no question."
            self.app.notify(why, markup=False)
            return
        here = [one.row for one in shown].index(self.chosen[0]) if self._listed() else -min(step, 0) - 1
        row = (here + step) % len(shown)
        self.query_one("#questions", Rows).show(len(shown), row)
        self._take(shown[row])

    def _listed(self) -> bool:
        return any(one.row == self.chosen[0] for one in self.found)

    def action_which(self) -> None:
        """Show the questions on which they differ, or hide them again."""
        self.toggle_class("-list")
        self.query_one("#questions" if self.has_class("-list") else "#page").focus()
        self._questions_changed()

    def action_other(self, side: int) -> None:
        """Take the next attempt at the question on this side: of another run or epoch. The same one does not stand on
        both sides."""
        here = self.pages.read([self.chosen[side]])[0]
        others = [place for place in _others(self.pages, here) if place != self.chosen[1 - side]]
        if not others:
            self.app.notify("There is no other attempt at this question.", markup=False)
            return
        self.chosen[side] = others[0]
        self._again()

    def action_open(self, side: int) -> None:
        """Open the left attempt, or the right one."""
        self.dismiss(self.chosen[side])


def _compared(attempt_list: AttemptList, notes: ReaderNotes, places: tuple[int, ...]) -> CompareScreen:
    """Two answers side by side: those at two places, or one and its :func:`counterpart`; by default that of the list,
    from whose top on the first question is sought on which two runs differ."""
    pages, current = attempt_list.pages, attempt_list.current
    here = places or ((current.index,) if current else ())
    second = here[1] if len(here) > 1 else counterpart(pages, pages.read(here)[0]) if here else None
    if second is None:
        raise UserError("Comparing needs two runs or epochs: name two, ragrounds trace RUN RUN.")
    top = not places and attempt_list.row == 0 and len(pages.runs) == 2
    return CompareScreen(attempt_list, notes, here[0], second, seek=top)


COMPARE = View(name="compare", key="4", title="Compare two answers", opens=_compared)
