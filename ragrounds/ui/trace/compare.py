"""The compare screen: two attempts side by side, their searches aligned, what differs marked, the question once.

The two are attempts of two agents, of two epochs or of two runs, at one question or (from the grid) at two. Beside them
stand the questions on which their runs differ.
"""

from __future__ import annotations

import threading
from array import array
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from ragrounds.evals.store.hop_reading import HopReader, HopsOfAttempt
from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.ui.text import number_of, one_line, safe
from ragrounds.ui.trace.aligned import SIGNS, AlignedMoves, align, move_cells, question_blocks, side_blocks, side_title
from ragrounds.ui.trace.answers import answer, is_open
from ragrounds.ui.trace.attempt_list import (
    WHICH,
    AttemptList,
    ComparedRuns,
    ScoreDifference,
    differences,
    mark,
)
from ragrounds.ui.trace.bars import KeyBar, KeysShown, TopLine
from ragrounds.ui.trace.layout import Cells, TextBlock, TextLayout, fit
from ragrounds.ui.trace.views import known_views
from ragrounds.ui.trace.widgets import DetailActions, Pager, Rows

_TITLES = {"differ": "they differ", "first": "left alone is right", "second": "right alone is right"}
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


class CompareScreen(DetailActions, Screen[int | None]):
    """Two attempts aligned, above two details. Dismissed with the place of the attempt that is to be opened;
    `chosen_place` is then the place of the call under the cursor among its calls.

    Args:
        attempt_list: of the viewer.
        first: the left attempt's place among the pages.
        second: the right one's; ``None``: its :func:`counterpart`.
        seek: go on to the first question on which their runs differ where they do not differ on this one.
        listed: begin with the list of the questions on which they differ.
    """

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
        Binding("w", "next_difference(1)", "Next question they differ on", id="compare.next"),
        Binding("W", "next_difference(-1)", "Question before", id="compare.before", show=False),
        Binding("d", "which", "Questions they differ on", id="compare.which"),
        Binding("left_square_bracket", "other(0)", "Other left", id="compare.left", key_display="["),
        Binding("right_square_bracket", "other(1)", "Other right", id="compare.right", key_display="]"),
        Binding("x", "swap", "Swap sides", id="compare.swap"),
        Binding("enter", "open", "Open this attempt", id="compare.open", show=False),
        Binding("m", "markdown", "Replies as Markdown or text", id="markdown", show=False),
        Binding("z", "zoom", "Enlarge the pane", id="zoom", show=False),
        Binding("escape,c", "back", "Back", id="compare.back"),
        *DetailActions.BINDINGS,
    ]
    _OFTEN = (
        ("compare.next", "next difference"),
        ("compare.which", "questions"),
        ("compare.left", "other left"),
        ("compare.right", "other right"),
        ("compare.swap", "swap"),
        ("compare.back", "back"),
    )
    KEYS_SHOWN: ClassVar[KeysShown] = {
        "sides": (("rows.open", "open left"), *_OFTEN),
        "questions": (("rows.open", "its lines"), *_OFTEN),
        "left": (("compare.open", "open it"), *_OFTEN, ("zoom", "enlarge")),
        "right": (("compare.open", "open it"), *_OFTEN, ("zoom", "enlarge")),
        "": (*_OFTEN, ("zoom", "enlarge")),
    }

    def __init__(
        self,
        attempt_list: AttemptList,
        first: int,
        second: int | None = None,
        *,
        seek: bool = False,
        listed: bool = False,
    ) -> None:
        super().__init__()
        self._seek, self._begin_listed = seek, listed
        self._finding, self._waiting = False, 0
        """Whether the questions on which they differ are still read, and how many steps in them were asked for."""
        self.attempt_list = attempt_list
        self.pages = attempt_list.pages
        left = self.pages.read([first])[0]
        other = counterpart(self.pages, left) if second is None else second
        self.chosen = [first, first if other is None else other]
        """The places of both attempts."""
        self.compared = ComparedRuns(self.pages, 0, 0, ())
        self.texts = AttemptList(self.pages)
        """The questions of the list, read as they are shown."""
        self.pair: tuple[HopsOfAttempt, HopsOfAttempt] | None = None
        self.lines: list[AlignedMoves] = []
        self.chosen_place: int | None = None
        self._reader = HopReader(self.pages)
        self._lock = threading.Lock()

    def compose(self) -> ComposeResult:
        """The question, the list of questions, both attempts line by line, and two details."""
        yield TopLine("compare", known_views())
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
        self.set_class(self._begin_listed or self.app.size.width >= 140, "-list")
        self.query_one("#questions" if self._begin_listed else "#sides").focus()
        self._again()

    def on_resize(self) -> None:
        """The question takes the lines that it needs for the new width."""
        if self.pair is not None:
            self.call_after_refresh(self._show_question)

    # Reading

    def _again(self) -> None:
        """Read the chosen pair, and the questions on which its runs differ."""
        self._load(self.chosen[0], self.chosen[1])
        runs = [self._run_of(place) for place in self.chosen]
        if (self.compared.first, self.compared.second) != tuple(runs) or not self.compared.found:
            self.compared = ComparedRuns(self.pages, runs[0], runs[1], ())
            self._finding, self._waiting = True, 0
            self._find(runs[0], runs[1])

    def _run_of(self, place: int) -> int:
        found = self.pages.read([place])
        return self.pages.runs.index(found[0].run)

    @work(thread=True, exclusive=True, group="pair")
    def _load(self, first: int, second: int) -> None:
        with self._lock:
            found = {one.index: one for one in self.pages.read([first, second])}
            read = self._reader.read([found[first], found[second]], only_gold=False)
        answer(self, self._show_pair, read[0], read[1])

    @work(thread=True, exclusive=True, group="compare")
    def _find(self, first: int, second: int) -> None:
        found = differences(self.pages, first, second) if first != second else []
        answer(self, self._found, first, second, found)

    def _found(self, first: int, second: int, found: list[ScoreDifference]) -> None:
        which, waiting = self.compared.which, self._waiting
        self._finding, self._waiting = False, 0
        self.compared = ComparedRuns(self.pages, first, second, found)
        self.compared.choose(which)
        # The list opens at the question that is shown, where it is in it.
        rows = [row for row, one in enumerate(self.compared.shown) if one.row == self.chosen[0]]
        self.compared.row = rows[0] if rows else 0
        self._questions_changed()
        seek, self._seek = self._seek, False
        if seek and not rows:
            self._take_first()
        if waiting:
            self.action_next_difference(waiting)

    # Showing

    def _questions_changed(self) -> None:
        shown = self.compared.shown
        rows = self.query_one("#questions", Rows)
        count = "still reading" if self._finding else number_of(len(shown), "question")
        rows.border_title = f"{count}: {_TITLES[self.compared.which]}"
        self.texts.arrange(array("Q", (one.row for one in shown)), "", "asked")
        rows.show(len(shown), self.compared.row)
        self._show_position()

    def _show_pair(self, left: HopsOfAttempt, right: HopsOfAttempt) -> None:
        if [left.summary.index, right.summary.index] != self.chosen:
            return  # another pair was chosen meanwhile
        before = self.query_one("#sides", Rows).row if self.pair is not None else None
        self.pair = (left, right)
        self.lines = align(left, right)
        names = self._names()
        for id, name, read in zip(("left", "right"), names, self.pair, strict=True):
            self.query_one(f"#{id}", Pager).border_title = side_title(read, name).replace("[", r"\[")
        self._show_question()
        self._show_position()
        differing = [row for row, line in enumerate(self.lines) if line.difference != "same"]
        searches = [
            row for row in differing if any(one and one.hop for one in (self.lines[row].left, self.lines[row].right))
        ]
        first = next(iter([*searches, *differing]), 0)
        row = first if before is None else min(before, max(0, len(self.lines) - 1))
        self.query_one("#sides", Rows).show(len(self.lines), row)
        self._show_details(row)

    def _names(self) -> list[str]:
        """The agents of both sides, with what else tells them apart."""
        if self.pair is None:
            return ["", ""]
        one, other = (read.summary for read in self.pair)
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
        if self._finding and (self._waiting or self._seek):
            parts.insert(1, "still reading on which questions they differ …")
        first, second = (read.summary for read in self.pair)
        if first.run.questions != second.run.questions:
            parts.append("their runs were asked different questions")
        self.query_one(TopLine).tell(*parts)

    def _show_details(self, row: int) -> None:
        if self.pair is None or not self.lines:
            for id in ("left", "right"):
                self.query_one(f"#{id}", Pager).show([TextBlock("Not made yet.", "dim")])
            return
        line = self.lines[min(row, len(self.lines) - 1)]
        left, right = self.pair
        self.query_one("#left", Pager).show(side_blocks(left, line.left, right, line.right))
        self.query_one("#right", Pager).show(side_blocks(right, line.right, left, line.left))

    def _question_row(self, row: int, width: int) -> Cells:
        found = self.compared.shown[row]
        signs: Cells = []
        for value in (found.first, found.second):
            signs.append(("✓ ", "right") if value >= 1 else ("✗ ", "wrong") if value <= 0 else ("½ ", "key"))
        epoch = f" #{found.epoch}" if self.pages.runs[self.compared.first].epochs > 1 else ""
        summary = self.texts.at(row)
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
        self.compared.row = event.row
        self._take(self.compared.shown[event.row])

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
        against = self.pages.row_of(self.compared.second, found.question_id, found.epoch)
        if against is not None:
            self.chosen = [found.row, against]
            self._load(self.chosen[0], self.chosen[1])

    # Keys

    def action_next_difference(self, step: int) -> None:
        """Go to the next question on which the runs differ (for `step` -1 the one before), round the end; while
        they are still read, as soon as they are."""
        if self._finding:
            self._waiting += step
            self._show_position()
            return
        shown = self.compared.shown
        if not shown:
            self.app.notify("They differ on no question.", markup=False)
            return
        here = [one.row for one in shown].index(self.chosen[0]) if self._listed() else -min(step, 0) - 1
        self.compared.row = (here + step) % len(shown)
        self.query_one("#questions", Rows).show(len(shown), self.compared.row)
        self._take(shown[self.compared.row])

    def _take_first(self) -> None:
        """Show the first question on which they differ, where there is one."""
        if self.compared.shown:
            self._take(self.compared.shown[0])
        elif self._begin_listed:
            self.app.notify("They differ on no question.", markup=False)

    def _listed(self) -> bool:
        return any(one.row == self.chosen[0] for one in self.compared.shown)

    def action_which(self) -> None:
        """Show the questions on which they differ; then those that only the left, or only the right one has right."""
        if not self.has_class("-list"):
            self.add_class("-list")
            if self.has_class("-narrow"):  # it stands in the place of the lines
                self.query_one("#questions").focus()
        elif self.compared.which == WHICH[-1] and self.app.size.width < 140:
            self.remove_class("-list")
            self.compared.choose(WHICH[0])
        else:
            self.compared.choose(WHICH[(WHICH.index(self.compared.which) + 1) % len(WHICH)])
        if not self.has_class("-list") and self.focused is self.query_one("#questions"):
            self.query_one("#sides").focus()
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

    def action_swap(self) -> None:
        """Put the left attempt to the right and the right one to the left."""
        self.chosen.reverse()
        self._again()

    def action_open(self) -> None:
        """Open the right attempt where its detail has the focus, else the left one, at the call under the cursor."""
        side = 1 if self.focused is not None and self.focused.id == "right" else 0
        row = self.query_one("#sides", Rows).row
        if row < len(self.lines):
            move = (self.lines[row].left, self.lines[row].right)[side]
            self.chosen_place = move.place if move is not None and move.call is not None else None
        self.dismiss(self.chosen[side])

    def action_back(self) -> None:
        """Go back to where one came from."""
        self.dismiss(None)

    def action_markdown(self) -> None:
        """Show replies as Markdown, or again as they were written."""
        for id in ("left", "right"):
            self.query_one(f"#{id}", Pager).toggle_markdown()

    def action_zoom(self) -> None:
        """Enlarge the pane with the focus to the whole screen, or make it small again."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    def detail_text(self) -> str:
        """The text of the detail that has the focus, else of the left one."""
        name = "right" if self.focused is not None and self.focused.id == "right" else "left"
        return "\n".join(block.text for block in self.query_one(f"#{name}", Pager).blocks)
