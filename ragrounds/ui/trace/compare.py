"""The compare screen: two agents at one question, and the questions that only one of them gets right."""

from __future__ import annotations

from array import array
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Footer, Static

from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.trace.attempt_list import (
    WHICH,
    AttemptList,
    ComparedRuns,
    ScoreDifference,
    differences,
    mark,
)
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.layout import Cells, TextBlock, fit
from ragrounds.ui.trace.tree import LoadedAttempt, Node
from ragrounds.ui.trace.tree_view import AlignedNodes, align, figure_cells, figure_heading
from ragrounds.ui.trace.widgets import DetailActions, Pager, Rows

_TITLES = {"differ": "they differ on", "first": "only the left one has right", "second": "only the right one has right"}


class CompareScreen(DetailActions, Screen[None]):
    """A list of questions above two aligned trees above two details."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012 (as Screen declares it)
    DEFAULT_CSS = """
    CompareScreen {
        & #where { height: 1; background: $panel; }
        & Rows, & Pager { border: round $foreground 30%; &:focus { border: round $accent; } }
        & #questions { height: 1fr; }
        & #sides { height: 1fr; }
        & #details { height: 2fr; }
        & Pager { width: 1fr; }
        & #upper { height: 2fr; }
        &.-wide #upper { layout: horizontal; height: 1fr; }
        &.-wide #questions { width: 2fr; height: 1fr; }
        &.-wide #sides { width: 3fr; height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "which", "Which questions", id="compare.which"),
        Binding("left_square_bracket", "other(0)", "Other left", id="compare.left", key_display="["),
        Binding("right_square_bracket", "other(1)", "Other right", id="compare.right", key_display="]"),
        Binding("x", "swap", "Swap sides", id="compare.swap"),
        Binding("m", "markdown", "Replies as Markdown or text", id="markdown", show=False),
        Binding("escape,c", "app.pop_screen", "Back", id="compare.back"),
        *DetailActions.BINDINGS,
    ]

    def __init__(self, pages: Pages, current: AttemptSummary) -> None:
        super().__init__()
        self.pages = pages
        first = pages.runs.index(current.run)
        self.chosen = [first, (first + 1) % len(pages.runs)]
        self.compared = ComparedRuns(pages, self.chosen[0], self.chosen[1], ())
        self.texts = AttemptList(pages)
        """The questions of the list, read as they are shown."""
        self.pair: tuple[LoadedAttempt, LoadedAttempt] | None = None
        self.sides: list[AlignedNodes] = []
        self._start = current

    def compose(self) -> ComposeResult:
        """The questions, the steps side by side, and two details, with a line above that names the agents."""
        yield Static(id="where", markup=False)
        with Vertical(id="upper"):
            yield Rows(self._question_row, id="questions", title="questions")
            yield Rows(self._side_row, id="sides", title="steps side by side", head=self._heading)
        with Horizontal(id="details"):
            yield Pager(id="left", title="left")
            yield Pager(id="right", title="right")
        yield Footer()

    def on_mount(self) -> None:
        """Show the question that the main screen was at, and look for those on which the runs differ."""
        self.query_one("#questions").focus()
        self._show_pair(self._pair_of(self._start))
        self._find()

    def _pair_of(self, summary: AttemptSummary) -> tuple[LoadedAttempt, LoadedAttempt] | None:
        index = self.pages.row_of(self.chosen[0], summary.question.id, summary.epoch)
        return None if index is None else self.compared.at_place(index)

    @work(thread=True, exclusive=True, group="compare")
    def _find(self) -> None:
        found = differences(self.pages, self.chosen[0], self.chosen[1])
        self.app.call_from_thread(self._found, found)

    def _found(self, found: list[ScoreDifference]) -> None:
        which = self.compared.which
        self.compared = ComparedRuns(self.pages, self.chosen[0], self.chosen[1], found)
        self.compared.choose(which)
        # The list opens at the question that is shown, where it is in it.
        if self.pair is not None:
            here = self.pair[0].summary.index
            rows = [row for row, one in enumerate(self.compared.shown) if one.row == here]
            self.compared.row = rows[0] if rows else 0
        self._questions_changed()

    def _questions_changed(self) -> None:
        shown = self.compared.shown
        rows = self.query_one("#questions", Rows)
        rows.border_title = (
            f"{len(shown):,} question{'' if len(shown) == 1 else 's'} that {_TITLES[self.compared.which]}"
        )
        self.texts.arrange(array("Q", (one.row for one in shown)), "", "asked")
        rows.show(len(shown), self.compared.row)
        if self.pair is None and shown:
            self._show_pair(self.compared.pair())

    def _show_pair(self, pair: tuple[LoadedAttempt, LoadedAttempt] | None) -> None:
        self.pair = pair
        self.sides = align(pair[0].root, pair[1].root) if pair else []
        names = [safe(self.pages.runs[number].agent) for number in self.chosen]
        where = Text(f" {names[0]}  against  {names[1]}", no_wrap=True, overflow="ellipsis")
        if self.pages.runs[self.chosen[0]].questions != self.pages.runs[self.chosen[1]].questions:
            where.append("  | different questions were asked: only those with the same id are compared")
        self.query_one("#where", Static).update(where)
        for name, agent in zip(("left", "right"), names, strict=True):
            self.query_one(f"#{name}", Pager).border_title = agent.replace("[", r"\[")
        self.query_one("#sides", Rows).show(len(self.sides), 0)
        self._show_details(0)

    def _show_details(self, row: int) -> None:
        side = self.sides[row] if row < len(self.sides) else AlignedNodes(0, None, None)
        for number, (name, node) in enumerate((("left", side.left), ("right", side.right))):
            blocks = [TextBlock("no such step", "dim")]
            if self.pair is not None and node is not None:
                blocks = detail(self.pair[number], node)
            elif self.pair is None:
                blocks = [TextBlock("not asked in both runs", "dim")]
            self.query_one(f"#{name}", Pager).show(blocks)

    def _question_row(self, row: int, width: int) -> Cells:
        found = self.compared.shown[row]
        signs: Cells = []
        for value in (found.first, found.second):
            signs.append(("✓ ", "right") if value >= 1 else ("✗ ", "wrong") if value <= 0 else ("½ ", "key"))
        epoch = f" #{found.epoch}" if self.pages.runs[self.chosen[0]].epochs > 1 else ""
        summary = self.texts.at(row)
        text = one_line(summary.question.text[: width * 2], width) if summary else ""
        return [*signs, (fit(f"{safe(found.question_id[:200])}{epoch}  {text}", max(0, width - 4)), "plain")]

    def _side_row(self, row: int, width: int) -> Cells:
        side, half = self.sides[row], (width - 3) // 2
        left = self._half(side.left, side.depth, half, 0)
        return [*left, (" │ ", "dim"), *self._half(side.right, side.depth, half, 1)]

    def _heading(self, width: int) -> str:
        half = figure_heading((width - 3) // 2)
        return f"{half} │ {half}"

    def _half(self, node: Node | None, depth: int, width: int, number: int) -> Cells:
        if node is None or self.pair is None:
            return [(" " * width, "plain")]
        loaded = self.pair[number]
        columns, room = figure_cells(node, loaded.root.figures, width, "time")
        if depth == 0:
            sign, style = mark(loaded.summary)
            name = f"{sign}{loaded.summary.prediction or loaded.summary.outcome}"
            return [(fit(safe(name), room), style), *columns]
        return [(fit("  " * depth + safe(node.label[:200]), room), "trouble" if node.troubled else "plain"), *columns]

    @on(Rows.Moved, "#questions")
    def _question_moved(self, event: Rows.Moved) -> None:
        self.compared.row = event.row
        self._show_pair(self.compared.pair())

    @on(Rows.Chosen, "#questions")
    def _question_chosen(self) -> None:
        self._show_pair(self.compared.pair())
        self.query_one("#sides").focus()

    @on(Rows.Moved, "#sides")
    def _side_moved(self, event: Rows.Moved) -> None:
        self._show_details(event.row)

    def action_which(self) -> None:
        """List the next kind of questions: those they differ on, or that one of them alone has right."""
        self.compared.choose(WHICH[(WHICH.index(self.compared.which) + 1) % len(WHICH)])
        self._questions_changed()
        self._show_pair(self.compared.pair() or self.pair)

    def action_other(self, side: int) -> None:
        """Take the next run on this side; the same run does not stand on both."""
        total, other = len(self.pages.runs), self.chosen[1 - side]
        for _ in range(total):
            self.chosen[side] = (self.chosen[side] + 1) % total
            if self.chosen[side] != other:
                break
        self._again()

    def action_swap(self) -> None:
        """Put the left run to the right and the right one to the left."""
        self.chosen.reverse()
        self._again()

    def _again(self) -> None:
        start = self.pair[0].summary if self.pair else self._start
        self.compared = ComparedRuns(self.pages, self.chosen[0], self.chosen[1], ())
        self._show_pair(self._pair_of(start))
        self._questions_changed()
        self._find()

    def action_markdown(self) -> None:
        """Show replies as Markdown, or again as they were written."""
        for pager in self.query(Pager):
            pager.toggle_markdown()

    def detail_text(self) -> str:
        """The text of the detail that has the focus, else of the left one."""
        name = "right" if self.focused is not None and self.focused.id == "right" else "left"
        return "\n".join(block.text for block in self.query_one(f"#{name}", Pager).blocks)
