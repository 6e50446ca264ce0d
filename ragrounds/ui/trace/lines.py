"""Widgets that draw only the lines on the screen, however many there are: what the list, the tree and the detail
share. Text is drawn as text: no markup, no codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ragrounds.ui.trace.pieces import Cells

STYLES = (
    "plain",
    "dim",
    "heading",
    "key",
    "note",
    "right",
    "wrong",
    "trouble",
    "gold",
    "bar",
    "hit",
    "strong",
    "cursor",
)
"""Names of the styles that text may have; what they look like stands in the style sheet."""


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines drawn on demand."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lines--{name}" for name in STYLES}
    DEFAULT_CSS = """
    Lines {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        background: $background;
        & > .lines--dim { text-style: dim; }
        & > .lines--heading { color: $text-accent; text-style: bold; }
        & > .lines--key { color: $text-secondary; }
        & > .lines--note { text-style: italic; }
        & > .lines--right { color: $text-success; text-style: bold; }
        & > .lines--gold { color: $text-success; }
        & > .lines--wrong { color: $text-error; }
        & > .lines--trouble { color: $text-warning; text-style: bold; }
        & > .lines--bar { color: $text-primary; }
        & > .lines--hit { text-style: reverse; }
        & > .lines--strong { text-style: bold; }
        & > .lines--cursor { background: $panel; text-style: bold; }
        &:focus > .lines--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
        }
        &:nocolor > .lines--cursor { text-style: underline; }
        &:nocolor:focus > .lines--cursor { text-style: reverse; }
    }
    """

    def style_of(self, name: str) -> Style:
        """The look of a style."""
        return self.get_component_rich_style(f"lines--{name}", partial=True)

    def strip(self, cells: Cells, width: int, under: Style | None = None) -> Strip:
        """Cells as a line of `width`."""
        base = self.rich_style
        segments = []
        for text, name in cells:
            style = base if name == "plain" else base + self.style_of(name)
            segments.append(Segment(text, style + under if under else style))
        return Strip(segments).crop_extend(0, width, base + under if under else base)


Draw = Callable[[int, int], Cells]
"""A row as cells: its number and the width to fill."""


class Rows(Lines):
    """A list with a cursor. It holds no rows: `draw` is asked for those on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="rows.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="rows.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="rows.page_up"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False, id="rows.page_down"),
        Binding("home,g", "go(0)", "First", show=False, id="rows.first"),
        Binding("end,G", "go(-1)", "Last", show=False, id="rows.last"),
        Binding("enter", "choose", "Open", show=False, id="rows.open"),
    ]

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, rows: Rows, row: int) -> None:
            super().__init__()
            self.rows, self.row = rows, row

        @property
        def control(self) -> Rows:
            return self.rows

    class Chosen(Moved):
        """A row was asked for: Enter, or a click on the row under the cursor."""

    def __init__(self, draw: Draw, *, id: str, title: str, head: Callable[[int], str] | None = None) -> None:
        super().__init__(id=id)
        self.border_title = title
        self._draw, self._head = draw, head
        self._top = 1 if head else 0
        """Lines that stay at the top."""
        self.count = 0
        self.row = 0

    def show(self, count: int, row: int, keep_scroll: bool = False) -> None:
        """There are `count` rows now, with the cursor on `row`."""
        self.count, self.row = count, row
        self.virtual_size = Size(self.size.width, count + self._top)
        if not keep_scroll and self.size.height:
            self._reveal()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = y - self._top + self.scroll_offset.y
        width = self.size.width
        if y < self._top and self._head is not None:
            return self.strip([(self._head(width), "dim")], width)
        if row >= self.count:
            return Strip.blank(width, self.rich_style)
        under = self.style_of("cursor") if row == self.row else None
        return self.strip(self._draw(row, width), width, under)

    def on_resize(self, _: events.Resize) -> None:
        self.virtual_size = Size(self.size.width, self.count + self._top)
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        line = event.y - self.gutter.top
        row = line - self._top + self.scroll_offset.y
        if line >= self._top and 0 <= row < self.count:
            again = row == self.row
            self._go(row)
            if again:
                self.post_message(self.Chosen(self, row))

    def action_move(self, by: int) -> None:
        self._go(self.row + by)

    def action_page(self, by: int) -> None:
        self._go(self.row + by * max(1, self.size.height - 1))

    def action_go(self, row: int) -> None:
        self._go(row if row >= 0 else self.count - 1)

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self, self.row))

    def _go(self, row: int) -> None:
        row = max(0, min(row, self.count - 1))
        if row == self.row or not self.count:
            return
        self.refresh_line(self.row + self._top)
        self.row = row
        self.refresh_line(row + self._top)
        self._reveal()
        self.post_message(self.Moved(self, row))

    def _reveal(self) -> None:
        self.scroll_to_region(Region(0, self.row, 1, 1 + self._top), animate=False, force=True)
