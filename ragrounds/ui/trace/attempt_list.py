"""The lists of the viewer without a terminal: attempts, filtered and sorted, and questions on which two runs differ.

The state of a list knows no widgets. Only rows near those shown are in memory. Cells of a row are made for the width
that there is.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from os.path import commonprefix

from msgspec import Struct

from ragrounds.evals.store.summaries import AttemptSummary, Pages, SortBy, order_words
from ragrounds.records import Run
from ragrounds.ui.text import UNKNOWN, duration, one_line, safe, tokens
from ragrounds.ui.trace.layout import Cells, fit, narrow_dollars

_AROUND = 60
"""Rows read at a time: about a screenful."""
_SAMPLED = 50
"""Rows whose ids are looked at for what they have in common."""
_OPTIONAL = ((36, "model calls", 11), (56, "time", 7), (64, "tokens", 6), (76, "uncached", 8))
"""Columns of the list: from which width on, name, cells."""
_AGENT = 5
"""Cells of the agent's column at least: its heading."""
_COMMON = 6
"""Characters that names must have in common to be left out."""
_BREAKS = "[,:/ (-"
"""After one of these a name may be cut: parameters and the ends of ids stay whole."""
_TROUBLE = {
    "failed": "! ",
    "capped": "^ ",
    "blocked": "x ",
    "paused": "= ",
    "refused": "x ",
    "abstained": "~ ",
    "unreadable": "? ",
    "empty": "0 ",
}


class AttemptList:
    """The rows of some runs in the order shown, with a filter and a cursor."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.where = ""
        """The filter, as it is typed; empty: all."""
        self.sort: SortBy = "asked"
        self.descending = True
        self.row = 0
        self.order: array[int] | None = None
        """Places of the rows, in the order shown; ``None``: all of them, as they were asked."""
        self._near: dict[int, AttemptSummary] = {}
        self._common: str | None = None

    def __len__(self) -> int:
        return len(self.pages) if self.order is None else len(self.order)

    @property
    def current(self) -> AttemptSummary | None:
        """The row under the cursor; ``None`` in an empty list."""
        return self.at(self.row)

    def at(self, row: int) -> AttemptSummary | None:
        """A row by its number from 0; ``None`` beyond the last."""
        if not 0 <= row < len(self):
            return None
        if row not in self._near:
            start = max(0, row - _AROUND // 2)
            rows = range(start, min(start + _AROUND, len(self)))
            if len(self._near) > 8 * _AROUND:
                self._near.clear()
            known = {summary.index: summary for summary in self.pages.read(self._index(each) for each in rows)}
            self._near.update({each: known[index] for each in rows if (index := self._index(each)) in known})
        return self._near.get(row)

    @property
    def common_id(self) -> str:
        """What the ids of the questions begin with, up to a slash, by a sample of them: left out of the rows."""
        if self._common is None:
            total = len(self.pages)
            every = self.pages.read(range(0, total, max(1, total // _SAMPLED)))
            same = commonprefix([one.question.id for one in every])  # noqa: RUF071 (by letters)
            self._common = same[: same.rfind("/") + 1]
        return self._common

    def move(self, row: int) -> None:
        """Put the cursor on a row, or on the nearest that exists."""
        self.row = max(0, min(row, len(self) - 1))

    def row_of(self, index: int) -> int | None:
        """The row that shows a place of the pages; ``None``: it is not listed."""
        if self.order is None:
            return index if 0 <= index < len(self) else None
        return self.order.index(index) if index in self.order else None

    def forget(self) -> None:
        """Drop the rows that were read; they are read again when they are shown."""
        self._near.clear()

    def arrange(self, order: array[int] | None, where: str, sort: SortBy, descending: bool = True) -> None:
        """Take an order that :meth:`make_order` made; the cursor stays on its row where that is still shown."""
        here = self._index(self.row) if len(self) else 0
        self.order, self.where, self.sort, self.descending = order, where, sort, descending
        self._near.clear()
        if order is None:
            self.move(here)
        else:
            self.move(order.index(here) if here in order else 0)

    def make_order(self, where: str, sort: SortBy, descending: bool = True) -> array[int] | None:
        """The order for :meth:`arrange`: the slow part, for another thread."""
        return self.pages.order(where, sort, descending) if where or sort != "asked" else None

    def complete(self, where: str, sort: SortBy, tell: Callable[[str], None]) -> None:
        """Make the facts that `where` and `sort` ask for, and look through the texts;
        `tell` is told how far it is, and may raise to end it: the next time it goes on. For another thread.

        Raises:
            UserError: `where` cannot be understood, or the store cannot be written.
        """
        lacking = self.pages.backlog(where, sort)
        if lacking:
            tell(f"making what is searched: 0 of {lacking:,} attempts")
            self.pages.complete(where, lambda step, rows: tell(f"{step}: {rows:,} of {lacking:,} attempts"), sort)

    def seek(self, step: int, where: str) -> int | None:
        """The next row that `where` chooses (for `step` -1 the one before), round the end; ``None``: there is none. For
        another thread."""
        return self.pages.seek(where, self.row, step, self.order)

    def description(self) -> str:
        """The filter and the order, in words; empty where all rows are listed as they were asked."""
        return "; ".join(filter(None, (self.where, order_words(self.sort, self.descending))))

    def _index(self, row: int) -> int:
        return row if self.order is None else self.order[row]


class ScoreDifference(Struct, frozen=True):
    """A question that two runs answered with different success."""

    question_id: str
    epoch: int
    row: int
    """The first run's place in the pages."""
    first: float
    second: float


def differences(pages: Pages, first: int, second: int) -> list[ScoreDifference]:
    """The questions that two runs (by their place in the pages) did not answer equally well."""
    return [ScoreDifference(*found) for found in pages.differing(first, second)]


