"""The pane of the grid: questions down, agents across. Only what is on the screen is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from ragrounds.ui.trace.grid_cells import GridWidths, grid_widths, headings, heat_styles
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.widgets import Rows

_TOP = 3
"""Lines that stay at the top: names in two lines, and means; and one more where the source has it."""


class DrawnLine(Protocol):
    """A line of the grid as it is drawn."""

    @property
    def label(self) -> Cells:
        """What stands at the left, fit to its width."""
        ...

    @property
    def figure(self) -> str:
        """The figure by which the grid is sorted."""
        ...

    @property
    def cells(self) -> Sequence[tuple[str, str, bool]]:
        """Text, style and whether it is marked, an agent each."""
        ...


class GridSource(Protocol):
    """What the pane asks its screen for."""

    def names(self) -> Sequence[str]:
        """The shown agents' names."""
        ...

    def summary(self) -> Sequence[tuple[str, str]]:
        """Below the names: text and style, an agent each."""
        ...

    def scored(self) -> Sequence[str]:
        """How many questions each mean is of; empty where it is of all."""
        ...

    def figure_name(self) -> str:
        """The heading of the figure by which the grid is sorted."""
        ...

    def line(self, line: int, width: int) -> DrawnLine:
        """A line; its label has `width` columns."""
        ...


class GridPane(Rows):
    """The grid's lines, with a cursor on one cell."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "column(-1)", "Agent to the left", show=False, id="grid.left"),
        Binding("right,l", "column(1)", "Agent to the right", show=False, id="grid.right"),
        Binding("ctrl+left", "column(-100)", "First agent", show=False, id="grid.first"),
        Binding("ctrl+right", "column(100)", "Last agent", show=False, id="grid.last"),
    ]

    class AgentMoved(Message):
        """The cursor is in another column."""

        def __init__(self, pane: GridPane, column: int) -> None:
            super().__init__()
            self.pane, self.column = pane, column

        @property
        def control(self) -> GridPane:
            """The pane whose cursor moved."""
            return self.pane

    def __init__(self, source: GridSource, *, id: str) -> None:
        super().__init__(lambda _row, _width: [], id=id, title="questions × agents", head=lambda _width: "")
        self.source = source
        self._top = _TOP
        self.column = 0
        self._offset = 0
        self._styles: tuple[str, dict[str, Style]] = ("", {})

    def style_of(self, name: str) -> Style:
        """How a style looks: the heat of scores by the theme, the others as in every list."""
        if not name.startswith("heat-"):
            return super().style_of(name)
        if self._styles[0] != self.app.theme:
            self._styles = self.app.theme, heat_styles(self.app.theme_variables)
        return self._styles[1][name]

    @property
    def widths(self) -> GridWidths:
        """How the width is shared now."""
        names = self.source.names()
        return grid_widths(self.columns, len(names), max(map(len, names), default=0))

    def across(self) -> range:
        """The agents on the screen; the one under the cursor is among them."""
        total, shown = len(self.source.names()), self.widths.shown
        self.column = max(0, min(self.column, total - 1))
        self._offset = min(max(self._offset, self.column - shown + 1), self.column, max(0, total - shown))
        return range(self._offset, min(total, self._offset + shown))

    def show(self, count: int, row: int, keep_scroll: bool = False) -> None:
        """Show `count` lines with the cursor on `row`."""
        self._top = _TOP + bool(self.source.scored())
        super().show(count, row, keep_scroll)

    def render_line(self, y: int) -> Strip:
        """A line of the screen: names, means, a question or a group."""
        width, row = self.columns, y - self._top + self.scroll_offset.y
        if y < self._top:
            return self.strip(self._heading(y), width)
        if row >= self.count:
            return Strip.blank(width, self.rich_style)
        widths, columns = self.widths, self.across()
        line, here = self.source.line(row, widths.question), row == self.row
        label = [*line.label, (fit(line.figure, widths.figure - 1, right=True) + " " * bool(widths.figure), "dim")]
        under = self.style_of("cursor") if here else None
        left = self.strip(label, widths.left, under)
        cells: list[Segment] = []
        for column in columns:
            text, style, marked = line.cells[column]
            cells += self._cell(text, style, marked, widths.cell, here and column == self.column)
        return Strip.join([left, Strip(cells)]).crop_extend(0, width, self.rich_style)

    def _heading(self, y: int) -> Cells:
        widths, columns = self.widths, self.across()
        if y < _TOP - 1:
            names = headings(self.source.names(), widths.cell - 1)
            figure = fit(self.source.figure_name() if y else "", widths.figure - 1, right=True)
            label: Cells = [
                (fit("question" if y else "", widths.question), "dim"),
                (figure + " " * bool(figure), "dim"),
            ]
            texts = [(names[column][y], "strong" if column == self.column else "key") for column in columns]
        elif y == _TOP - 1:
            label = [(fit("mean score", widths.left), "dim")]
            texts = [self.source.summary()[column] for column in columns]
        else:
            label = [(fit("questions with a score", widths.left), "dim")]
            texts = [(self.source.scored()[column], "dim") for column in columns]
        return label + [(" " + _centred(text, widths.cell - 1), style) for text, style in texts]

    def _cell(self, text: str, style: str, marked: bool, width: int, here: bool) -> list[Segment]:
        shown = f"{'*' if marked else ''}{'[' if here else ''}{text}{']' if here else ''}"
        look = self.rich_style + self.style_of(style) if style != "plain" else self.rich_style
        if here:
            look += Style(bold=True, reverse=self.has_focus)
        return [Segment(" ", self.rich_style), Segment(_centred(shown, width - 1), look)]

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the cell that was clicked; a second click opens it."""
        event.prevent_default()  # a row's own click would open it before its cell is chosen
        line = event.y - self.gutter.top
        row = line - self._top + self.scroll_offset.y
        aside, widths = event.x - self.gutter.left - self.widths.left, self.widths
        if not (line >= 0 and (line < self._top or 0 <= row < self.count)):
            return
        again = row == self.row
        if aside >= 0 and (place := self._offset + aside // widths.cell) in self.across():
            again = again and place == self.column
            self._to_column(place)
        if line < self._top:
            return
        self._go(row)
        if again:
            self.post_message(self.Chosen(self, row))

    def action_column(self, by: int) -> None:
        """Move the cursor by agents."""
        self._to_column(self.column + by)

    def _to_column(self, column: int) -> None:
        column = max(0, min(column, len(self.source.names()) - 1))
        if column != self.column:
            self.column = column
            self.across()
            self.refresh()
            self.post_message(self.AgentMoved(self, column))


def _centred(text: str, width: int) -> str:
    cut = fit(text, width).rstrip()
    left = (width - cell_len(cut)) // 2
    return fit(" " * left + cut, width)
