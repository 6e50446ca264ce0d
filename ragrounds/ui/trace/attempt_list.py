"""Lists of the viewer without a terminal: attempts, filtered and sorted, and questions on which two runs differ.

The state of a list has no widgets. Only rows near the visible ones are in memory. The cells of a row are made for the
available width.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache

from msgspec import Struct

from ragrounds.base.records import WITHOUT_ANSWER
from ragrounds.evals.trace.summaries import AttemptSummary, Pages, SortBy, order_words
from ragrounds.ui.signs import attempt_sign
from ragrounds.ui.text import duration, one_line, tokens
from ragrounds.ui.trace.layout import Cells, fit, narrow_dollars

_AROUND = 60
"""Rows that are read at a time: about a screenful."""
_OPTIONAL = ((26, "answer", 6), (26, "gold", 6), (70, "time", 7), (62, "tokens", 6), (54, "cost", 9))
"""Optional columns of the list: minimal width of the list, name, cells."""
_ID, _WIDE = 14, 60
"""Maximal cells of a question's id; cells of a question's column from which it has the id next to the text."""
_AGENT = 5
"""Minimal cells of the agent's column: the length of its heading."""


class AttemptList:
    """Rows of some runs in display order, with a filter and a cursor."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.where = ""
        """Filter as it is typed; empty: all rows."""
        self.sort: SortBy = "asked"
        self.descending = True
        self.row = 0
        self.order: array[int] | None = None
        """Indices of the rows in display order; ``None``: all rows, in the order of the questions."""
        self._near: dict[int, AttemptSummary] = {}

    def __len__(self) -> int:
        return len(self.pages) if self.order is None else len(self.order)

    @property
    def current(self) -> AttemptSummary | None:
        """Row under the cursor; ``None`` in an empty list."""
        return self.row_at(self.row)

    def row_at(self, row: int) -> AttemptSummary | None:
        """Return a row by its number from 0; ``None`` beyond the last."""
        if not 0 <= row < len(self):
            return None
        if row not in self._near:
            start = max(0, row - _AROUND // 2)
            rows = range(start, min(start + _AROUND, len(self)))
            if len(self._near) > 8 * _AROUND:
                self._near.clear()
            summaries = {
                summary.index: summary for summary in self.pages.read(self._index(near_row) for near_row in rows)
            }
            self._near.update(
                {near_row: summaries[index] for near_row in rows if (index := self._index(near_row)) in summaries}
            )
        return self._near.get(row)

    @cached_property
    def is_of_one_run(self) -> bool:
        """True if all listed rows are of the same run: then a column of agents would repeat one name."""
        indices = range(len(self.pages)) if self.order is None else self.order
        return not indices or self.pages.run_at(min(indices)) is self.pages.run_at(max(indices))

    def move(self, row: int) -> None:
        """Put the cursor on a row, or on the nearest that exists."""
        self.row = max(0, min(row, len(self) - 1))

    def row_of(self, index: int) -> int | None:
        """Return the row that shows an index of the pages; ``None`` if it is not listed."""
        if self.order is None:
            return index if 0 <= index < len(self) else None
        return self.order.index(index) if index in self.order else None

    def forget(self) -> None:
        """Drop the rows that were read; they are read again when they are shown."""
        self._near.clear()

    def arrange(self, order: array[int] | None, where: str, sort: SortBy, descending: bool = True) -> None:
        """Take an order made by :meth:`make_order`. The cursor stays on its attempt if that is still listed."""
        current_index = self._index(self.row) if len(self) else 0
        self.order, self.where, self.sort, self.descending = order, where, sort, descending
        self.__dict__.pop("is_of_one_run", None)
        self._near.clear()
        if order is None:
            self.move(current_index)
        else:
            self.move(order.index(current_index) if current_index in order else 0)

    def make_order(self, where: str, sort: SortBy, descending: bool = True) -> array[int] | None:
        """Compute the order for :meth:`arrange`. It is slow and runs in another thread."""
        return self.pages.order(where, sort, descending) if where or sort != "asked" else None

    def complete(self, where: str, sort: SortBy, tell: Callable[[str], None]) -> None:
        """Compute the facts that `where` and `sort` need, and index the texts. Runs in another thread.

        `tell` is called with the progress in words. It may raise to stop; the next call resumes.

        Raises:
            UserError: `where` cannot be parsed, or the store cannot be written.
        """
        lacking = self.pages.backlog(where, sort)
        if lacking:
            tell(f"making what is searched: 0 of {lacking:,} attempts")
            self.pages.complete(where, lambda step, rows: tell(f"{step}: {rows:,} of {lacking:,} attempts"), sort)

    def seek(self, step: int, where: str) -> int | None:
        """Return the next row that `where` matches (the previous one for `step` -1), continuing from the other end.

        Returns ``None`` if no row matches. Runs in another thread.
        """
        return self.pages.seek(where, self.row, step, self.order)

    def description(self) -> str:
        """Return the filter and the order in words; empty if all rows are listed in the order of the questions."""
        return "; ".join(filter(None, (self.where, order_words(self.sort, self.descending))))

    def _index(self, row: int) -> int:
        return row if self.order is None else self.order[row]


class ScoreDifference(Struct, frozen=True):
    """Question that two runs answered with different success."""

    question_id: str
    epoch: int
    row: int
    """Index of the first run's attempt in the pages."""
    first: float
    second: float