def mark(summary: AttemptSummary) -> tuple[str, str]:
    """An attempt's outcome in one sign, with its style: ✓ right, ✗ wrong, ½ partly, ! failed, x refused or blocked,
    ^ capped, = paused, ~ abstained, ? unreadable, 0 empty, - not scored, · not run. A sign that says why stands before
    one that says wrong."""
    if summary.outcome == "not_run":
        return "· ", "dim"
    if summary.value is not None and summary.value >= 1:
        return "✓ ", "right"
    if summary.outcome in _TROUBLE:
        return _TROUBLE[summary.outcome], "trouble"
    if summary.value is None:
        return "- ", "dim"
    return ("✗ ", "wrong") if summary.value <= 0 else ("½ ", "key")


def outcome_sign(outcome: str) -> str:
    """The sign that says why an attempt has no full marks; empty where it simply answered."""
    return _TROUBLE.get(outcome, "").strip()


def attempt_cells(
    summary: AttemptSummary | None, width: int, agents: Mapping[str, str], signs: str | None = None, begin: str = ""
) -> Cells:
    """The cells of a row: mark, score, the columns that `width` has room for, readers' signs where there are any
    (``None``: nowhere in the list), agent, question, whose id is written without what all ids `begin` with."""
    if summary is None:
        return [("…", "dim")]
    sign, style = mark(summary)
    score = UNKNOWN if summary.value is None else f"{summary.value:.2f}".removesuffix("0").removesuffix(".0")
    ran = summary.outcome != "not_run"
    texts = {
        "model calls": f"{summary.model_calls}" if ran else "",
        "time": duration(summary.seconds) if ran else "",
        "tokens": tokens(summary.tokens) if ran else "",
        "uncached": narrow_dollars(summary.cost_uncached) if ran else "",
    }
    shown, size, rest = _columns(width - (0 if signs is None else 3), agents)
    cells: Cells = [(f"{sign}{fit(score, 5, right=True)} ", style)]
    cells += [(fit(texts[name], length, right=True) + " ", "dim") for name, length in shown]
    if signs is not None:
        cells.append((fit(signs, 2) + " ", "mark"))
    if size:
        cells.append((agent_cell(agents, summary.run.id, size) + " ", "key"))
    epoch = f"#{summary.epoch} " if summary.run.epochs > 1 else ""
    name = one_line(summary.question.id.removeprefix(begin)[:80], 60)
    text = one_line(summary.question.text[: max(0, rest) * 2], max(2, rest + 1))
    cells.append((fit(f"{epoch}{name}  {text}", rest), "plain"))
    return cells


def short_names(runs: Sequence[Run]) -> dict[str, str]:
    """Run id → the agent's name for a narrow column, without what all of them begin and end with; runs of one agent
    have their ids; empty for one run."""
    if len(runs) < 2:
        return {}
    counted = Counter(run.agent for run in runs)
    names = [safe(run.agent if counted[run.agent] == 1 else run.id) for run in runs]
    return dict(zip((run.id for run in runs), _without_shared(names), strict=True))


def agent_cell(agents: Mapping[str, str], run: str, size: int) -> str:
    """The name of a run in `size` cells, which no other run has there.

    Args:
        agents: run id → name, as :func:`short_names` gives them.
        run: its id.
        size: of the column.
    """
    return fit(_fitted(tuple(agents.items()), size).get(run, ""), size)


@lru_cache(maxsize=64)
def _fitted(agents: tuple[tuple[str, str], ...], size: int) -> dict[str, str]:
    """Names of at most this size: those too long lose what they share, else their beginning; where that makes two
    alike, all are numbers."""
    long = [name for _, name in agents if len(name) > size]
    shorter = dict(zip(long, _without_shared(long), strict=True))
    made = {
        run: name if len(name) <= size else f"…{name[1 - size :]}" if size > 1 else name
        for run, name in ((run, shorter.get(name, name)) for run, name in agents)
    }
    if len(set(made.values())) == len(made):
        return made
    return {run: f"#{number}" for number, (run, _) in enumerate(agents, 1)}


def _without_shared(names: Sequence[str]) -> list[str]:
    """Names without a long beginning that all have, and then without the bracket that all end with."""
    if len(set(names)) < 2:
        return list(names)
    shared = commonprefix(list(names))  # noqa: RUF071 (by letters)
    cut = max(shared.rfind(mark) + 1 for mark in _BREAKS)
    if cut <= _COMMON or any(len(name) == cut for name in names):
        return list(names)
    rest = [name[cut:] for name in names]
    if all(name.endswith("]") and "[" not in name for name in rest):
        rest = [name[:-1] for name in rest]
    return [f"…{name}" for name in rest]


def attempt_heading(width: int, agents: Mapping[str, str], signs: bool = False) -> str:
    """The headings of the columns of :func:`attempt_cells`."""
    shown, size, _ = _columns(width - 3 * signs, agents)
    names = ["  score", *(fit(name, length, right=True) for name, length in shown)]
    names += ["★✎"] if signs else []
    return " ".join([*names, *([fit("agent", size)] if size else []), "question"])


def _columns(width: int, agents: Mapping[str, str]) -> tuple[list[tuple[str, int]], int, int]:
    """Columns that a list of `width` has room for, the cells of the agent's and those of the question's."""
    shown = [(name, length) for least, name, length in _OPTIONAL if width >= least]
    rest = width - 8 - sum(length + 1 for _, length in shown)
    size = min(max(_AGENT, *map(len, agents.values())), max(_AGENT, rest // 3)) if agents else 0
    return shown, size, rest - (size + 1 if size else 0)
