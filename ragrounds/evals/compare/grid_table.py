"""A grid as plain records: what the command line prints, and frames and JSON hold."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.compare.figures import MOST_PAIRS
from ragrounds.evals.compare.grid import AgentGrid, AgentGridCell, GridGroup, GridSort, TwoByTwo


class GridAgent(Struct, frozen=True, kw_only=True):
    """A column."""

    run: str
    agent: str
    name: str
    """A short name that no other column has."""
    mean: float | None
    """Mean score of all questions that have one, whichever are listed."""
    scored: int
    """How many these are; both are by the scorer of the table."""


class GridQuestion(Struct, frozen=True, kw_only=True):
    """A row."""

    id: str
    group: str
    """What tables group it by: its subject, or else its benchmark."""
    disagreement: float | None
    """Four times the variance of the agents' scores: 0 all alike, 1 half of them right and half wrong; ``None``: fewer
    than two have a score."""
    cells: tuple[AgentGridCell, ...]


class GridTable(Struct, frozen=True, kw_only=True):
    """Questions × agents."""

    questions: int
    """All questions, whichever are listed."""
    scorer: str
    """By which means and pairs are; empty: nothing is scored."""
    others: dict[str, int]
    """Other scorers, by which some cells are scored, and how many: they are in no mean and no pair."""
    sort: str
    agents: tuple[GridAgent, ...]
    pairs: tuple[TwoByTwo, ...]
    """Every two agents, over all questions; none where these are too many."""
    groups: tuple[GridGroup, ...]
    rows: tuple[GridQuestion, ...]


def grid_table(
    grid: AgentGrid,
    names: Sequence[str],
    sort: GridSort = "disagreement",
    *,
    ascending: bool = False,
    listed: array[int] | None = None,
    limit: int | None = None,
) -> GridTable:
    """The records of a loaded grid.

    Args:
        grid: with all that :meth:`AgentGrid.load` reads.
        names: a short name for each column.
        sort: how the questions are sorted.
        ascending: the smallest disagreement, cost or score first; by default disagreement and cost are highest first,
            scores lowest.
        listed: places of attempts; only questions with one of these are rows. ``None``: all.
        limit: rows at most.
    """
    chosen = None if listed is None else grid.rows_of(listed)
    highest = not ascending if sort in ("disagreement", "cost") else False
    order = grid.order(sort, highest, chosen)[:limit].tolist()
    split, ids = grid.disagreement(), grid.ids()
    every, *groups = grid.groups_and_means()
    places = range(len(grid.runs))
    pairs = list(itertools.combinations(places, 2))
    return GridTable(
        questions=grid.rows,
        scorer=grid.scorer,
        others={name: count for name, count in grid.used_scorers().items() if name != grid.scorer},
        sort=sort,
        agents=tuple(
            GridAgent(
                run=run.id,
                agent=run.agent,
                name=name,
                mean=every.means[place],
                scored=grid.counts[place],
            )
            for place, (run, name) in enumerate(zip(grid.runs, names, strict=True))
        ),
        pairs=tuple(grid.two_by_two(*pair) for pair in pairs) if len(pairs) <= MOST_PAIRS else (),
        groups=tuple(sorted(groups, key=lambda group: group.name)),
        rows=tuple(
            GridQuestion(
                id=ids[row],
                group=grid.group_of(row),
                disagreement=None if split[row] != split[row] else float(split[row]),
                cells=tuple(grid.cell(row, place) for place in places),
            )
            for row in order
        ),
    )
