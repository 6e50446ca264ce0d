"""The tree pane's state: what is folded, where the cursor is, what was searched for. Knows no terminal.

Rows of the list and the tree as cells, for the width there is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.store.summaries import AttemptSummary
from ragrounds.records import Run
from ragrounds.ui.text import UNKNOWN, duration, one_line, safe, tokens
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.layout import Cells, TextBlock, fit, searching, shown
from ragrounds.ui.trace.tree import LoadedAttempt, Node, NodeFigures, walk

_OPEN = 60
"""Nodes up to which a tree begins unfolded."""


class TreeLine(Struct, frozen=True):
    """A visible line of the tree."""

    node: Node
    depth: int
    folded: bool


class TreeState:
    """How an attempt's tree is looked at."""

    def __init__(self, opened: LoadedAttempt) -> None:
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

    def branches(self) -> list[TreeLine]:
        """The lines of the tree as it is folded; while something is searched for, what holds it and the way there."""
        made: list[TreeLine] = []

        def add(node: Node, depth: int) -> None:
            if self.pattern and node.key not in self._kept:
                return
            folded = node.key in self.folded and bool(node.children)
            made.append(TreeLine(node, depth, folded))
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

    def pieces(self) -> list[TextBlock]:
        """What the detail pane shows."""
        return detail(self.opened, self.node)

    def adopt(self, other: TreeState) -> None:
        """Take over what another opening of the same attempt had folded, chosen and searched for."""
        self.folded = {key for key in other.folded if key in self._nodes}
        self.cursor = other.cursor if other.cursor in self._nodes else self.root.key
        if other.pattern:
            self.search(other.pattern)


Measure = str
MEASURES = ("time", "tokens", "cost")
"""What a share bar can be a share of."""

_COMMON = 6
"""Characters that names must have in common to be left out."""
_OPTIONAL = ((30, "calls", 5), (56, "time", 7), (64, "tokens", 6), (76, "cost_uncached", 8))
"""Columns of the list: from which width on, name, cells."""
_TROUBLE = {
    "failed": "! ",
    "capped": "^ ",
    "blocked": "x ",
    "paused": "= ",
    "refused": "x ",
    "abstained": "~ ",
    "unreadable": "? ",
}


def mark(outline: AttemptSummary) -> tuple[str, str]:
    """An attempt's outcome in one sign, with its style: ✓ right, ✗ wrong, ½ partly, ! failed, x refused, ^ capped,
    ~ abstained, ? unreadable, · not run. A sign that says why stands before one that says wrong."""
    if outline.outcome == "not_run":
        return "· ", "dim"
    if outline.value is not None and outline.value >= 1:
        return "✓ ", "right"
    if outline.outcome in _TROUBLE:
        return _TROUBLE[outline.outcome], "trouble"
    if outline.value is None:
        return "- ", "dim"
    return ("✗ ", "wrong") if outline.value <= 0 else ("½ ", "key")


def short_names(runs: Sequence[Run]) -> dict[str, str]:
    """Run id → the agent's name for a narrow column, without what all of them begin with; empty for one run."""
    if len(runs) < 2:
        return {}
    agents = [run.agent for run in runs]
    common = len(list(itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*agents, strict=False))))
    cut = common if _COMMON < common < min(map(len, agents)) else 0
    return {run.id: ("…" if cut else "") + safe(run.agent[cut:]) for run in runs}


def attempt_cells(outline: AttemptSummary | None, width: int, agents: Mapping[str, str]) -> Cells:
    """A row of the list: mark, score, then what there is room for, agent, question."""
    if outline is None:
        return [("…", "dim")]
    sign, style = mark(outline)
    score = UNKNOWN if outline.value is None else f"{outline.value:.2f}".removesuffix("0").removesuffix(".0")
    ran = outline.outcome != "not_run"
    texts = {
        "calls": f"{outline.calls}" if ran else "",
        "time": duration(outline.seconds) if ran else "",
        "tokens": tokens(outline.tokens) if ran else "",
        "cost_uncached": money(outline.cost_uncached) if ran else "",
    }
    shown, size, rest = _columns(width, agents)
    cells: Cells = [(f"{sign}{fit(score, 5, right=True)} ", style)]
    cells += [(fit(texts[name], length, right=True) + " ", "dim") for name, length in shown]
    if size:
        cells.append((fit(agents.get(outline.run.id, ""), size) + " ", "key"))
    epoch = f"#{outline.epoch} " if outline.run.epochs > 1 else ""
    name = one_line(outline.question.id[:80], 60)
    text = one_line(outline.question.text[: max(0, rest) * 2], max(2, rest + 1))
    cells.append((fit(f"{epoch}{name}  {text}", rest), "plain"))
    return cells


