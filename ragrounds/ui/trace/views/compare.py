"""The compare screen: two attempts side by side, their searches aligned, what differs marked, the question once.

The two are attempts of two agents, of two epochs or of two runs, at one question or (from the grid) at two. Beside them
stand the questions on which their runs differ.
"""

from __future__ import annotations

from array import array
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from ragrounds.errors import UserError
from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.ui.text import number_of, one_line, safe
from ragrounds.ui.trace.aligned import (
    SIGNS,
    AlignedMoves,
    Move,
    align,
    move_cells,
    question_blocks,
    side_blocks,
    side_title,
)
from ragrounds.ui.trace.attempt_list import AttemptList, ScoreDifference, differences, mark
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.layout import Cells, TextLayout, fit
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.notes import ReaderNotes
from ragrounds.ui.trace.view import View, ViewScreen, answer, is_open
from ragrounds.ui.trace.widgets import Pager, Rows

_HIGHEST = {"-narrow": 3, "-middle": 6, "-wide": 8}
"""Lines of the question at most."""


def counterpart(pages: Pages, current: AttemptSummary) -> int | None:
    """The attempt that one is compared with at first, by its place: that of the next run that was asked the question,
    else that of another epoch; ``None``: there is none."""
    return next(iter(_others(pages, current)), None)


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
    """Two attempts aligned, above two details. Dismissed with the place of the attempt that is to be opened;
    `chosen_place` is then the place of the call under the cursor among its calls.

    Args:
        attempt_list: of the viewer.
        notes: of the viewer.
        first: the left attempt's place among the pages.
        second: the right one's.
        seek: go on to the first question on which their runs differ where they do not differ on this one.
    """

    DETAIL = "left"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-middle"), (140, "-wide")]  # noqa: RUF012 (as Screen declares it)
    DEFAULT_CSS = """
    CompareScreen {
        & Rows, & Pager { border: round $foreground 30%; &:focus { border: round $accent; } }
        & #upper { height: 1fr; }
        & #questions { display: none; height: 1fr; }
        &.-list #questions { display: block; }
        &.-narrow.-list #sides { display: none; }
        & #sides { height: 1fr; }
        & #details { height: 1fr; }
        & #left, & #right { width: 1fr; height: 1fr; }
        &.-narrow #question { border: none; }
        &.-narrow #details { height: 3fr; }
        &.-narrow #upper { height: 2fr; }
        &.-middle #details, &.-wide #details { layout: horizontal; }
        &.-wide #upper { layout: horizontal; }
        &.-wide #questions { width: 2fr; }
        &.-wide #sides { width: 5fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "next_difference(1)", "Next difference", id="compare.next"),
        Binding("W", "next_difference(-1)", "Difference before", id="compare.before", show=False),
        Binding("d", "which", "Questions", id="compare.which"),
        Binding("left_square_bracket", "other(0)", "Other left", id="compare.left", key_display="["),
        Binding("right_square_bracket", "other(1)", "Other right", id="compare.right", key_display="]"),
        Binding("enter", "open", "Open this attempt", id="compare.open", show=False),
        Binding("z", "zoom", "Enlarge the pane", id="zoom", show=False),
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
        self.chosen = [first, second]
        """The places of both attempts."""
        self.runs: tuple[int, int] | None = None
        """The runs, by their places in the pages, that `found` is of."""
        self.found: list[ScoreDifference] = []
        """The questions on which they differ."""
        self.texts = AttemptList(self.pages)
        """The questions of the list, read as they are shown."""
        self.pair: tuple[LoadedAttempt, LoadedAttempt] | None = None
        self.lines: list[AlignedMoves] = []

    def compose(self) -> ComposeResult:
        """The question, the list of questions, both attempts line by line, and two details."""
        yield TopLine("compare")
        yield Pager(id="question", title="question")
        with Container(id="upper"):
            yield Rows(self._question_row, id="questions", title="questions")
            yield Rows(self._side_row, id="sides", title="side by side", head=self._heading)
        with Container(id="details"):
            yield Pager(id="left", title="left")
            yield Pager(id="right", title="right")
        yield KeyBar()

    def on_mount(self) -> None:
        """Read both attempts, and look for the questions on which their runs differ."""
        self.set_class(self.app.size.width >= 140, "-list")
        self.query_one("#sides").focus()
        self._again()

    def on_resize(self) -> None:
        """The question takes the lines that it needs for the new width."""
        if self.pair is not None:
            self.call_after_refresh(self._show_question)

    # Reading

    def _again(self) -> None:
        """Show the chosen pair, and find the questions on which its runs differ."""
        self._show_pair()
        if self.pair is None:
            return
        first, second = (self.pages.runs.index(one.summary.run) for one in self.pair)
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
        count = "still reading" if self._finding else number_of(len(shown), "question")
        rows.border_title = f"{count}: they differ"
        self.texts.arrange(array("Q", (one.row for one in shown)), "", "asked")
        rows.show(len(shown), next((row for row, one in enumerate(shown) if one.row == self.chosen[0]), 0))
        self._show_position()

    def _show_pair(self) -> None:
        read = {one.index: one for one in self.pages.read(self.chosen)}
        sides = self.query_one("#sides", Rows)
        before = sides.row if self.pair is not None else None
        left, right = (LoadedAttempt(self.pages, read[place]) for place in self.chosen)
        self.pair, self.lines = (left, right), align(left, right)
        for id, name, loaded in zip(("left", "right"), self._names(), self.pair, strict=True):
            self.query_one(f"#{id}", Pager).border_title = side_title(loaded, name).replace("[", r"\[")
        self._show_question()
        self._show_position()
        differing = [row for row, line in enumerate(self.lines) if line.difference != "same"]
        searches = [row for row in differing if any(one and one.hop for one in self._moves(row))]
        first = next(iter([*searches, *differing]), 0)
        row = first if before is None else min(before, len(self.lines) - 1)
        sides.show(len(self.lines), row)
        self._show_details(row)

    def _moves(self, row: int) -> tuple[Move | None, Move | None]:
        return self.lines[row].left, self.lines[row].right

    def _names(self) -> list[str]:
        """The agents of both sides, with what else tells them apart."""
        if self.pair is None:
            return ["", ""]
        one, other = (loaded.summary for loaded in self.pair)
        names = [safe(one.run.agent), safe(other.run.agent)]
        if names[0] == names[1] and one.run.id != other.run.id:
            names = [safe(one.run.id), safe(other.run.id)]
        if max(one.run.epochs, other.run.epochs) > 1:
            names = [f"{name} #{each.epoch}" for name, each in zip(names, (one, other), strict=True)]
        return names

    def _show_question(self) -> None:
        if self.pair is None or not is_open(self):
            return
        blocks = question_blocks(*self.pair)
        pager = self.query_one("#question", Pager)
        width = max(20, self.size.width - (1 if self.has_class("-narrow") else 4))
        most = next((lines for name, lines in _HIGHEST.items() if self.has_class(name)), 3)
        border = 0 if self.has_class("-narrow") else 2
        pager.styles.height = min(most, len(TextLayout(blocks, width).lines)) + border
        pager.show(blocks)

    def _show_position(self) -> None:
        if self.pair is None:
            return
        names, differing = self._names(), sum(line.difference != "same" for line in self.lines)
        parts = [f"{names[0]} | {names[1]}", f"{differing} of {number_of(len(self.lines), 'line')} differ"]
        first, second = (one.summary for one in self.pair)
        if first.run.questions != second.run.questions:
            parts.append("their runs were asked different questions")
        self.query_one(TopLine).tell(*parts)

    def _show_details(self, row: int) -> None:
        assert self.pair is not None
        left, right = self._moves(row)
        self.query_one("#left", Pager).show(side_blocks(self.pair[0], left, right))
        self.query_one("#right", Pager).show(side_blocks(self.pair[1], right, left))

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

    def _side_row(self, row: int, width: int) -> Cells:
        if self.pair is None:
            return []
        line, half = self.lines[row], (width - 3) // 2
        style = "dim" if line.difference == "same" else "new"
        left = move_cells(self.pair[0], line.left, half)
        return [*left, (f" {SIGNS[line.difference]} ", style), *move_cells(self.pair[1], line.right, half)]

    def _heading(self, width: int) -> str:
        half = (width - 3) // 2
        signs = [mark(read.summary)[0] for read in self.pair] if self.pair else ["", ""]
        names = [fit(sign + name, half) for sign, name in zip(signs, self._names(), strict=True)]
        return f"{names[0]} │ {names[1]}"

    @on(Rows.Moved, "#questions")
    def _question_moved(self, event: Rows.Moved) -> None:
        self._take(self.found[event.row])

    @on(Rows.Chosen, "#questions")
    def _question_chosen(self) -> None:
        if self.has_class("-narrow"):
            self.remove_class("-list")
        self.query_one("#sides").focus()

    @on(Rows.Moved, "#sides")
    def _side_moved(self, event: Rows.Moved) -> None:
        self._show_details(event.row)

    @on(Rows.Chosen, "#sides")
    def _side_chosen(self) -> None:
        self.action_open()

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
        if not self.has_class("-list") and self.focused is self.query_one("#questions"):
            self.query_one("#sides").focus()
        elif self.has_class("-list") and self.has_class("-narrow"):  # it stands in the place of the lines
            self.query_one("#questions").focus()
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

    def action_open(self) -> None:
        """Open the right attempt where its detail has the focus, else the left one, at the call under the cursor."""
        side = 1 if self.focused is not None and self.focused.id == "right" else 0
        row = self.query_one("#sides", Rows).row
        move = self._moves(row)[side]
        self.chosen_place = move.place if move is not None and move.traced is not None else None
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
