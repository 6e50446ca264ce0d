"""The pane of the grid: questions down, agents across. Only what is on the screen is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.message import Message
from textual.strip import Strip

from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.themes import contrast
from ragrounds.ui.trace.widgets import Rows

_NARROWEST, _WIDEST = 7, 16
"""Columns of the screen that an agent gets."""
_QUESTION = 22
"""Columns that the question keeps at least."""
_FIGURE = 7
"""Columns of the figure by which the grid is sorted."""
_TOP = 3
"""Lines that stay at the top: names in two lines, and means; and one more where questions have no score."""


class GridWidths(Struct, frozen=True):
    """How the width of the screen is shared."""

    question: int
    figure: int
    cell: int
    shown: int
    """Agents that have room at once."""

    @property
    def left(self) -> int:
        """Where the first agent's column begins."""
        return self.question + self.figure


def grid_widths(width: int, agents: int, longest: int) -> GridWidths:
    """How `width` columns are shared by the question, the figure sorted by, and so many agents, the longest of whose
    names has so many letters."""
    figure = _FIGURE if width >= 60 else 0
    room = max(_NARROWEST, width - max(_QUESTION, width * 3 // 10) - figure)
    cell = max(_NARROWEST, min(_WIDEST, longest + 2, room // max(1, agents)))
    shown = max(1, min(agents, room // cell))
    return GridWidths(max(0, width - figure - cell * shown), figure, cell, shown)


def heading(name: str, width: int) -> tuple[str, str]:
    """A name in two lines: broken where a word ends; else its beginning, and its end, which tells it apart."""
    if cell_len(name) <= width:
        return "", name
    for end in reversed([match.end() for match in re.finditer(r"[ _-]", name)]):
        first, second = name[:end].strip(), name[end:].strip()
        if cell_len(first) <= width and cell_len(second) <= width:
            return first, second
    first = fit(name, width + 1)[:-1]
    rest = name[len(first) :].strip()
    while cell_len(rest) > width - 1:
        rest = rest[1:]
    return first, "…" + rest


def heat_styles(theme: Mapping[str, str]) -> dict[str, Style]:
    """Style name → how it looks in a theme, whose colours are given by name. The letters are black or white, whichever
    can be read better."""
    ground, bad, half, good = (Color.parse(theme[name]) for name in ("background", "error", "warning", "success"))
    low, middle, high = ground.blend(bad, 0.62), ground.blend(half, 0.6), ground.blend(good, 0.62)
    steps = [low, low.blend(middle, 0.6), middle, middle.blend(high, 0.6), high]
    shades = {f"heat-{place}": shade for place, shade in enumerate(steps)}
    shades["heat-trouble"] = ground.blend(Color.parse("#9a5fe0"), 0.6)
    plain = (Color(0, 0, 0), Color(255, 255, 255))
    return {
        name: Style(color=max(plain, key=lambda one: contrast(one, shade)).rich_color, bgcolor=shade.rich_color)
        for name, shade in shades.items()
    }


class GridLine(Struct, frozen=True):
    """A line as it is drawn: what stands at the left, the figure sorted by, and of each agent text, style and whether
    the cell is marked."""

    label: Cells
    figure: str
    cells: Sequence[tuple[str, str, bool]]


class GridPane(Rows):
    """The grid's lines, with a cursor on one cell. Only what is on the screen is drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "column(-1)", "Agent to the left", show=False, id="grid.left"),
        Binding("right,l", "column(1)", "Agent to the right", show=False, id="grid.right"),
        Binding("ctrl+left", "column(-100)", "First agent", show=False, id="grid.first"),
        Binding("ctrl+right", "column(100)", "Last agent", show=False, id="grid.last"),
    ]

    class AgentMoved(Message):
        """The cursor is in another column."""

    def __init__(self, line: Callable[[int, int], GridLine]) -> None:
        super().__init__(lambda _row, _width: [], id="grid", title="questions × agents", head=lambda _width: "")
        self._line = line
        """Makes a line from its number and the width of what stands at its left."""
        self._top = _TOP
        self.names: Sequence[str] = ()
        """Of the shown agents."""
        self.means: Sequence[str] = ()
        self.counts: Sequence[str] = ()
        """How many questions each mean is of; empty where it is of all."""
        self.figure = ""
        """The heading of the figure by which the grid is sorted."""
        self.column = 0
        """The agent under the cursor, among those shown."""
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
        return grid_widths(self.columns, len(self.names), max(map(len, self.names), default=0))

    def across(self) -> range:
        """The agents on the screen; the one under the cursor is among them."""
        total, shown = len(self.names), self.widths.shown
        self.column = max(0, min(self.column, total - 1))
        self._offset = min(max(self._offset, self.column - shown + 1), self.column, max(0, total - shown))
        return range(self._offset, min(total, self._offset + shown))

    def show(self, count: int, row: int, keep_scroll: bool = False) -> None:
        """Show `count` lines with the cursor on `row`."""
        self._top = _TOP + bool(self.counts)
        super().show(count, row, keep_scroll)

    def render_line(self, y: int) -> Strip:
        """A line of the screen: names, means, a question or a group."""
        width, row = self.columns, y - self._top + self.scroll_offset.y
        widths, columns = self.widths, self.across()
        if y < self._top:
            return self.strip(self._heading(y, widths, columns), width)
        if row >= self.count:
            return Strip.blank(width, self.rich_style)
        line, here = self._line(row, widths.question), row == self.row
        label = [*line.label, (fit(line.figure, widths.figure - 1, right=True) + " " * bool(widths.figure), "dim")]
        cells: list[Segment] = []
        for column in columns:
            text, style, marked = line.cells[column]
            chosen = here and column == self.column
            shown = f"{'*' * marked}[{text}]" if chosen else f"{'*' * marked}{text}"
            look = self.rich_style + self.style_of(style) if style != "plain" else self.rich_style
            look += Style(bold=True, reverse=self.has_focus) if chosen else Style()
            cells += [Segment(" ", self.rich_style), Segment(_centred(shown, widths.cell - 1), look)]
        left = self.strip(label, widths.left, self.style_of("cursor") if here else None)
        return Strip.join([left, Strip(cells)]).crop_extend(0, width, self.rich_style)

    def _heading(self, y: int, widths: GridWidths, columns: range) -> Cells:
        if y < _TOP - 1:
            names = [heading(f"{place} {name}", widths.cell - 1) for place, name in enumerate(self.names, 1)]
            figure = fit(self.figure if y else "", widths.figure - 1, right=True)
            label: Cells = [
                (fit("question" if y else "", widths.question), "dim"),
                (figure + " " * bool(figure), "dim"),
            ]
            texts = [(names[column][y], "strong" if column == self.column else "key") for column in columns]
        else:
            name, words, style = (
                ("mean score", self.means, "strong") if y < _TOP else ("questions with a score", self.counts, "dim")
            )
            label = [(fit(name, widths.left), "dim")]
            texts = [(words[column], style) for column in columns]
        return label + [(" " + _centred(text, widths.cell - 1), style) for text, style in texts]

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the cell that was clicked; a second click opens it."""
        event.prevent_default()  # a row's own click would open it before its cell is chosen
        line, widths = event.y - self.gutter.top, self.widths
        row, aside = line - self._top + self.scroll_offset.y, event.x - self.gutter.left - widths.left
        if not (line >= 0 and (line < self._top or 0 <= row < self.count)):
            return
        again = row == self.row
        if aside >= 0 and (place := self._offset + aside // widths.cell) in self.across():
            again = again and place == self.column
            self._to_column(place)
        if line >= self._top:
            self._go(row)
            if again:
                self.post_message(self.Chosen(self, row))

    def action_column(self, by: int) -> None:
        """Move the cursor by agents."""
        self._to_column(self.column + by)

    def _to_column(self, column: int) -> None:
        column = max(0, min(column, len(self.names) - 1))
        if column != self.column:
            self.column = column
            self.across()
            self.refresh()
            self.post_message(self.AgentMoved())


def _centred(text: str, width: int) -> str:
    cut = fit(text, width).rstrip()
    return fit(" " * ((width - cell_len(cut)) // 2) + cut, width)
