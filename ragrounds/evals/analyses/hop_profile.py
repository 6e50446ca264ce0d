"""The hop profile of runs: how many of their attempts made a first, second … search, and had found gold by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ragrounds.evals.analyses.gold_by_hop import LONGEST, gold_by_hop
from ragrounds.evals.analyses.pictures import HopProfile, Mark, Points, Series
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.stats.estimates import stratified_mean
from ragrounds.evals.store.hop_reading import GoldHop, attempt_hops, clusters_of, may_have_searched
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from ragrounds.records import Run

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
