"""Widgets for lists and long texts, which render only visible lines, however many there are.

Text is rendered as text: markup and control codes have no effect. Text that leaves the terminal, to the clipboard or
the user's editor, is exactly as it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widgets import Input, TextArea

from ragrounds.ui.trace.layout import Cells, LayoutLine, TextBlock, TextLayout, search_pattern

STYLES = tuple("plain dim heading key note right wrong trouble gold bar hit strong term new mark cursor".split())
"""Names of the styles of text; the style sheet defines their look."""


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines that are rendered when they become visible."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lines--{name}" for name in STYLES}
    DEFAULT_CSS = """
    Lines {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        background: $background;
        border-title-color: $quiet;
        border-subtitle-color: $quiet;
        &:focus { border-title-color: $text-accent; }
        &.-maximized { width: 1fr !important; height: 1fr !important; }
        & > .lines--dim { color: $quiet; }
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
        & > .lines--term { text-style: bold underline; }
        & > .lines--new { color: $text-primary; }
        & > .lines--mark { color: $text-warning; }
        & > .lines--cursor { background: $cursor-resting; text-style: bold; }
        &:focus > .lines--cursor { background: $cursor-line; text-style: bold; }
        &:nocolor > .lines--cursor { text-style: underline; }
        &:nocolor:focus > .lines--cursor { text-style: reverse; }
    }
    """

    @property
    def columns(self) -> int:
        """Cells of a line: the pane without its border and without the scrollbar, visible or not."""
        return self.scrollable_content_region.width

    def style_of(self, name: str) -> Style:
        """Return the look of a style of :data:`STYLES` in this theme."""
        return self.get_component_rich_style(f"lines--{name}", partial=True)

    def strip(self, cells: Cells, width: int, under: Style | None = None) -> Strip:
        """Return cells as a line of exactly `width` cells, combined with the style `under`."""
        base = self.rich_style
        segments = []
        for text, name in cells:
            style = base if name == "plain" else base + self.style_of(name)
            segments.append(Segment(text, style + under if under else style))
        return Strip(segments).crop_extend(0, width, base + under if under else base)


Draw = Callable[[int, int], Cells]
"""Makes a row's cells from its number and the width to fill."""