def attempt_heading(width: int, agents: Mapping[str, str]) -> str:
    """The names of the columns of :func:`attempt_cells`."""
    shown, size, _ = _columns(width, agents)
    names = ["  score", *(fit(name, length, right=True) for name, length in shown)]
    return " ".join([*names, *([fit("agent", size)] if size else []), "question"])


def _columns(width: int, agents: Mapping[str, str]) -> tuple[list[tuple[str, int]], int, int]:
    """Columns that a list of `width` has room for, the cells of the agent's and those of the question's."""
    shown = [(name, length) for least, name, length in _OPTIONAL if width >= least]
    rest = width - 8 - sum(length + 1 for _, length in shown)
    size = min(max(map(len, agents.values())), max(4, rest // 3)) if agents else 0
    return shown, size, rest - (size + 1 if size else 0)


def branch_cells(branch: TreeLine, total: NodeFigures, width: int, measure: Measure) -> Cells:
    """A row of the tree: name, share bar, time, tokens, cost."""
    node = branch.node
    fold = "  " if not node.children else "▸ " if branch.folded else "▾ "
    style = "trouble" if node.troubled else "heading" if node.kind == "attempt" else "plain"
    columns, room = figure_cells(node, total, width, measure)
    label = "! " * node.troubled + one_line(node.label[:300], 200)
    return [(fit("  " * branch.depth + fold + label, room), style), *columns]


def figure_heading(width: int) -> str:
    """The names of the columns of :func:`branch_cells`."""
    columns = [fit(" share", 9)] if width >= 56 else ["share"] if width >= 34 else []
    columns.append(fit("time", 8, right=True))
    columns += [fit("tokens", 7, right=True)] if width >= 30 else []
    columns += [fit("cost_uncached", 8, right=True)] if width >= 44 else []
    figures = "".join(columns)
    return fit("  step", width - len(figures)) + figures


def figure_cells(node: Node, total: NodeFigures, width: int, measure: Measure) -> tuple[Cells, int]:
    """A node's figures for a pane of `width`, and the cells that they leave for its name."""
    figures = node.figures
    columns: Cells = []
    bars = 8 if width >= 56 else 4 if width >= 34 else 0
    if bars:
        columns.append((" " + bar(share(figures, total, measure), bars), "bar"))
    columns.append((fit(duration(figures.seconds), 8, right=True), "dim"))
    if width >= 30:
        columns.append((fit(tokens(figures.tokens), 7, right=True), "dim"))
    if width >= 44:
        columns.append((fit(money(figures.cost), 8, right=True), "dim"))
    used = sum(len(text) for text, _ in columns)
    return columns, max(0, width - used)


def money(value: float | None) -> str:
    """Dollars for a narrow column; an unknown cost is a question mark, never 0."""
    if value is None:
        return "$?"
    return f"${value:.2f}" if value == 0 or value >= 0.1 else f"${value:.2g}" if value >= 1e-4 else f"${value:.0e}"


def share(figures: NodeFigures, total: NodeFigures, measure: Measure) -> float:
    """A node's part of the attempt's time, tokens or cost."""
    name = {"time": "seconds"}.get(measure, measure)
    part, whole = getattr(figures, name), getattr(total, name)
    return min(1.0, part / whole) if part and whole else 0.0


def bar(value: float, width: int) -> str:
    """A bar of `width` cells, in eighths."""
    eighths = round(value * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)[:width]
