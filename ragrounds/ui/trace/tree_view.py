"""An attempt's tree as it is shown, without a terminal: folded, searched, with figures, beside another attempt's."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.ui.text import duration, tokens
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.layout import Cells, TextBlock, fit, narrow_dollars, search_pattern, shown
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.tree import Node, NodeFigures, walk

_OPEN = 60
"""Nodes up to which a tree begins unfolded."""
_COLUMNS = (("share", 6, 60), ("time", 0, 34), ("tokens", 8, 68), ("full price", 11, 78))
"""The figures of a node: cells (0: what the time of the whole needs), and cells of a pane from which on it has them."""
_NO_FIGURES = NodeFigures()
_DEEPEST = 12
"""Levels by which a line is set in at most."""


class TreeLine(Struct, frozen=True):
    """A visible line of the tree."""

    node: Node
    depth: int
    folded: bool


class TreeState:
    """How an attempt's tree is looked at: what is folded, where the cursor is, what was searched for."""

    def __init__(self, loaded: LoadedAttempt) -> None:
        self.loaded = loaded
        self.root = loaded.root
        self.folded: set[str] = set()
        self.cursor = self.root.key
        self.pattern = ""
        self._matches: list[str] = []
        self._kept: set[str] = set()
        self._parents = {child.key: node.key for node in walk(self.root) for child in node.children}
        self._nodes = {node.key: node for node in walk(self.root)}
        if len(self._nodes) > _OPEN:
            self.folded = {node.key for node in walk(self.root) if node.kind in ("round", "step") and node.children}

    @property
    def node(self) -> Node:
        """The node under the cursor."""
        return self._nodes.get(self.cursor, self.root)

    def lines(self) -> list[TreeLine]:
        """The lines of the tree as it is folded; while something is searched for, what holds it and the way there."""
        made: list[TreeLine] = []

        def _add(node: Node, depth: int) -> None:
            if self.pattern and node.key not in self._kept:
                return
            folded = node.key in self.folded and bool(node.children)
            made.append(TreeLine(node, depth, folded))
            if not folded:
                for child in node.children:
                    _add(child, depth + 1)

        _add(self.root, 0)
        return made

    def row(self) -> int:
        """The cursor's line among :meth:`lines`."""
        keys = [line.node.key for line in self.lines()]
        return keys.index(self.cursor) if self.cursor in keys else 0

    def move(self, row: int) -> None:
        """Put the cursor on a visible line."""
        lines = self.lines()
        self.cursor = lines[max(0, min(row, len(lines) - 1))].node.key

    def go_to(self, key: str) -> bool:
        """Put the cursor on a node by its key, unfolding what hides it; return whether there is such a node."""
        if key not in self._nodes:
            return False
        above = self._parents.get(key)
        while above is not None:
            self.folded.discard(above)
            above = self._parents.get(above)
        self.cursor = key
        return True

    def toggle(self, folded: bool | None = None) -> None:
        """Fold or unfold the node under the cursor; folding what has nothing below goes to its parent."""
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
        """Show only the nodes whose texts hold `text`, and those above them; return how many hold it."""
        self.pattern, self._matches, self._kept = text, [], {self.root.key}
        if not text:
            return 0
        wanted = search_pattern(text)
        for node in walk(self.root):
            blocks = () if node.kind == "round" else detail(self.loaded, node)
            if any(wanted.search(shown(block.text)) for block in blocks if not block.elsewhere):
                self._matches.append(node.key)
                key: str | None = node.key
                while key is not None and key not in self._kept:
                    self._kept.add(key)
                    key = self._parents.get(key)
        for key in self._kept:
            self.folded.discard(key)
        return len(self._matches)

    def next_match(self, step: int) -> bool:
        """Go to the next node that the search found (for `step` -1 the one before), round the end; return whether there
        is one."""
        order = [node.key for node in walk(self.root)]
        if not self._matches:
            return False
        here, places = order.index(self.cursor), [order.index(key) for key in self._matches]
        if step < 0:
            places.reverse()
        beyond = [place for place in places if (place > here if step > 0 else place < here)]
        self.cursor = order[(beyond or places)[0]]
        return True

    def blocks(self) -> list[TextBlock]:
        """The detail of the node under the cursor."""
        return detail(self.loaded, self.node)

    def adopt(self, other: TreeState) -> None:
        """Take over the folds, the cursor and the search from an older state of the same attempt."""
        self.folded = {key for key in other.folded if key in self._nodes}
        self.cursor = other.cursor if other.cursor in self._nodes else self.root.key
        if other.pattern:
            self.search(other.pattern)


def tree_cells(line: TreeLine, total: NodeFigures, width: int) -> Cells:
    """The cells of a line: what happened, share bar, time, tokens, cost, as far as `width` has room."""
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


def row_cells(node: Node, depth: int, fold: str, width: int, folded: bool = False) -> Cells:
    """What a node's row says, in `width` cells, behind ``!`` where something is amiss."""
    style = "trouble" if node.troubled else "heading" if node.kind in ("attempt", "round") else "key"
    signs = "  " * min(depth, _DEEPEST) + fold + "! " * node.troubled
    row = node.folded if folded else node.row
    return [(signs, style), *row.cells(max(0, width - len(signs)), style)]


def figure_heading(width: int, total: NodeFigures = _NO_FIGURES) -> str:
    """The headings of the columns of :func:`tree_cells` for an attempt that took `total`."""
    figures = "".join(fit(name, size, right=name != "share") for name, size in _columns(width, total))
    return fit("  what happened", width - len(figures)) + figures


def _columns(width: int, total: NodeFigures) -> list[tuple[str, int]]:
    """The columns that there is room for, with their cells."""
    clock = max(7, min(12, len(duration(total.seconds)) + 1))
    return [(name, size or clock) for name, size, least in _COLUMNS if width >= least]


def share(figures: NodeFigures, total: NodeFigures) -> float:
    """A node's part of the attempt's time, from 0 to 1; 0 where either is not known."""
    return min(1.0, figures.seconds / total.seconds) if figures.seconds and total.seconds else 0.0


def bar(value: float, width: int) -> str:
    """A bar of `width` cells for a value from 0 to 1, drawn to an eighth of a cell."""
    eighths = round(value * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)[:width]
