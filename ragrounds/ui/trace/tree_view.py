"""Tree of an attempt as it is shown, without a terminal: folded, searched, with figures."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.ui.text import duration, tokens
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.layout import Cells, TextBlock, fit, narrow_dollars, search_pattern, shown_text
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.tree import Node, NodeFigures, walk

_OPEN = 60
"""Maximal number of nodes of a tree that is unfolded at first."""
_COLUMNS = (("share", 6, 60), ("time", 0, 34), ("tokens", 8, 68), ("full price", 11, 78))
"""Figures of a node: name, cells (0: depends on the total time), minimal cells of the pane for the column."""
_DEEPEST = 12
"""Maximal levels of indentation."""


class TreeLine(Struct, frozen=True):
    """Visible line of the tree."""

    node: Node
    depth: int
    folded: bool


class TreeState:
    """State of an attempt's tree: folded nodes, cursor, search."""

    def __init__(self, loaded: LoadedAttempt) -> None:
        self.loaded = loaded
        self.root = loaded.root
        self.folded: set[str] = set()
        self.cursor = self.root.key
        self.pattern = ""
        self._matches: list[str] = []
        self._visible_keys: set[str] = set()
        self._parents = {child.key: node.key for node in walk(self.root) for child in node.children}
        self._nodes = {node.key: node for node in walk(self.root)}
        if len(self._nodes) > _OPEN:
            self.folded = {node.key for node in walk(self.root) if node.kind in ("round", "step") and node.children}

    @property
    def node(self) -> Node:
        """Node under the cursor."""
        return self._nodes.get(self.cursor, self.root)

    def lines(self) -> list[TreeLine]:
        """Return the visible lines of the tree. During a search these are the matching nodes and the nodes above
        them."""
        visible_lines: list[TreeLine] = []

        def _add(node: Node, depth: int) -> None:
            if self.pattern and node.key not in self._visible_keys:
                return
            folded = node.key in self.folded and bool(node.children)
            visible_lines.append(TreeLine(node, depth, folded))
            if not folded:
                for child in node.children:
                    _add(child, depth + 1)

        _add(self.root, 0)
        return visible_lines

    def row(self) -> int:
        """Return the cursor's line among :meth:`lines`."""
        keys = [line.node.key for line in self.lines()]
        return keys.index(self.cursor) if self.cursor in keys else 0

    def move(self, row: int) -> None:
        """Put the cursor on a visible line."""
        lines = self.lines()
        self.cursor = lines[max(0, min(row, len(lines) - 1))].node.key

    def go_to(self, key: str) -> bool:
        """Put the cursor on a node by its key and unfold the nodes above; return False if the key is unknown."""
        if key not in self._nodes:
            return False
        above = self._parents.get(key)
        while above is not None:
            self.folded.discard(above)
            above = self._parents.get(above)
        self.cursor = key
        return True

    def toggle(self, folded: bool | None = None) -> None:
        """Fold or unfold the node under the cursor; folding a node without visible children moves to its parent."""
        node = self.node
        fold = node.key not in self.folded if folded is None else folded
        if fold and (not node.children or node.key in self.folded):
            self.cursor = self._parents.get(node.key, node.key)
        elif fold:
            self.folded.add(node.key)
        else:
            self.folded.discard(node.key)

    def fold_all(self, fold: bool) -> None:
        """Fold or unfold every node below the attempt."""
        parents = {node.key for node in walk(self.root) if node.children and node is not self.root}
        self.folded = parents if fold else set()
        while fold and self._parents.get(self.cursor) in parents:
            self.cursor = self._parents[self.cursor]

    def search(self, text: str) -> int:
        """Show only the nodes whose texts contain `text`, and the nodes above them; return the number of matching
        nodes."""
        self.pattern, self._matches, self._visible_keys = text, [], {self.root.key}
        if not text:
            return 0
        pattern = search_pattern(text)
        for node in walk(self.root):
            blocks = () if node.kind == "round" else detail(self.loaded, node, rows=False)
            if any(pattern.search(shown_text(block.text)) for block in blocks):
                self._matches.append(node.key)
                key: str | None = node.key
                while key is not None and key not in self._visible_keys:
                    self._visible_keys.add(key)
                    key = self._parents.get(key)
        for key in self._visible_keys:
            self.folded.discard(key)
        return len(self._matches)

    def next_match(self, step: int) -> bool:
        """Go to the next match of the search (the previous one for `step` -1), continuing from the other end.

        Returns False if the search has no match.
        """
        order = {node.key: index for index, node in enumerate(walk(self.root))}
        if not self._matches:
            return False
        current = step * order[self.cursor]
        matches = self._matches[::step]
        self.cursor = next((key for key in matches if step * order[key] > current), matches[0])
        return True

    def blocks(self) -> list[TextBlock]:
        """Return the detail of the node under the cursor."""
        return detail(self.loaded, self.node)

    def adopt(self, other: TreeState) -> None:
        """Take over the folds, the cursor and the search from an older state of the same attempt."""
        self.folded = {key for key in other.folded if key in self._nodes}
        self.cursor = other.cursor if other.cursor in self._nodes else self.root.key
        if other.pattern:
            self.search(other.pattern)


def tree_cells(line: TreeLine, total: NodeFigures, width: int) -> Cells:
    """Return the cells of a line: text, share bar, time, tokens, cost, as far as `width` allows."""
    node, columns = line.node, _columns(width, total)
    fold = "  " if not node.children else "▸ " if line.folded else "▾ "
    texts = {
        "share": " " + bar(share(node.figures, total), 5),
        "time": duration(node.figures.seconds),
        "tokens": tokens(node.figures.tokens),
        "full price": narrow_dollars(node.figures.cost),
    }
    room = max(0, width - sum(size for _, size in columns))
    figures = [
        (fit(texts[name], size, right=name != "share"), "bar" if name == "share" else "dim") for name, size in columns
    ]
    return [*row_cells(node, line.depth, fold, room, line.folded), *figures]


def row_cells(node: Node, depth: int, fold: str, width: int, folded: bool) -> Cells:
    """Return a node's row in `width` cells, with ``!`` before it if it has an error."""
    style = "trouble" if node.troubled else "heading" if node.kind in ("attempt", "round") else "key"
    signs = "  " * min(depth, _DEEPEST) + fold + "! " * node.troubled
    row = (folded and node.folded) or node.row
    return [(signs, style), *row.cells(max(0, width - len(signs)), style)]


def figure_heading(width: int, total: NodeFigures | None) -> str:
    """Return the headings of the columns of :func:`tree_cells` for an attempt with the figures `total`."""
    columns = _columns(width, total or NodeFigures())
    figures = "".join(fit(name, size, right=name != "share") for name, size in columns)
    return fit("  what happened", width - len(figures)) + figures


def _columns(width: int, total: NodeFigures) -> list[tuple[str, int]]:
    """Return the columns that fit, with their cells."""
    clock = max(7, min(12, len(duration(total.seconds)) + 1))
    return [(name, size or clock) for name, size, least in _COLUMNS if width >= least]


def share(figures: NodeFigures, total: NodeFigures) -> float:
    """Return a node's part of the attempt's time, from 0 to 1; 0 if either is unknown."""
    return min(1.0, figures.seconds / total.seconds) if figures.seconds and total.seconds else 0.0


def bar(value: float, width: int) -> str:
    """Return a bar of `width` cells for a value from 0 to 1, exact to an eighth of a cell."""
    eighths = round(value * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)[:width]
