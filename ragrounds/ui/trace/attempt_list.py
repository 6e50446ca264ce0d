"""The lists of the viewer without a terminal: attempts, filtered and sorted, and questions on which two runs differ.

The state of a list knows no widgets. Only rows near those shown are in memory. Cells of a row are made for the width
that there is.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from os.path import commonprefix

from msgspec import Struct

from ragrounds.base.records import WITHOUT_ANSWER, Run
from ragrounds.evals.trace.summaries import AttemptSummary, Pages, SortBy, order_words
from ragrounds.ui.text import duration, one_line, tokens
from ragrounds.ui.trace.layout import Cells, fit, narrow_dollars, shown, wrap

_AROUND = 60
"""Rows read at a time: about a screenful."""
_SAMPLED = 50
"""Rows whose ids are looked at for what they have in common."""
_OPTIONAL = ((26, "answer", 6), (26, "gold", 6), (70, "time", 7), (62, "tokens", 6), (54, "cost", 7))
"""Columns of the list: from which width on, name, cells."""
_ID = 14
"""Cells of a question's id at most."""
_AGENT = 5
"""Cells of the agent's column at least: its heading."""
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
        `tell` gets how far it is, and may raise to end it: the next time it resumes. For another thread.

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
    summary: AttemptSummary | None,
    width: int,
    agents: Mapping[str, str],
    signs: str | None = None,
    begin: str = "",
    text: bool = True,
) -> Cells:
    """The cells of a row: mark, answer and gold, the columns that `width` has room for, readers' signs where there are
    any (``None``: nowhere in the list), agent, question, whose id is written without what all ids `begin` with. Where
    an answer is right in part, or is a text, its score stands in its place. The question's `text` may stand below."""
    if summary is None:
        return [(fit("…", width), "dim")]
    sign, style = mark(summary)
    answered, choice = summary.outcome not in WITHOUT_ANSWER, bool(summary.question.options)
    graded = answered and summary.value is not None and (not choice or 0 < summary.value < 1)
    given = f"{summary.value:.2f}" if graded else summary.prediction if answered and choice else ""
    ran = summary.outcome != "not_run"
    texts = {
        "answer": one_line(given, 6),
        "gold": one_line(summary.gold.answer, 6),
        "time": duration(summary.seconds) if ran else "",
        "tokens": tokens(summary.tokens) if ran else "",
        "cost": narrow_dollars(summary.cost_uncached) if ran else "",
    }
    shown, size, rest = _columns(width - (0 if signs is None else 3), agents)
    cells: Cells = [(sign, style)]
    looks = {"answer": style, "gold": "gold"}
    cells += [
        (fit(texts[name], length, right=name not in looks) + " ", looks.get(name, "dim")) for name, length in shown
    ]
    if signs is not None:
        cells.append((fit(signs, 2) + " ", "mark"))
    if size:
        cells.append((agent_cell(agents, summary.run.id, size) + " ", "key"))
    epoch = f"#{summary.epoch} " if summary.run.epochs > 1 else ""
    name = one_line(summary.question.id.removeprefix(begin)[:80], _ID)
    asked = one_line(summary.question.text[: max(0, rest) * 2], max(2, rest + 1)) if text else ""
    cells.append((fit(f"{epoch}{name}  {asked}", rest), "plain"))
    return cells


def question_cells(summary: AttemptSummary | None, width: int, lines: int) -> Cells:
    """The beginning of the question below a row, in exactly so many lines of `width` cells."""
    if not lines:
        return []
    text = " ".join(shown(summary.question.text[: 8 * width * lines]).split()) if summary else ""
    cut = list(itertools.islice(wrap(text, width - 3), lines + 1))
    made = [text[begin:end] for begin, end in cut[:lines]] + [""] * (lines - len(cut))
    made[-1:] = [made[-1] + "…"] if len(cut) > lines else made[-1:]
    return [("  " + fit(line, width - 2), "plain") for line in made]


def agent_names(runs: Sequence[Run], names: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run id → a name that no other run has, safe to show: its own, else its agent's without parameters; the agent's
    whole text where others are alike, and the run's id too where several runs have one agent.

    Args:
        runs: that are shown together.
        names: run id → what it is called, where it has a name of its own.
    """
    of = {run.id: run.identity.get("counterfactual") for run in runs}
    whole = [(names or {}).get(run.id) or (f"with {it['change']}" if (it := of[run.id]) else run.agent) for run in runs]
    short = [text if of[run.id] else text.partition("[")[0] for run, text in zip(runs, whole, strict=True)]
    found = [one if short.count(one) == 1 else text for one, text in zip(short, whole, strict=True)]
    return {
        run.id: one_line(name if found.count(name) == 1 else f"{name} {run.id}", 60)
        for name, run in zip(found, runs, strict=True)
    }


def agent_cell(agents: Mapping[str, str], run: str, size: int) -> str:
    """The name of a run in `size` cells, which no other run has there.

    Args:
        agents: run id → name, as :func:`agent_names` gives them.
        run: its id.
        size: of the column.
    """
    return fit(_fitted(tuple(agents.items()), size).get(run, ""), size)


@lru_cache(maxsize=64)
def _fitted(agents: tuple[tuple[str, str], ...], size: int) -> dict[str, str]:
    """Names of at most this size: their beginnings, or their ends where that makes two alike, or else numbers."""
    heads = {run: fit(name, size) for run, name in agents}
    tails = {run: name if len(name) <= size else f"…{name[1 - size :]}" for run, name in agents}
    numbers = {run: f"#{number}" for number, (run, _) in enumerate(agents, 1)}
    return next((one for one in (heads, tails) if size > 1 and len(set(one.values())) == len(one)), numbers)


def attempt_heading(width: int, agents: Mapping[str, str], signs: bool = False) -> str:
    """The headings of the columns of :func:`attempt_cells`."""
    shown, size, _ = _columns(width - 3 * signs, agents)
    names = [fit(name, length, right=name not in ("answer", "gold")) for name, length in shown]
    names += ["★✎"] if signs else []
    return "  " + " ".join([*names, *([fit("agent", size)] if size else []), "question"])


def _columns(width: int, agents: Mapping[str, str]) -> tuple[list[tuple[str, int]], int, int]:
    """Columns that a list of `width` has room for, the cells of the agent's and those of the question's."""
    shown = [(name, length) for least, name, length in _OPTIONAL if width >= least]
    rest = width - 2 - sum(length + 1 for _, length in shown)
    size = min(max(_AGENT, *map(len, agents.values())), max(_AGENT, rest // 3)) if agents else 0
    return shown, size, rest - (size + 1 if size else 0)
