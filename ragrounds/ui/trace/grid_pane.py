"""Grid pane: questions down, agents across; names, signs and styles of its cells. Only visible cells are rendered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.message import Message
from textual.strip import Strip

from ragrounds.evals.compare.grid import AgentGridCell
from ragrounds.ui.signs import attempt_sign, outcome_sign
from ragrounds.ui.text import UNKNOWN
from ragrounds.ui.trace.layout import fit
from ragrounds.ui.trace.widgets import Draw, Rows

_NARROWEST, _WIDEST = 7, 16
"""Minimal and maximal columns of the screen per agent."""
_QUESTION = 22
"""Minimal columns of the question."""


_HEATS = 5
"""Steps of colour from a score of 0 to a score of 1."""


def score_text(value: float | None) -> str:
    """Return a score in three cells: ``.67``, ``0`` or ``1``."""
    if value is None or value != value:  # NaN: unknown
        return UNKNOWN
    text = f"{value:.2f}"
    return "1" if text == "1.00" else "0" if text == "0.00" else text.removeprefix("0")


def cell_text(cell: AgentGridCell) -> str:
    """Return a cell without colour: the sign of the list of attempts, or a score between 0 and 1."""
    sign, _ = attempt_sign(cell.outcome, cell.value)
    if cell.value is None or (cell.epochs == 1 and sign != "½"):
        return sign
    return score_text(cell.value) + outcome_sign(cell.outcome)


def cell_style(cell: AgentGridCell) -> str:
    """Return the style of a cell: ``heat-0`` … ``heat-4`` by score, ``heat-trouble``, or ``dim`` without a score."""
    return "heat-trouble" if outcome_sign(cell.outcome) and not cell.value else heat(cell.value)


def heat(value: float | None) -> str:
    """Return the style of a score between 0 and 1; ``dim`` for ``None``."""
    if value is None:
        return "dim"
    if value <= 0 or value >= 1:
        return f"heat-{0 if value <= 0 else _HEATS - 1}"
    return f"heat-{1 + min(_HEATS - 3, int(value * (_HEATS - 2)))}"


def heat_styles(theme: Mapping[str, str]) -> dict[str, Style]:
    """Return style name → style in a theme, given as colours by name. Letters are black or white, whichever is more
    legible."""
    ground, bad, half, good = (Color.parse(theme[name]) for name in ("background", "error", "warning", "success"))
    low, middle, high = ground.blend(bad, 0.62), ground.blend(half, 0.58), ground.blend(good, 0.62)
    steps = [low, low.blend(middle, 0.6), middle, middle.blend(high, 0.6), high]
    shades = {f"heat-{step}": shade for step, shade in enumerate(steps)}
    shades["heat-trouble"] = ground.blend(Color.parse("#9a5fe0"), 0.6)
    return {
        name: Style(color=shade.get_contrast_text(1.0).rich_color, bgcolor=shade.rich_color)
        for name, shade in shades.items()
    }


class GridPane(Rows):
    """Pane of the grid's lines, with a cursor on one cell.

    Args:
        draw: renders the left part of a line.
        cells: text and style of each agent's cell in a line.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "column(-1)", "Agent to the left", show=False, id="grid.left"),
        Binding("right,l", "column(1)", "Agent to the right", show=False, id="grid.right"),
    ]

    class AgentMoved(Message):
        """Message that the cursor has moved to another column."""

    def __init__(self, draw: Draw, cells: Callable[[int], Sequence[tuple[str, str]]]) -> None:
        super().__init__(draw, id="grid", title="questions × agents")
        self._cells = cells
        self.agents = 0
        self.heads: list[tuple[str, Callable[[int, int], str], str]] = []
        """Heading lines: text at the left, function from agent and cells to the text above an agent, style."""
        self.figure = ""
        """Heading of the figure of a question, by which the lines are sorted."""
        self.column = 0
        """Number of the agent under the cursor."""
        self._offset = 0
        self._heat: tuple[str, dict[str, Style]] = ("", {})

    def style_of(self, name: str) -> Style:
        """Return the style of a name: score colours depend on the theme, other styles are those of every list."""
        if not name.startswith("heat-"):
            return super().style_of(name)
        if self._heat[0] != self.app.theme:
            self._heat = self.app.theme, heat_styles(self.app.theme_variables)
        return self._heat[1][name]

    def across(self) -> tuple[int, int, range]:
        """Return the cells of the left part, the cells of an agent, and the visible agents.

        The agent under the cursor is always visible.
        """
        room = max(_NARROWEST, self.columns - max(_QUESTION, self.columns * 3 // 10))
        cell = max(_NARROWEST, min(_WIDEST, room // max(1, self.agents)))
        visible = max(1, min(self.agents, room // cell))
        self._offset = min(max(self._offset, self.column - visible + 1), self.column, max(0, self.agents - visible))
        return (
            max(0, self.columns - cell * visible),
            cell,
            range(self._offset, min(self.agents, self._offset + visible)),
        )

    def show(self, count: int, row: int, keep_scroll: bool = False) -> None:
        """Show `count` lines with the cursor on `row`."""
        self._top = len(self.heads)
        super().show(count, row, keep_scroll)

    def render_line(self, y: int) -> Strip:
        """Render a line of the screen: a heading or a question."""
        width, row = self.columns, y - self._top + self.scroll_offset.y
        left, cell, columns = self.across()
        if y < self._top:
            label, above, style = self.heads[y]
            heads = [(" " + _center(above(column, cell - 1), cell - 1), style) for column in columns]
            figure = f"{self.figure} " if not y else ""
            return self.strip([(fit(label, left - len(figure)) + figure, "dim"), *heads], width)
        if row >= self.count:
            return Strip.blank(width, self.rich_style)
        is_current_row, agent_cells = row == self.row, self._cells(row)
        cells: list[Segment] = []
        for column in columns:
            text, style = agent_cells[column]
            is_cursor = is_current_row and column == self.column
            look = self.rich_style + self.style_of(style) + Style(bold=is_cursor, reverse=is_cursor and self.has_focus)
            cells.append(Segment(" ", self.rich_style))
            cells.append(Segment(_center(f"[{text}]" if is_cursor else text, cell - 1), look))
        label_strip = self.strip(self._draw(row, left), left, self.style_of("cursor") if is_current_row else None)
        return Strip.join([label_strip, Strip(cells)]).crop_extend(0, width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the cell that was clicked; a second click opens it."""
        event.prevent_default()  # a row's own click would open it before its cell is chosen
        left, cell, columns = self.across()
        row = event.y - self.gutter.top - self._top + self.scroll_offset.y
        column = self._offset + (event.x - self.gutter.left - left) // cell
        if event.y - self.gutter.top < self._top or not 0 <= row < self.count or column not in columns:
            return
        again = (row, column) == (self.row, self.column)
        self.to_column(column)
        self._go(row)
        if again:
            self.post_message(self.Chosen(self, row))

    def action_column(self, step: int) -> None:
        """Move the cursor by `step` agents."""
        self.to_column(self.column + step)

    def to_column(self, column: int) -> None:
        """Put the cursor on an agent."""
        column = max(0, min(column, self.agents - 1))
        if column != self.column:
            self.column = column
            self.refresh()
            self.post_message(self.AgentMoved())


def _center(text: str, width: int) -> str:
    cut = fit(text, width).rstrip()
    return fit(" " * ((width - cell_len(cut)) // 2) + cut, width)