class Rows(Lines):
    """List with a cursor. It keeps no rows: `draw` is called for visible ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="rows.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="rows.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="rows.page_up"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False, id="rows.page_down"),
        Binding("home,g", "go(0)", "First", show=False, id="rows.first"),
        Binding("end,G", "go(-1)", "Last", show=False, id="rows.last"),
        Binding("enter", "choose", "Open", id="rows.open"),
    ]

    class Moved(Message):
        """Message that the cursor is on another row."""

        def __init__(self, rows: Rows, row: int) -> None:
            super().__init__()
            self.rows, self.row = rows, row

        @property
        def control(self) -> Rows:
            """List whose cursor moved, by which handlers are selected."""
            return self.rows

    class Chosen(Moved):
        """Message that a row was chosen: by Enter, or by a click on the row under the cursor."""

    def __init__(self, draw: Draw, *, id: str, title: str, head: Callable[[int], str] | None = None) -> None:
        super().__init__(id=id)
        self.border_title = title
        self._draw, self._head = draw, head
        self._top = 1 if head else 0
        """Lines that stay at the top."""
        self.count = 0
        self.row = 0

    def show(self, count: int, row: int, keep_scroll: bool = False) -> None:
        """Show `count` rows with the cursor on `row`."""
        self.count, self.row = count, row
        self.virtual_size = Size(self.columns, count + self._top)
        if not keep_scroll and self.size.height:
            self._reveal()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render a line of the screen: the heading, a row made by `draw`, or nothing."""
        width, row = self.columns, y - self._top + self.scroll_offset.y
        if y < self._top and self._head is not None:
            return self.strip([(self._head(width), "dim")], width)
        if row >= self.count:
            return Strip.blank(width, self.rich_style)
        under = self.style_of("cursor") if row == self.row else None
        return self.strip(self._draw(row, width), width, under)

    def on_resize(self, _: events.Resize) -> None:
        """Keep the row under the cursor visible."""
        self.virtual_size = Size(self.columns, self.count + self._top)
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row that was clicked; a second click chooses it."""
        line = event.y - self.gutter.top
        row = line - self._top + self.scroll_offset.y
        if line >= self._top and 0 <= row < self.count:
            again = row == self.row
            self._go(row)
            if again:
                self.post_message(self.Chosen(self, row))

    def action_move(self, step: int) -> None:
        """Move the cursor by `step` rows."""
        self._go(self.row + step)

    def action_page(self, step: int) -> None:
        """Move the cursor by `step` screenfuls."""
        self._go(self.row + step * max(1, self.size.height - 1))

    def action_go(self, row: int) -> None:
        """Put the cursor on a row; a negative number means the last one."""
        self._go(row if row >= 0 else self.count - 1)

    def action_choose(self) -> None:
        """Choose the row under the cursor."""
        if self.count:
            self.post_message(self.Chosen(self, self.row))

    def _go(self, row: int) -> None:
        row = max(0, min(row, self.count - 1))
        if row == self.row or not self.count:
            return
        before, self.row = self.row, row
        for changed_row in (before, row):
            self.refresh_line(changed_row + self._top)
        self._reveal()
        self.post_message(self.Moved(self, row))

    def _reveal(self) -> None:
        self.scroll_to_region(Region(0, self.row, 1, 1 + self._top), animate=False, force=True)


class Pager(Lines):
    """Detail pane: long text, laid out once for its width, searched, selected with the mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False, id="detail.up"),
        Binding("down,j", "scroll_down", "Down", show=False, id="detail.down"),
        Binding("home,g", "scroll_home", "Top", show=False, id="detail.top"),
        Binding("end,G", "scroll_end", "End", show=False, id="detail.end"),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False, id="detail.page_up"),
        Binding("pagedown,ctrl+d,space", "page_down", "Page down", show=False, id="detail.page_down"),
    ]

    def __init__(self, *, id: str, title: str) -> None:
        super().__init__(id=id)
        self.border_title = title
        self.blocks: Sequence[TextBlock] = ()
        self.pattern = ""
        self.raw, self.shows_whole = False, False
        """True if replies are shown as they were written; true if long texts are shown in full."""
        self._page = TextLayout((), 80)
        self._width = 0

    def show(self, blocks: Sequence[TextBlock], keep_scroll: bool = False) -> None:
        """Show these blocks from their top, or (`keep_scroll`) from the current scroll position."""
        self.blocks = blocks
        self._lay_out()
        if not keep_scroll:
            self.scroll_to(0, 0, animate=False, immediate=True)

    def toggle(self, how: Literal["raw", "shows_whole"]) -> None:
        """Toggle whether replies are shown as they were written, or long texts in full."""
        setattr(self, how, not getattr(self, how))
        self._lay_out()

    def search(self, text: str) -> int:
        """Mark a text and go to its first line; return the number of lines that contain it."""
        self.pattern = text
        self._lay_out()  # a search unfolds all texts
        line_numbers = self._page.find(text)
        if line_numbers:
            self._show_line(line_numbers[0])
        self.refresh()
        return len(line_numbers)

    def next_match(self, step: int) -> bool:
        """Go to the next line with a match (the previous one for `step` -1); return False if no match follows in
        that direction."""
        top_line = self.scroll_offset.y
        further = [line for line in self._page.find(self.pattern) if (line > top_line if step > 0 else line < top_line)]
        # At the end of the text a line cannot scroll to the top: nothing further can be shown.
        if not further or (step > 0 and top_line >= self.max_scroll_y):
            return False
        self._show_line(further[0] if step > 0 else further[-1])
        return True

    def render_line(self, y: int) -> Strip:
        """Render a line of the screen: text with search matches and the selection marked."""
        width, number = self.columns, y + self.scroll_offset.y
        if number >= len(self._page.lines):
            return Strip.blank(width, self.rich_style)
        strip = self.strip(self._cells(self._page.lines[number]), width)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(number)) is not None:
            begin, end = span
            cut = strip.cell_length if end == -1 else end
            selected = strip.crop(begin, cut).apply_style(self.screen.get_component_rich_style("screen--selection"))
            strip = Strip.join([strip.crop(0, begin), selected, strip.crop(cut)])
        return strip.apply_offsets(0, number)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it is shown, and its line end."""
        return selection.extract("\n".join(line.text for line in self._page.lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Render the pane again with its selection."""
        self.refresh()

    def on_resize(self, _: events.Resize) -> None:
        """Lay the text out again if the width has changed."""
        if self.columns != self._width:
            self._lay_out()

    def _lay_out(self) -> None:
        self._width = self.columns
        unfolds = "" if self.shows_whole or self.pattern else "o"
        self._page = TextLayout(self.blocks, max(10, self._width), self.raw, unfolds)
        self.virtual_size = Size(self._width, len(self._page.lines))
        self.refresh()

    def _show_line(self, line: int) -> None:
        self.scroll_to(0, line, animate=False, immediate=True)

    def _cells(self, line: LayoutLine) -> Cells:
        marks = [(begin, end, name) for begin, end, name in line.spans]
        if self.pattern:
            marks += [(*match.span(), "hit") for match in search_pattern(self.pattern).finditer(line.text)]
        if not marks:
            return [(line.text, line.style)]
        # Later marks win; a style for every character of one line is cheap enough.
        styles = [line.style] * len(line.text)
        for begin, end, name in marks:
            styles[begin:end] = [name] * (end - begin)
        cells: Cells = []
        for letter, name in zip(line.text, styles, strict=True):
            if cells and cells[-1][1] == name:
                cells[-1] = (cells[-1][0] + letter, name)
            else:
                cells.append((letter, name))
        return cells


def type_early(line: Input | TextArea, event: events.Key) -> None:
    """Insert a letter into a line that is about to get the focus: fast typing must not be lost while a dialog opens."""
    if line.screen.focused is not None or event.character is None or not event.is_printable:
        return
    event.stop()
    if isinstance(line, Input):
        line.insert_text_at_cursor(event.character)
    else:
        line.insert(event.character)
