"""Paragraphs, headings and table rows, put together from the parts of a page as its tags open and close.

HTML and JATS hand in the same few events, so that both are read alike: text inside a paragraph is joined as in the page
(``H<sub>2</sub>O`` is one word), a paragraph ends where a block begins or ends, and a row of a table is one line,
``| cell | cell |``. A row with one cell is layout and not a table: its paragraphs stay paragraphs. Nothing recurses."""

from __future__ import annotations

from typing import NamedTuple

_DEEPEST = 20
"""Depth of nested tables that is distinguished. Deeper tables are read as paragraphs."""
_LARGEST = 1000
"""Number of characters of rows that make one block.

A long table is several blocks, so that chunkers can cut it between rows.
"""


class Block(NamedTuple):
    """A paragraph, a heading or table rows."""

    text: str
    level: int = 0
    """Level of a heading, from 1; 0 for a paragraph."""
    row: bool = False

    def markdown(self) -> str:
        """Return the block as text. A paragraph that begins like a heading is marked, as Markdown marks it."""
        return f"{'#' * self.level} {self.text}" if self.level else paragraph(self.text)


def paragraph(text: str) -> str:
    """Return a paragraph. If it begins like a heading, it is marked as Markdown marks it."""
    return f"\\{text}" if text.startswith("#") else text


class Opened:
    """A table, row or cell that is open."""

    def __init__(self, kind: str, implied: bool = False) -> None:
        self.kind = kind
        self.implied = implied
        self.blocks: list[Block] = []
        self.cells: list[list[Block]] = []


class Blocks:
    """Collector of the parts of a page in their order."""

    def __init__(self) -> None:
        self._root = Opened("page")
        self._open = [self._root]
        self._pending: list[str] = []
        self._label = False

    def add(self, text: str) -> None:
        """Add text of the page, unchanged."""
        self._pending.append(text)
        if self._label and text.strip():
            self._label = False

    def label(self) -> None:
        """Mark the added text as a part of the next paragraph: a number of a list, ``Table 1``."""
        if "".join(self._pending).strip():
            self._pending.append(" ")
            self._label = True

    def end(self, level: int = 0) -> None:
        """End a paragraph, if there is one. For a heading its level is passed."""
        if self._label:
            return
        text = " ".join("".join(self._pending).split())
        self._pending.clear()
        if text:
            while self._open[-1].kind == "row" and self._open[-1].implied:
                self._close_last()
            holder = next(part for part in reversed(self._open) if part.kind in ("cell", "table", "page"))
            holder.blocks.append(Block(text, level))

    def finish(self) -> None:
        """End a paragraph, even if it is a label alone, since the part that it belongs to is over."""
        self._label = False
        self.end()

    def table(self, kind: str) -> Opened | None:
        """Begin a ``table``, ``row`` or ``cell``. The result is passed to :meth:`close`. Missing ends are added."""
        self.finish()
        if kind == "table":
            if len(self._open) > 3 * _DEEPEST:
                return None
        else:
            if self._open[-1].kind == "cell":
                self._close_last()
            if kind == "row" and self._open[-1].kind == "row":
                self._close_last()
            if kind == "cell" and self._open[-1].kind != "row":
                if len(self._open) > 3 * _DEEPEST:
                    return None
                self._open.append(Opened("row", implied=True))
            if kind == "row" and len(self._open) > 3 * _DEEPEST:
                return None
        opened = Opened(kind)
        self._open.append(opened)
        return opened

    def close(self, opened: Opened | None) -> None:
        """End the part that :meth:`table` began, with everything that is open inside."""
        if opened is None or not any(part is opened for part in self._open):
            self.end()
            return
        self.finish()
        while self._close_last() is not opened:
            pass

    def done(self) -> list[Block]:
        """Return all blocks in their order, after ending every open part."""
        self.finish()
        while len(self._open) > 1:
            self._close_last()
        return self._root.blocks

    def _close_last(self) -> Opened:
        """Close the innermost open part, and hand its content to the part around it."""
        last = self._open.pop()
        outer = self._open[-1]
        if last.kind == "cell":
            outer.cells.append(last.blocks)
        elif last.kind == "row":
            outer.blocks += _row(last)
        else:
            outer.blocks += _joined_rows(last.blocks)
        return last


def _row(row: Opened) -> list[Block]:
    """Return a row as one block; its paragraphs unchanged if it has only one filled cell."""
    filled = [cell for cell in row.cells if cell]
    if len(filled) < 2:
        return [*row.blocks, *(block for cell in filled for block in cell)]
    texts = (" ".join(block.text for block in cell).replace("|", "\\|") for cell in row.cells)
    return [*row.blocks, Block(" ".join(f"| {' '.join(text.split())}".rstrip() for text in texts) + " |", row=True)]


def _joined_rows(blocks: list[Block]) -> list[Block]:
    """Join consecutive rows to blocks of limited length."""
    merged: list[Block] = []
    for block in blocks:
        if block.row and merged and merged[-1].row and len(merged[-1].text) + len(block.text) < _LARGEST:
            merged[-1] = Block(f"{merged[-1].text}\n{block.text}", row=True)
        else:
            merged.append(block)
    return merged
