"""Three panes - attempts, steps, detail - over a :class:`Browsing` and a :class:`TreeState`: drawing and folding."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Footer, Static

from ragrounds.ui.text import safe
from ragrounds.ui.trace.browsing import Browsing
from ragrounds.ui.trace.drawing import (
    MEASURES,
    attempt_cells,
    attempt_heading,
    branch_cells,
    figure_heading,
    short_names,
)
from ragrounds.ui.trace.finding import FindBar
from ragrounds.ui.trace.lines import Rows
from ragrounds.ui.trace.opened import Opened
from ragrounds.ui.trace.outside import Outside
from ragrounds.ui.trace.pager import Pager
from ragrounds.ui.trace.pieces import Cells
from ragrounds.ui.trace.treestate import TreeState


class PanesScreen(Outside, Screen[None]):
    """What is shown, and how the tree is folded; where the rows come from is its heirs' part."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide"), (190, "-very-wide")]  # noqa: RUF012 (as Screen declares it)
    DEFAULT_CSS = """
    PanesScreen {
        & #where { height: 1; background: $panel; color: $foreground; }
        & #panes { height: 1fr; layout: grid; grid-size: 2 2; grid-columns: 3fr 2fr; grid-rows: 2fr 3fr; }
        & Rows, & Pager { border: round $foreground 30%; &:focus { border: round $accent; } }
        & #detail { column-span: 2; }
        &.-wide #panes { grid-size: 3 1; grid-columns: 3fr 4fr 5fr; grid-rows: 1fr; }
        &.-wide #detail { column-span: 1; }
        &.-very-wide #panes { grid-columns: 4fr 4fr 7fr; }
    }
    """

    def __init__(self, browsing: Browsing) -> None:
        super().__init__()
        self.browsing = browsing
        self.tree_state: TreeState | None = None
        self.measure = MEASURES[0]
        self.agents = short_names(browsing.pages.runs)

    def compose(self) -> ComposeResult:
        yield Static(id="where", markup=False)
        with Container(id="panes"):
            yield Rows(self._attempt_row, id="attempts", title="attempts", head=self._heading)
            yield Rows(self._branch_row, id="tree", title="steps", head=figure_heading)
            yield Pager(id="detail", title="detail")
        yield FindBar()
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#attempts").focus()
        self.list_changed()
        self.open()

    def _attempt_row(self, row: int, width: int) -> Cells:
        return attempt_cells(self.browsing.at(row), width, self.agents)

    def _heading(self, width: int) -> str:
        return attempt_heading(width, self.agents)

    def _branch_row(self, row: int, width: int) -> Cells:
        if self.tree_state is None:
            return []
        return branch_cells(self.tree_state.branches()[row], self.tree_state.root.figures, width, self.measure)

    @property
    def attempts(self) -> Rows:
        return self.query_one("#attempts", Rows)

    @property
    def tree_pane(self) -> Rows:
        return self.query_one("#tree", Rows)

    @property
    def pager(self) -> Pager:
        return self.query_one("#detail", Pager)

    def list_changed(self, keep_scroll: bool = False) -> None:
        """The rows are other ones, or the cursor is elsewhere."""
        self.attempts.show(len(self.browsing), self.browsing.row, keep_scroll)
        self.say_where()

    def say_where(self, doing: str = "") -> None:
        """Where the cursor is, what is listed, by which scorer the score is; what is being done."""
        browsing, total = self.browsing, len(self.browsing)
        current = browsing.current
        place = f"{browsing.row + 1 if total else 0:,} of {total:,}"
        agent = safe(current.run.agent) if current else ""
        scorer = f"score: {current.scorer}" if current and current.scorer else "not scored"
        said = safe(browsing.said())
        parts = [doing] if doing else [place, *([said] if said else []), scorer, agent]
        self.query_one("#where", Static).update(Text(" " + "  |  ".join(parts), no_wrap=True, overflow="ellipsis"))

    def open(self) -> None:
        """Open the attempt under the cursor."""
        outline = self.browsing.current
        pattern = self.tree_state.pattern if self.tree_state else ""
        self.tree_state = None if outline is None else TreeState(Opened(self.browsing.pages, outline))
        if self.tree_state is not None and pattern:
            self.tree_state.search(pattern)
        self.tree_changed()
        self.say_where()

    def tree_changed(self, keep_scroll: bool = False) -> None:
        """The tree, its folds or its cursor are other ones."""
        state = self.tree_state
        self.tree_pane.show(len(state.branches()) if state else 0, state.row() if state else 0)
        self.tree_pane.border_title = f"steps, share of {self.measure}"
        self.pager.pattern = state.pattern if state else ""
        self.pager.show(state.pieces() if state else (), keep_scroll)

    @on(Rows.Moved, "#attempts")
    def _attempt_moved(self, event: Rows.Moved) -> None:
        self.browsing.move(event.row)
        self.open()

    @on(Rows.Moved, "#tree")
    def _branch_moved(self, event: Rows.Moved) -> None:
        if self.tree_state is not None:
            self.tree_state.move(event.row)
            self.pager.show(self.tree_state.pieces())

    @on(Rows.Chosen, "#attempts")
    def _attempt_chosen(self) -> None:
        self.tree_pane.focus()

    @on(Rows.Chosen, "#tree")
    def _branch_chosen(self) -> None:
        self.action_fold()

    def action_fold(self) -> None:
        self._fold(None)

    def action_fold_to(self, folded: bool) -> None:
        self._fold(folded)

    def _fold(self, folded: bool | None) -> None:
        if self.tree_state is not None and self.focused is self.tree_pane:
            before = self.tree_state.cursor
            self.tree_state.toggle(folded)
            self._tree_refolded(before)

    def action_fold_all(self, fold: bool) -> None:
        if self.tree_state is not None:
            before = self.tree_state.cursor
            self.tree_state.fold_all(fold)
            self._tree_refolded(before)

    def _tree_refolded(self, before: str) -> None:
        state = self.tree_state
        if state is None:
            return
        self.tree_pane.show(len(state.branches()), state.row())
        if state.cursor != before:
            self.pager.show(state.pieces())

    def action_measure(self) -> None:
        self.measure = MEASURES[(MEASURES.index(self.measure) + 1) % len(MEASURES)]
        self.tree_changed(keep_scroll=True)

    def action_markdown(self) -> None:
        self.pager.toggle_markdown()
        self.pager.border_title = "detail, replies as Markdown" if self.pager.markdown else "detail"

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    def text_outside(self) -> str:
        return "\n".join(piece.text for piece in self.pager.pieces)
