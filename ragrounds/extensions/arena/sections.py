"""Section of a report: ratings, wins, and the agreement of judges with people, of the arenas between its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.base.records import Run
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.store import Store
from ragrounds.extensions.arena.lineup import lineup_of
from ragrounds.extensions.arena.report import arena_report
from ragrounds.extensions.arena.tables import arena_parts
from ragrounds.ui.report.sections import ReportPart, ReportSection


def _played_arenas(store: Store, runs: Sequence[Run], names: Mapping[str, str]) -> Iterator[ReportPart]:
    """Yield tables and remarks of every stored arena whose systems, apart from reference answers, are among these runs.

    `names` holds run id → name.
    """
    keeper = ArenaStore(store)
    reported = {run.id for run in runs}
    for arena in keeper.arenas():
        playing = {system.run for system in arena.systems if system.run}
        if not playing or not playing <= reported:
            continue
        lineup = lineup_of(store, arena)
        if lineup is None:
            yield f"{arena.id} is left out: the runs have other answers now than when it was played."
            continue
        yield from arena_parts(arena_report(keeper, arena, lineup, names=names))


ARENA = ReportSection(name="Arena", parts=_played_arenas)
