"""The list pane's state: which rows are shown in which order, where the cursor is. Knows no terminal.

The compare screen's state: two agents' attempts at one question, their trees aligned. Knows no terminal.
"""

from __future__ import annotations

import difflib
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.evals.store.summaries import AttemptSummary, Filter, Pages, SortBy
from ragrounds.ui.trace.tree import LoadedAttempt, Node, walk

_AROUND = 60
"""Rows read at a time: about a screenful."""
_SEEK = 400
"""Rows passed over at a time when the next wrong one is looked for."""


def is_wrong(outline: AttemptSummary) -> bool:
    """Scored below full marks."""
    return outline.wrong


def is_troubled(outline: AttemptSummary) -> bool:
    """Ended by an error, a refusal or a cap."""
    return outline.troubled


class AttemptList:
    """Rows of some runs, filtered and sorted. Only rows near those shown are in memory."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.filter = Filter()
        self.sort: SortBy = "asked"
        self.descending = True
        self.row = 0
        self.order: array[int] | None = None
        """Places of the rows, in the order shown; ``None``: all of them, as they were asked."""
        self._near: dict[int, AttemptSummary] = {}

    def __len__(self) -> int:
        return len(self.pages) if self.order is None else len(self.order)

    @property
    def current(self) -> AttemptSummary | None:
        """The row under the cursor."""
        return self.at(self.row)

    def at(self, row: int) -> AttemptSummary | None:
        """A row; ``None`` beyond the last."""
        if not 0 <= row < len(self):
            return None
        if row not in self._near:
            start = max(0, row - _AROUND // 2)
            rows = range(start, min(start + _AROUND, len(self)))
            if len(self._near) > 8 * _AROUND:
                self._near.clear()
            known = {outline.index: outline for outline in self.pages.read(self._index(each) for each in rows)}
            self._near.update({each: known[index] for each in rows if (index := self._index(each)) in known})
        return self._near.get(row)

    def move(self, row: int) -> None:
        """Put the cursor on a row, the nearest there is."""
        self.row = max(0, min(row, len(self) - 1))

    def forget(self) -> None:
        """What was read may have changed: read it again when it is shown."""
        self._near.clear()

    def arrange(self, order: array[int] | None, wanted: Filter, sort: SortBy, descending: bool = True) -> None:
        """Take an order that :meth:`Pages.order` made; the cursor stays on its row where that is still shown."""
        here = self._index(self.row) if len(self) else 0
        self.order, self.filter, self.sort, self.descending = order, wanted, sort, descending
        self._near.clear()
        if order is None:
            self.move(here)
        else:
            self.move(order.index(here) if here in order else 0)

    def make_order(self, wanted: Filter, sort: SortBy, descending: bool = True) -> array[int] | None:
        """The order for :meth:`arrange`: the slow part, for another thread."""
        return self.pages.order(wanted, sort, descending) if wanted or sort != "asked" else None

    def seek(self, step: int, wanted: Callable[[AttemptSummary], bool]) -> int | None:
        """The next row (the one before, for `step` -1) that is wanted, round the end; for another thread."""
        total, order = len(self), self.order
        rows = ((self.row + step * ahead) % total for ahead in range(1, total + 1))
        for chunk in _chunks(rows, _SEEK):
            indices = [order[row] if order is not None else row for row in chunk]
            known = {outline.index: outline for outline in self.pages.read(indices)}
            for row, index in zip(chunk, indices, strict=True):
                if index in known and wanted(known[index]):
                    return row
        return None

    def without_text(self) -> Filter:
        """The filter apart from its text."""
        return replace(self.filter, text="")

    def said(self) -> str:
        """The filter and the order, in words."""
        wanted = self.filter
        parts = [f"“{wanted.text}”"] if wanted.text else []
        parts += [", ".join(sorted(group)) for group in (wanted.marks, wanted.outcomes, wanted.subjects) if group]
        agents = [run.agent for run in self.pages.runs if run.id in wanted.runs]
        parts += [", ".join(agents)] if agents else []
        if self.sort != "asked":
            parts.append(f"by {self.sort}, {'highest' if self.descending else 'lowest'} first")
        return "; ".join(parts)

    def _index(self, row: int) -> int:
        return row if self.order is None else self.order[row]


def _chunks(rows: Iterator[int], size: int) -> Iterator[Sequence[int]]:
    chunk: list[int] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


Which = Literal["differ", "first", "second"]
WHICH: tuple[Which, ...] = ("differ", "first", "second")


class ScoreDifference(Struct, frozen=True):
    """A question that two runs answered with different success."""

    question_id: str
    epoch: int
    row: int
    """The first run's place in the pages."""
    first: float
    second: float


class AlignedNodes(Struct, frozen=True):
    """A line of two trees side by side; ``None``: the other has no such part."""

    depth: int
    left: Node | None
    right: Node | None


def differences(pages: Pages, first: int, second: int) -> list[ScoreDifference]:
    """Questions that two runs (by their place in the pages) did not answer equally well."""
    return [ScoreDifference(*found) for found in pages.differing(first, second)]


class ComparedRuns:
    """Two runs of the pages against each other."""

    def __init__(self, pages: Pages, first: int, second: int, found: Sequence[ScoreDifference]) -> None:
        self.pages = pages
        self.first, self.second = first, second
        self.found = tuple(found)
        self.which: Which = "differ"
        self.row = 0

    @property
    def shown(self) -> list[ScoreDifference]:
        """The questions of the list."""
        if self.which == "first":
            return [one for one in self.found if one.first >= 1 > one.second]
        if self.which == "second":
            return [one for one in self.found if one.second >= 1 > one.first]
        return list(self.found)

    def choose(self, which: Which) -> None:
        """Show the questions that only one of them gets right, or all on which they differ."""
        self.which, self.row = which, 0

    def opened(self, row: int | None = None) -> tuple[LoadedAttempt, LoadedAttempt] | None:
        """Both attempts at a question of the list."""
        shown = self.shown
        at = self.row if row is None else row
        return self.at_place(shown[at].row) if 0 <= at < len(shown) else None

    def at_place(self, index: int) -> tuple[LoadedAttempt, LoadedAttempt] | None:
        """Both attempts at the question of a row of the first run; ``None``: the second was not asked it."""
        one = self.pages.read([index])
        if not one:
            return None
        against = self.pages.row_of(self.second, one[0].question.id, one[0].epoch)
        other = self.pages.read([against]) if against is not None else []
        return (LoadedAttempt(self.pages, one[0]), LoadedAttempt(self.pages, other[0])) if other else None


def align(left: Node, right: Node) -> list[AlignedNodes]:
    """Two attempts' steps, equal nodes beside each other, with their calls."""
    lines = [AlignedNodes(0, left, right)]
    for one, other in _matched(_steps(left), _steps(right)):
        lines.append(AlignedNodes(1, one, other))
        calls = (one.children if one else (), other.children if other else ())
        lines += [AlignedNodes(2, call, against) for call, against in _matched(*calls)]
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
