"""Analysis ``hops``: by which search the attempts had found gold. What another search is worth is the step from one bar
to the next; the last bar is all that the agent's searches can give its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Bar, Bars, HopProfile, Mark, Points, Series
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.stats.estimates import stratified_mean
from ragrounds.evals.store.hop_reading import GoldHop, attempt_hops, clusters_of, gold_hops, may_have_searched
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from ragrounds.records import Run

LONGEST = 12
"""Searches that have a bar of their own; what was found later is in the last."""


class GoldByHop(Struct, frozen=True, kw_only=True):
    """How many attempts of a run had found gold by each search."""

    run: str
    attempts: int
    """At questions whose gold documents are known."""
    without_search: int
    """Of these, attempts that made no search."""
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
    most = min(LONGEST, max((one.searches for one in hops.values()), default=0))
    last = max((one.searches for one in hops.values()), default=0)
    shares: list[Figure] = []
    for number in range(1, most + 1):
        # The last bar holds all that came later too.
        by = last if number == most else number
        values = [float(one.hop is not None and one.hop <= by) for one in hops.values()]
        among = [clusters.get(question, question) for question, _ in hops]
        found = stratified_mean(values, clusters=among, seed=seed)
        figure = Figure(value=found.value, n=found.n, missing=0, error=None, low=found.low, high=found.high, best=None)
        shares.append(figure)
    without = sum(not one.searches for one in hops.values())
    return GoldByHop(run=run, attempts=len(hops), without_search=without, shares=tuple(shares))


def gold_by_hop_picture(made: Sequence[GoldByHop], title: str = "Attempts that had found gold, by search") -> Bars:
    """The shares as bars, a group a run."""
    return Bars(title=title, groups=tuple((one.run, _bars(one)) for one in made))


def _bars(one: GoldByHop) -> tuple[Bar, ...]:
    return tuple(
        Bar(
            name=_name(number, len(one.shares)),
            value=figure.value,
            low=figure.low,
            high=figure.high,
            note=f"n = {one.attempts:,}" if number == 1 else "",
        )
        for number, figure in enumerate(one.shares, 1)
    )


def _name(number: int, most: int) -> str:
    return f"by search {number}" + (" or later" if number == most == LONGEST else "")


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[GoldByHop, ...]:
    pages = Pages(store, runs)
    return tuple(
        gold_by_hop(run.id, clusters_of(pages, run), gold_hops(pages, run), options.seed) for run in pages.runs
    )


def _table(made: tuple[GoldByHop, ...], options: AnalysisOptions) -> AnalysisTable:
    most = max((len(one.shares) for one in made), default=0)
    columns = ("run", "attempts", "no search", *(f"by search {number}" for number in range(1, most + 1)))
    rows = tuple(
        (one.run, one.attempts, one.without_search, *one.shares, *([None] * (most - len(one.shares)))) for one in made
    )
    note = "Share of the attempts that had found a gold document by then; questions without known gold are left out."
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


Hops = Mapping[tuple[str, int], GoldHop]
"""(question id, epoch) → the searches of the attempt."""


def hop_profile(
    store: Store, runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({}), seed: int = 0
) -> HopProfile | None:
    """The profile of runs, a series each; ``None``: no attempt of theirs searched more than once.

    Args:
        store: where they are.
        runs: any number.
        names: run id → what it is called; others by their agents.
        seed: of the bootstraps of intervals.
    """
    pages = Pages(store, runs)
    made, found = list[Series](), list[Series]()
    longest, known = 1, 0
    for run in pages.runs:
        if not may_have_searched(pages, run):
            continue
        hops, clusters = attempt_hops(pages, run), clusters_of(pages, run)
        most = min(LONGEST, max((one.searches for one in hops.values()), default=0))
        if not most:
            continue
        longest, name = max(longest, most), names.get(run.id, run.agent)
        made.append(Series(name=name, marks=_marks([_made(hops, clusters, at, seed) for at in range(1, most + 1)])))
        golden = {key: one for key, one in hops.items() if one.known}
        known += len(golden)
        # Where nothing is known of gold the run still has its colour in both panels.
        shares = gold_by_hop(run.id, clusters, golden, seed).shares if golden else ()
        found.append(Series(name=name, marks=_marks(shares)))
    if longest < 2:
        return None
    panels = [_panel("Attempts that made this search", "percent of attempts", longest, made)]
    if known:
        panels.append(_panel("Attempts that had found gold by it", "percent, where gold is known", longest, found))
    return HopProfile(title="Search by search", panels=tuple(panels))


def _made(hops: Hops, clusters: Mapping[str, str], number: int, seed: int) -> Figure:
    """The share of attempts that made so many searches."""
    values = [float(one.searches >= number) for one in hops.values()]
    among = [clusters.get(question, question) for question, _ in hops]
    share = stratified_mean(values, clusters=among, seed=seed)
    return Figure(value=share.value, n=share.n, missing=0, low=share.low, high=share.high)


def _marks(figures: Sequence[Figure]) -> tuple[Mark, ...]:
    return tuple(
        Mark(x=at, value=one.value, low=one.low, high=one.high)
        for at, one in enumerate(figures, 1)
        if one.value is not None
    )


def _panel(title: str, up: str, longest: int, lines: Sequence[Series]) -> Points:
    last = f", {LONGEST} and later together" if longest == LONGEST else ""
    return Points(title=title, x=f"search of an attempt{last}", up=up, lines=tuple(lines), whole=True)
