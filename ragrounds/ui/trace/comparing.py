"""The compare screen's state: two agents' attempts at one question, their trees aligned. Knows no terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from msgspec import Struct

from ragrounds.evals.store.pages import Pages
from ragrounds.ui.trace.opened import Opened
from ragrounds.ui.trace.shape import Node, walk

Which = Literal["differ", "first", "second"]
WHICH: tuple[Which, ...] = ("differ", "first", "second")


class Difference(Struct, frozen=True):
    """A question that two runs answered with different success."""

    question_id: str
    epoch: int
    row: int
    """The first run's place in the pages."""
    first: float
    second: float


class Side(Struct, frozen=True):
    """A line of two trees side by side; ``None``: the other has no such part."""

    depth: int
    left: Node | None
    right: Node | None


def differences(pages: Pages, first: int, second: int) -> list[Difference]:
    """Questions that two runs (by their place in the pages) did not answer equally well."""
    return [Difference(*found) for found in pages.differing(first, second)]


class Comparing:
    """Two runs of the pages against each other."""

    def __init__(self, pages: Pages, first: int, second: int, found: Sequence[Difference]) -> None:
        self.pages = pages
        self.first, self.second = first, second
        self.found = tuple(found)
        self.which: Which = "differ"
        self.row = 0

    @property
    def shown(self) -> list[Difference]:
        """The questions of the list."""
        if self.which == "first":
            return [one for one in self.found if one.first >= 1 > one.second]
        if self.which == "second":
            return [one for one in self.found if one.second >= 1 > one.first]
        return list(self.found)

    def choose(self, which: Which) -> None:
        """Show the questions that only one of them gets right, or all on which they differ."""
        self.which, self.row = which, 0

    def opened(self, row: int | None = None) -> tuple[Opened, Opened] | None:
        """Both attempts at a question of the list."""
        shown = self.shown
        at = self.row if row is None else row
        return self.at_place(shown[at].row) if 0 <= at < len(shown) else None

    def at_place(self, index: int) -> tuple[Opened, Opened] | None:
        """Both attempts at the question of a row of the first run; ``None``: the second was not asked it."""
        one = self.pages.read([index])
        if not one:
            return None
        against = self.pages.row_of(self.second, one[0].question.id, one[0].epoch)
        other = self.pages.read([against]) if against is not None else []
        return (Opened(self.pages, one[0]), Opened(self.pages, other[0])) if other else None


def align(left: Node, right: Node) -> list[Side]:
    """Two attempts' steps, equal nodes beside each other, with their calls."""
    lines = [Side(0, left, right)]
    for one, other in _matched(_steps(left), _steps(right)):
        lines.append(Side(1, one, other))
        calls = (one.children if one else (), other.children if other else ())
        lines += [Side(2, call, against) for call, against in _matched(*calls)]
    return lines


def _steps(root: Node) -> list[Node]:
    return [node for node in walk(root) if node.kind == "step"]


def _matched(left: Sequence[Node], right: Sequence[Node]) -> Iterator[tuple[Node | None, Node | None]]:
    # A search is the same step whatever number of passages it found.
    ones, others = ([node.label.partition(" -> ")[0] for node in nodes] for nodes in (left, right))
    for tag, a, b, c, d in difflib.SequenceMatcher(None, ones, others, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip_longest(left[a:b], right[c:d])
        else:
            yield from ((node, None) for node in left[a:b])
            yield from ((None, node) for node in right[c:d])
