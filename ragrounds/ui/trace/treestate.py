"""The tree pane's state: what is folded, where the cursor is, what was searched for. Knows no terminal."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.opened import Opened
from ragrounds.ui.trace.pieces import Piece, searching
from ragrounds.ui.trace.shape import Node, walk
from ragrounds.ui.trace.wrapping import shown

_OPEN = 60
"""Nodes up to which a tree begins unfolded."""


class Branch(Struct, frozen=True):
    """A visible line of the tree."""

    node: Node
    depth: int
    folded: bool


class TreeState:
    """How an attempt's tree is looked at."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.root = opened.root
        self.folded: set[str] = set()
        self.cursor = self.root.key
        self.pattern = ""
        self._matches: list[str] = []
        self._kept: set[str] = set()
        self._parents = {child.key: node.key for node in walk(self.root) for child in node.children}
        self._nodes = {node.key: node for node in walk(self.root)}
        if len(self._nodes) > _OPEN:
            self.folded = {node.key for node in walk(self.root) if node.kind in ("group", "step")}

    @property
    def node(self) -> Node:
        """Where the cursor is."""
        return self._nodes.get(self.cursor, self.root)

    @property
    def matches(self) -> int:
        """Nodes that the search found."""
        return len(self._matches)

    def branches(self) -> list[Branch]:
        """The lines of the tree as it is folded; while something is searched for, what holds it and the way there."""
        made: list[Branch] = []

        def add(node: Node, depth: int) -> None:
            if self.pattern and node.key not in self._kept:
                return
            folded = node.key in self.folded and bool(node.children)
            made.append(Branch(node, depth, folded))
            if not folded:
                for child in node.children:
                    add(child, depth + 1)

        add(self.root, 0)
        return made

    def row(self) -> int:
        """The cursor's line among :meth:`branches`."""
        keys = [branch.node.key for branch in self.branches()]
        return keys.index(self.cursor) if self.cursor in keys else 0

    def move(self, row: int) -> None:
        """Put the cursor on a visible line."""
        branches = self.branches()
        self.cursor = branches[max(0, min(row, len(branches) - 1))].node.key

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
        inner = {node.key for node in walk(self.root) if node.children and node is not self.root}
        self.folded = inner if fold else set()
        while fold and self._parents.get(self.cursor) in inner:
            self.cursor = self._parents[self.cursor]

    def search(self, text: str) -> int:
        """Keep the nodes in whose texts `text` stands, and those above them. Returns how many hold it."""
        self.pattern, self._matches, self._kept = text, [], {self.root.key}
        if not text:
            return 0
        wanted = searching(text)
        for node in walk(self.root):
            pieces = () if node.kind in ("group", "round") else detail(self.opened, node)
            if any(wanted.search(shown(piece.text)) for piece in pieces):
                self._matches.append(node.key)
                key: str | None = node.key
                while key is not None and key not in self._kept:
                    self._kept.add(key)
                    key = self._parents.get(key)
        for key in self._kept:
            self.folded.discard(key)
        return len(self._matches)

    def next_match(self, step: int) -> bool:
        """Go to the next node that the search found, or to the one before; round the end."""
        order = [node.key for node in walk(self.root)]
        if not self._matches:
            return False
        here, places = order.index(self.cursor), [order.index(key) for key in self._matches]
        if step < 0:
            places.reverse()
        beyond = [place for place in places if (place > here if step > 0 else place < here)]
        self.cursor = order[(beyond or places)[0]]
        return True

    def pieces(self) -> list[Piece]:
        """What the detail pane shows."""
        return detail(self.opened, self.node)

    def adopt(self, other: TreeState) -> None:
        """Take over what another opening of the same attempt had folded, chosen and searched for."""
        self.folded = {key for key in other.folded if key in self._nodes}
        self.cursor = other.cursor if other.cursor in self._nodes else self.root.key
        if other.pattern:
            self.search(other.pattern)
