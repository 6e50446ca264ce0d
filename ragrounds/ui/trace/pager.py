"""The detail pane: long text, laid out once for its width, drawn line by line, searched, selected with the mouse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip

from ragrounds.ui.trace.lines import Lines
from ragrounds.ui.trace.pieces import Cells, Line, Page, Piece, searching


class Pager(Lines):
    """Shows pieces of text."""

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
        self.pieces: Sequence[Piece] = ()
        self.markdown = False
        self.pattern = ""
        self._page = Page((), 80)
        self._width = 0

    def show(self, pieces: Sequence[Piece], keep_scroll: bool = False) -> None:
        """Show other pieces, from their top."""
        self.pieces = pieces
        self._lay_out()
        if not keep_scroll:
            self.scroll_to(0, 0, animate=False, immediate=True)

    def toggle_markdown(self) -> None:
        """Replies as Markdown, or as they were written."""
        self.markdown = not self.markdown
        self._lay_out()

    def search(self, text: str) -> int:
        """Mark a text and go to its first line. Returns how many lines hold it."""
        self.pattern = text
        found = self._page.find(text)
        if found:
            self._show_line(found[0])
        self.refresh()
        return len(found)

    def next_match(self, step: int) -> bool:
        """Go to the next line that the search found (or the one before), if there is one."""
        here = self.scroll_offset.y
        found = [line for line in self._page.find(self.pattern) if (line > here if step > 0 else line < here)]
        # At the end of the text the line cannot come to the top: there is nothing further to show.
        if not found or (step > 0 and here >= self.max_scroll_y):
            return False
        self._show_line(found[0] if step > 0 else found[-1])
        return True

    def render_line(self, y: int) -> Strip:
        width, number = self.size.width, y + self.scroll_offset.y
        if number >= len(self._page.lines):
            return Strip.blank(width, self.rich_style)
        strip = self.strip(self._cells(self._page.lines[number]), width)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(number)) is not None:
            begin, end = span
            cut = strip.cell_length if end == -1 else end
            chosen = strip.crop(begin, cut).apply_style(self.screen.get_component_rich_style("screen--selection"))
            strip = Strip.join([strip.crop(0, begin), chosen, strip.crop(cut)])
        return strip.apply_offsets(0, number)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What is selected, as it is shown."""
        return selection.extract("\n".join(line.text for line in self._page.lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()

    def on_resize(self, _: events.Resize) -> None:
        if self.size.width != self._width:
            self._lay_out()

    def _lay_out(self) -> None:
        self._width = self.size.width
        self._page = Page(self.pieces, max(10, self._width - 1), self.markdown)
        self.virtual_size = Size(self._width, len(self._page.lines))
        self.refresh()

    def _show_line(self, line: int) -> None:
        self.scroll_to(0, line, animate=False, immediate=True)

    def _cells(self, line: Line) -> Cells:
        marks = [(begin, end, name) for begin, end, name in line.spans]
        if self.pattern:
            marks += [(*match.span(), "hit") for match in searching(self.pattern).finditer(line.text)]
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
