"""Analysis ``hops``: by which search the attempts had found gold. What another search is worth is the step from one bar
to the next; the last bar is all that the agent's searches can give its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.stats.estimates import stratified_mean
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hop_reading import GoldHop, gold_hops, may_have_searched
from ragrounds.evals.trace.summaries import Pages

LONGEST = 12
"""Searches that have a bar of their own; what was found later is in the last."""


class GoldByHop(Struct, frozen=True, kw_only=True):
    """How many attempts of a run had found gold by each search."""

    run: str
    attempts: int
    """At questions whose gold documents are known."""
    without_search: int
    """Of these, attempts that made no search."""
    unknown: int
    """Attempts of which it is not known whether they searched: they are in no other figure."""
    shares: tuple[Figure, ...]
    """Share of the attempts that had found a gold document by the first search, by the second …, with its interval."""


def gold_by_hop(
    run: str, clusters: Mapping[str, str], hops: Mapping[tuple[str, int], GoldHop], seed: int = 0
) -> GoldByHop:
    """The shares of a run.

    Args:
        run: its id.
        clusters: question id → its cluster; questions that are not in it are one for themselves, with their epochs.
        hops: (question id, epoch) → where the attempt found gold first.
        seed: of bootstraps.
    """
    known = {place: one for place, one in hops.items() if one.searches is not None}
    last = max((one.searches or 0 for one in known.values()), default=0)
    most = min(LONGEST, last)
    shares: list[Figure] = []
    for number in range(1, most + 1):
        # The last bar holds all that came later too.
        by = last if number == most else number
        values = [float(one.hop is not None and one.hop <= by) for one in known.values()]
        among = [clusters.get(question, question) for question, _ in known]
        found = stratified_mean(values, clusters=among, seed=seed)
        figure = Figure(value=found.value, n=found.n, missing=0, error=None, low=found.low, high=found.high, best=None)
        shares.append(figure)
    without = sum(not one.searches for one in known.values())
    unknown = len(hops) - len(known)
    return GoldByHop(run=run, attempts=len(known), without_search=without, unknown=unknown, shares=tuple(shares))


def gold_by_hop_picture(made: Sequence[GoldByHop], title: str = "Attempts that had found gold, by search") -> Picture:
    """The shares as bars, a group a run."""
    marks = [
        replace(figure_mark(_name(at, len(one.shares)), figure, one.run), note=f"n = {one.attempts:,}" * (at == 1))
        for one in made
        for at, figure in enumerate(one.shares, 1)
    ]
    return Picture(title=title, marks=tuple(marks), bars=True)


def _name(number: int, most: int) -> str:
    return f"by search {number}" + (" or later" if number == most == LONGEST else "")


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[GoldByHop, ...]:
    pages = Pages(store, runs)
    return tuple(_of_run(pages, run, run.id, options.seed) for run in pages.runs)


def _of_run(pages: Pages, run: Run, name: str, seed: int) -> GoldByHop:
    clusters = {one.id: one.cluster for one in pages.store.questions(run)[0] if one.cluster}
    return gold_by_hop(name, clusters, gold_hops(pages, run), seed)


def _table(made: tuple[GoldByHop, ...], options: AnalysisOptions) -> AnalysisTable:
    most = max((len(one.shares) for one in made), default=0)
    columns = ("run", "attempts", "no search", *(f"by search {number}" for number in range(1, most + 1)))
    rows = tuple(
        (one.run, one.attempts, one.without_search, *one.shares, *([None] * (most - len(one.shares)))) for one in made
    )
    note = "Share of the attempts that had found a gold document by then; questions without known gold are left out."
    for one in (one for one in made if one.unknown):
        note += f" {one.run}: of {one.unknown:,} attempts it is not known whether they searched; they are left out too."
    return AnalysisTable(title="Gold found, by search", columns=columns, rows=rows, note=note)


HOPS = Analysis(
    name="hops",
    summary="attempts that had found gold by their first, second … search",
    needs="recorded searches, and questions that name gold documents",
    measure=_measure,
    table=_table,
    picture=lambda made, options: gold_by_hop_picture(made),
    scored=False,
)


def hop_profile(
    store: Store, runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({}), seed: int = 0
) -> Picture | None:
    """The shares of runs; ``None``: no attempt of theirs at a question with known gold searched more than once.

    Args:
        store: where they are.
        runs: any number.
        names: run id → what it is called; others by their agents.
        seed: of the bootstraps of intervals.
    """
    pages = Pages(store, runs)
    made = [
        _of_run(pages, run, names.get(run.id, run.agent), seed) for run in pages.runs if may_have_searched(pages, run)
    ]
    return gold_by_hop_picture(made) if any(len(one.shares) > 1 for one in made) else None
