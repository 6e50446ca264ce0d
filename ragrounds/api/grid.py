"""Questions × agents as a result.

import ragrounds as rr

found = rr.grid(["direct", "vanilla_rag"], where="not right", sort="disagreement")
print(found)
found.to_pandas()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from msgspec.structs import replace
from rich.console import Console

from ragrounds.api.frames import GRID, Frame, Part, Row
from ragrounds.api.results import Result
from ragrounds.api.trace import AttemptQuery, opened_pages
from ragrounds.api.workspace import chosen_settings, one_of
from ragrounds.evals.compare.grid import GRID_SORTS, AgentGrid, GridSort, GridTable, grid_table
from ragrounds.evals.store.run_names import kept_names
from ragrounds.settings import Settings
from ragrounds.ui.tables import print_table
from ragrounds.ui.trace.grid_text import column_names, grid_tables


class QuestionGrid(Result, frozen=True, kw_only=True):
    """Questions × agents."""

    table: GridTable

    def draw(self, console: Console) -> None:
        """Print the agents and the questions."""
        for table in grid_tables(self.table):
            print_table(table, console)

    def own_frames(self) -> tuple[Frame, ...]:
        """A row for each cell."""
        return (GRID,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """The cells, question after question."""
        yield iter([list(self._rows())])

    def _rows(self) -> Iterator[Row]:
        for question in self.table.rows:
            for agent, cell in zip(self.table.agents, question.cells, strict=True):
                yield GRID.cells(cell, agent, question, question_id=question.id, subject=question.group)


def grid(
    runs: Sequence[str] = (),
    *,
    where: str = "",
    sort: str = "disagreement",
    ascending: bool = False,
    limit: int | None = None,
    scorers: Sequence[str] = (),
    query: AttemptQuery | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> QuestionGrid:
    """Every question with what each agent made of it.

    Args:
        runs: ids, beginnings of ids, or agents' texts; none: those on the newest questions.
        where: only questions at which some attempt is so: ``wrong and hops>3``.
        sort: ``disagreement``, ``cost``, ``score`` or ``question``.
        ascending: the smallest disagreement, cost or score first.
        limit: only so many questions; means are of all.
        scorers: by preference; none: the headline of the questions. Means are by the first, else by the one that
            scored most.
        query: more conditions on attempts; `runs`, `where` and `scorers` stand in for its own where they are given.

    Raises:
        UserError: an unknown run or order, a filter that cannot be understood, or no run at all.
    """
    asked = query or AttemptQuery()
    asked = replace(asked, runs=runs or asked.runs, where=where or asked.where, scorers=scorers or asked.scorers)
    chosen = cast("GridSort", one_of("--sort", sort, GRID_SORTS))
    with opened_pages(asked, None, chosen_settings(settings, home)) as pages:
        listed = pages.order(asked.where) if asked.where else None
        found = AgentGrid(pages)
        found.load()
        names = column_names(pages.runs, kept_names(pages.store.engine))
        table = grid_table(found, names, chosen, ascending=ascending, listed=listed, limit=limit)
        return QuestionGrid(table=table)
