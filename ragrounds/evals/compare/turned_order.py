"""Where the headline puts two runs in the other order than the careful reading, because answers cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.compare.averages import LEAST, gap
from ragrounds.evals.compare.comparison import RunFigures, ScorerTable
from ragrounds.evals.compare.readings import CAREFUL, MOST_DIFFERENT
from ragrounds.evals.scorers import described


class TurnedOrder(Struct, frozen=True, kw_only=True):
    """A run that the careful reading puts before the one with the best figure."""

    scorer: str
    """The careful one."""
    best: RunFigures
    """Under it the run that has the best figure by the headline."""
    other: RunFigures
    """Under it the run that then has the best figure."""
    unread: tuple[tuple[str, int, int], ...]
    """Of these two the runs whose answers the headline's scorer cannot read: id, how many, of how many attempts."""


def turned_order(table: ScorerTable, best: RunFigures, tables: Sequence[ScorerTable]) -> TurnedOrder | None:
    """What the careful reading says of the run with the best figure; ``None``: the same, or nothing to the point.

    Args:
        table: under the headline's scorer.
        best: its line with the best figure.
        tables: all of the comparison.
    """
    scorer = described(table.scorer)
    careful = next((one for one in tables if one.scorer == CAREFUL), None)
    if careful is None or table.scorer == CAREFUL or not scorer.accuracy or "choice" not in scorer.kinds:
        return None
    lines = {line.run: line for line in careful.lines if line.overall.value is not None}
    if scorer.needs_judge or best.run not in lines:
        return None
    mine = lines.pop(best.run)
    behind = {line.run for line in table.lines if _gap(best, line) >= LEAST}
    before = [line for line in lines.values() if line.run in behind and _gap(line, mine) >= LEAST]
    if not before:
        return None
    other = max(before, key=lambda line: line.overall.value or 0.0)
    unread = tuple(
        (line.run, count, whole)
        for line in table.lines
        if line.run in (best.run, other.run)
        and (count := line.outcomes.get("unreadable", 0)) > MOST_DIFFERENT * (whole := sum(line.outcomes.values()))
    )
    return TurnedOrder(scorer=CAREFUL, best=mine, other=other, unread=unread) if unread else None


def _gap(one: RunFigures, other: RunFigures) -> float:
    return gap(one.overall.value, other.overall.value)