def differences(pages: Pages, first: int, second: int) -> list[ScoreDifference]:
    """Return the questions that two runs, given by their position in the pages, did not answer equally well."""
    return [ScoreDifference(*fields) for fields in pages.differing(first, second)]


def mark(summary: AttemptSummary) -> tuple[str, str]:
    """Return an attempt's sign (:mod:`ragrounds.ui.signs`) in two cells, with its style."""
    sign, style = attempt_sign(summary.outcome, summary.value)
    return f"{sign} ", style


def attempt_cells(
    summary: AttemptSummary | None,
    width: int,
    agents: Mapping[str, str],
    signs: str | None = None,
) -> Cells:
    """Return the cells of a row: mark, answer and gold, optional columns, readers' signs, agent, question.

    The answer's column shows the score if the answer is a text or partly right.

    Args:
        summary: attempt of the row; ``None``: not read yet.
        width: cells of the row; it determines the optional columns.
        agents: run id → name; empty: no column for the agent.
        signs: readers' signs of this attempt; ``None``: no attempt of the list has any.
    """
    if summary is None:
        return [(fit("…", width), "dim")]
    sign, style = mark(summary)
    answered, choice = summary.outcome not in WITHOUT_ANSWER, bool(summary.question.options)
    graded = answered and summary.value is not None and (not choice or 0 < summary.value < 1)
    answer_text = f"{summary.value:.2f}" if graded else summary.prediction if answered and choice else ""
    ran = summary.outcome != "not_run"
    texts = {
        "answer": one_line(answer_text, 6),
        "gold": one_line(summary.gold.answer, 6),
        "time": duration(summary.seconds) if ran else "",
        "tokens": tokens(summary.tokens) if ran else "",
        "cost": narrow_dollars(summary.cost_uncached) if ran else "",
    }
    columns, size, rest = _columns(width - (0 if signs is None else 3), agents)
    cells: Cells = [(sign, style)]
    looks = {"answer": style, "gold": "gold"}
    cells += [
        (fit(texts[name], length, right=name not in looks) + " ", looks.get(name, "dim")) for name, length in columns
    ]
    if signs is not None:
        cells.append((fit(signs, 2) + " ", "mark"))
    if size:
        cells.append((agent_cell(agents, summary.run.id, size) + " ", "key"))
    epoch = f"#{summary.epoch} " if summary.run.epochs > 1 else ""
    # In a narrow column the question is worth more than its id, which the detail shows.
    name = "" if rest < _WIDE else f"{one_line(short_id(summary), _ID)}  "
    question_text = one_line(summary.question.text[: max(0, rest) * 2], max(2, rest + 1))
    cells.append((fit(f"{epoch}{name}{question_text}", rest), "plain"))
    return cells


def short_id(summary: AttemptSummary) -> str:
    """Return the id of a question without its benchmark: the text after the last slash, at most 80 letters."""
    return summary.question.id.rpartition("/")[2][:80]


def agent_cell(agents: Mapping[str, str], run: str, size: int) -> str:
    """Return the name of a run in `size` cells, unique among the runs.

    Args:
        agents: run id → name, as returned by :func:`ragrounds.ui.agent_names.names_of_runs`.
        run: id of the run.
        size: cells of the column.
    """
    return fit(_fit_names(tuple(agents.items()), size).get(run, ""), size)


@lru_cache(maxsize=64)
def _fit_names(agents: tuple[tuple[str, str], ...], size: int) -> dict[str, str]:
    """Return names of at most this size: their beginnings, else their ends if these are unique, else numbers for those
    that are not.
    """
    heads = {run: fit(name, size) for run, name in agents}
    tails = {run: name if len(name) <= size else f"…{name[1 - size :]}" for run, name in agents}
    counts = Counter(heads.values())
    if size > 1 and len(counts) < len(agents) and len(set(tails.values())) == len(agents):
        return tails
    return {
        run: heads[run] if size > 1 and counts[heads[run]] == 1 else f"#{number}"
        for number, (run, _) in enumerate(agents, 1)
    }


def attempt_heading(width: int, agents: Mapping[str, str], signs: bool = False) -> str:
    """Return the headings of the columns of :func:`attempt_cells`."""
    columns, size, _ = _columns(width - 3 * signs, agents)
    names = [fit(name, length, right=name not in ("answer", "gold")) for name, length in columns]
    names += ["★✎"] if signs else []
    return "  " + " ".join([*names, *([fit("agent", size)] if size else []), "question"])


def _columns(width: int, agents: Mapping[str, str]) -> tuple[list[tuple[str, int]], int, int]:
    """Return the columns that fit into `width`, the cells of the agent's column and those of the question's."""
    columns = [(name, length) for least, name, length in _OPTIONAL if width >= least]
    rest = width - 2 - sum(length + 1 for _, length in columns)
    size = min(max(_AGENT, *map(len, agents.values())), max(_AGENT, rest // 3)) if agents else 0
    return columns, size, rest - (size + 1 if size else 0)
