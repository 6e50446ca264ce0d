"""The arenas that were played between the runs of a report: ratings, wins, and what judges and people agree on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.field import REFERENCE, gather
from ragrounds.evals.arena.keeping import ArenaKeeper
from ragrounds.evals.arena.report import AxisReport, Report, report
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.ui.figures import UNKNOWN, percent
from ragrounds.ui.sheets import Column, Sheet
from ragrounds.ui.text import one_line

Told = Sheet | str


def arena_parts(store: Store, runs: Sequence[Run]) -> Iterator[Told]:
    """Sheets and remarks of every stored arena whose systems are among these runs (the reference answers apart)."""
    keeper = ArenaKeeper(store)
    reported = {run.id for run in runs}
    for arena in keeper.arenas():
        playing = [system.run for system in arena.systems if system.run]
        if not playing or not set(playing) <= reported:
            continue
        with_reference = any(system.name == REFERENCE and not system.run for system in arena.systems)
        field = gather(store, playing, reference=with_reference, epoch=arena.epoch, part=arena.part)
        if field.version != arena.questions:
            yield f"{arena.id} is left out: the runs have other answers now than when it was played."
            continue
        yield from _arena(arena, report(keeper, arena, field))


def _arena(arena: Arena, found: Report) -> Iterator[Told]:
    yield (
        f"{arena.id}: {', '.join(arena.names)} on {arena.count:,} questions, judged by {', '.join(arena.judges)}, "
        f"each pair in {'both orders' if arena.orders == 'both' else 'one order'}; {found.votes:,} votes by people. "
        "Ratings: Bradley-Terry on Elo's scale, mean 1000; intervals by bootstrap over questions."
    )
    for axis in found.axes:
        if axis.withheld:
            yield f"{axis.axis}: {axis.withheld}"
        elif axis.ratings is not None:
            yield _ratings(arena, axis)
        yield _wins(axis)
        yield _judges(axis)
        agreement = [pair for pair in axis.agreement if pair.items]
        if agreement:
            yield Sheet(
                key="agreement",
                title=f"{axis.axis}: agreement (Krippendorff's alpha: 1 perfect, 0 as by chance)",
                columns=(
                    Column("one", right=False),
                    Column("other", right=False),
                    *(Column(name) for name in ("matches", "same %", "alpha")),
                ),
                rows=tuple(
                    (
                        one_line(pair.one),
                        one_line(pair.other),
                        f"{pair.items:,}",
                        percent(pair.same, 1),
                        UNKNOWN if pair.alpha is None else f"{pair.alpha:.2f}",
                    )
                    for pair in agreement
                ),
            )
    yield from found.notes


def _ratings(arena: Arena, axis: AxisReport) -> Sheet:
    rows = []
    for row in axis.ratings.rows if axis.ratings else ():
        low, high = (UNKNOWN if bound is None else f"{bound:.0f}" for bound in (row.low, row.high))
        rank = f"{row.rank}" if row.rank == row.worst else f"{row.rank}-{row.worst}"
        rows.append((rank, one_line(row.system), f"{row.rating:.0f}", f"{low} to {high}"))
    missing = f", {axis.missing:,} without a verdict" if axis.missing else ""
    return Sheet(
        key="ratings",
        title=f"{axis.axis}: ratings from {axis.matches:,} matches{missing}",
        columns=(
            Column("rank"), Column("system", right=False), Column("rating"), Column(f"{100 * arena.confidence:g} %"),
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _wins(axis: AxisReport) -> Sheet:
    names = [one_line(name, 40) for name in axis.wins.systems]
    return Sheet(
        key="wins",
        title=f"{axis.axis}: won-tied-lost, the row against the column",
        columns=(Column("system", right=False), *(Column(name) for name in names)),
        rows=tuple(
            (name, *("-".join(map(str, cell)) if any(cell) else "" for cell in row))
            for name, row in zip(names, axis.wins.counts, strict=True)
        ),
    )


def _judges(axis: AxisReport) -> Sheet:
    names = ("matches", "missing", "ties %", "orders differ %", "place decided %", "for the first %")
    return Sheet(
        key="judges",
        title=f"{axis.axis}: judges",
        columns=(Column("judge", right=False), *(Column(name) for name in names)),
        rows=tuple(
            (
                one_line(judge.judge, 60),
                f"{judge.matches:,}",
                f"{judge.missing:,}",
                *(percent(share, 1) for share in (judge.ties, judge.inconsistent, judge.reversed, judge.first)),
            )
            for judge in axis.judges
        ),
    )
