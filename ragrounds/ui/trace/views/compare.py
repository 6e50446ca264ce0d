"""Compare screen: two answers to a question on one page; keys lead to the questions on which their runs differ."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from ragrounds.base.errors import UserError
from ragrounds.evals.trace.summaries import AttemptSummary, Pages
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.text import number_of
from ragrounds.ui.trace.attempt_list import AttemptList, ScoreDifference, differences
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.notes import ReaderNotes
from ragrounds.ui.trace.parting import parting_blocks, side_name
from ragrounds.ui.trace.view import View, ViewScreen, answer
from ragrounds.ui.trace.widgets import Pager


def counterpart(pages: Pages, current: AttemptSummary) -> int | None:
    """Return the index of the attempt that an attempt is first compared with; ``None`` if there is no other attempt.

    A wrong one is compared with a right one; otherwise, and if none is right, the attempt of the next run that was
    asked the question is taken, else one of another epoch.
    """
    indices = _other_indices(pages, current)
    right = (summary.index for summary in pages.read(indices) if summary.value is not None and summary.value >= 1)
    return next(right if current.wrong else iter(indices), next(iter(indices), None))


def _other_indices(pages: Pages, current: AttemptSummary) -> list[int]:
    """Return the indices of all other attempts at the question: of the runs that follow, then of other epochs."""
    position, total = pages.runs.index(current.run), len(pages.runs)
    indices: list[int | None] = []
    for ahead in range(1, total + 1):
        run = (position + ahead) % total
        first = pages.row_of(run, current.question.id)
        if first is not None:
            # The same epoch comes first, then the others.
            epochs = sorted(range(pages.runs[run].epochs), key=lambda epoch: (epoch != current.epoch, epoch))
            indices += [first + epoch for epoch in epochs]
    return [index for index in indices if index is not None and index != current.index]


class CompareScreen(ViewScreen):
    """Screen with two answers on one page, to see why one was wrong. It returns the index of the attempt to open.

    Args:
        attempt_list: list of the viewer.
        notes: notes of the viewer.
        first: index of the left attempt in the pages.
        second: index of the right attempt.
        seek: True to go on to the first question on which the runs differ, if they do not differ on this one.
    """

    DETAIL = "page"
    DEFAULT_CSS = """
    CompareScreen {
        & Pager { height: 1fr; border: round $foreground 30%; &:focus { border: round $accent; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "next_difference(1)", "Next difference", id="compare.next"),
        Binding("W", "next_difference(-1)", "Difference before", id="compare.before", show=False),
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
        """True to go on to the first difference; true while the questions on which the runs differ are being read."""
        self.pages = attempt_list.pages
        self.agents = names_of_runs(self.pages.runs, self.pages.given_names)
        self.pair_indices = [first, second]
        """Indices of both attempts."""
        self.runs: tuple[int, int] | None = None
        """Positions in the pages of the two runs that `found` compares."""
        self.differences: list[ScoreDifference] = []
        """Questions on which they differ."""
        self.pair: tuple[LoadedAttempt, LoadedAttempt] | None = None

    def compose(self) -> ComposeResult:
        """Compose the page."""
        yield TopLine("compare")
        yield Pager(id="page", title="two answers")
        yield KeyBar()

    def on_mount(self) -> None:
        """Read both attempts, and find the questions on which their runs differ."""
        self.query_one("#page").focus()
        self._show_runs()

    # Reading

    def _show_runs(self) -> None:
        """Show the chosen pair, and find the questions on which its runs differ."""
        first, second = (self.pages.runs.index(loaded.summary.run) for loaded in self._show_pair())
        if self.runs != (first, second):
            self.runs, self.differences = (first, second), []
            self._finding = True
            self._find(first, second)

    @work(thread=True, exclusive=True, group="compare")
    def _find(self, first: int, second: int) -> None:
        differing = differences(self.pages, first, second) if first != second else []
        answer(self, self._show_differences, differing)

    def _show_differences(self, differing: list[ScoreDifference]) -> None:
        seek, self.differences, self._finding, self._seeks = self._seeks, differing, False, False
        self._show_position()
        if seek and self.differences and self._position is None:
            self._take(self.differences[0])

    # Showing

    def _show_pair(self) -> tuple[LoadedAttempt, LoadedAttempt]:
        read = {summary.index: summary for summary in self.pages.read(self.pair_indices)}
        left, right = (LoadedAttempt(self.pages, read[index]) for index in self.pair_indices)
        self.pair = left, right
        choosers: dict[str, list[str]] = {}
        for attempt in self.pages.read([*self.pair_indices, *_other_indices(self.pages, left.summary)]):
            names = choosers.setdefault(attempt.prediction, [])
            if (name := side_name(self.agents, attempt)) not in names:
                names.append(name)
        self.query_one("#page", Pager).show(parting_blocks(self.pair, self._names(), choosers))
        self._show_position()
        return self.pair

    def _names(self) -> list[str]:
        return [side_name(self.agents, loaded.summary) for loaded in self.pair or ()]

    def _show_position(self) -> None:
        if self.pair is None:
            return
        differ = (
            "still reading" if self._finding else f"{number_of(len(self.differences), 'question')} on which they differ"
        )
        parts = [" | ".join(self._names()), differ]
        first, second = (loaded.summary for loaded in self.pair)
        if first.run.questions != second.run.questions:
            parts.append("their runs were asked different questions")
        self.query_one(TopLine).tell(*parts)

    def _take(self, difference: ScoreDifference) -> None:
        """Show a question on which they differ."""
        assert self.runs is not None
        against = self.pages.row_of(self.runs[1], difference.question_id, difference.epoch)
        if against is not None:
            self.pair_indices = [difference.row, against]
            self._show_pair()

    # Keys

    def action_next_difference(self, step: int) -> None:
        """Go to the next question on which the runs differ (the previous one for `step` -1), continuing from the other
        end."""
        differing = self.differences
        if not differing:
            reason = (
                "It is still read on which questions they differ." if self._finding else "They differ on no question."
            )
            self.app.notify(reason, markup=False)
            return
        position = -min(step, 0) - 1 if self._position is None else self._position
        self._take(differing[(position + step) % len(differing)])

    @property
    def _position(self) -> int | None:
        """Position of the question among those on which the runs differ; ``None`` if they do not differ on it."""
        rows = [difference.row for difference in self.differences]
        return rows.index(self.pair_indices[0]) if self.pair_indices[0] in rows else None

    def action_other(self, side: int) -> None:
        """Show the next attempt at the question on this side, of another run or epoch, never the one on the other
        side."""
        current = self.pages.read([self.pair_indices[side]])[0]
        candidates = [index for index in _other_indices(self.pages, current) if index != self.pair_indices[1 - side]]
        if not candidates:
            self.app.notify("There is no other attempt at this question.", markup=False)
            return
        self.pair_indices[side] = candidates[0]
        self._show_runs()

    def action_open(self, side: int) -> None:
        """Open the left attempt (`side` 0) or the right one."""
        self.dismiss(self.pair_indices[side])


def _compared(attempt_list: AttemptList, notes: ReaderNotes, indices: tuple[int, ...]) -> CompareScreen:
    """Open two answers side by side: the two given ones, or one and its :func:`counterpart`.

    By default it is the list's current attempt. At the top of the list, the screen goes on to the first question on
    which two runs differ.
    """
    pages, current = attempt_list.pages, attempt_list.current
    selected = indices or ((current.index,) if current else ())
    second = selected[1] if len(selected) > 1 else counterpart(pages, pages.read(selected)[0]) if selected else None
    if second is None:
        raise UserError("Comparing needs two runs or epochs: name two, ragrounds trace RUN RUN.")
    top = not indices and attempt_list.row == 0 and len(pages.runs) == 2
    return CompareScreen(attempt_list, notes, selected[0], second, seek=top)


COMPARE = View(name="compare", key="4", title="Compare two answers", opens=_compared)
