"""Analysis ``hops``: the search by which the attempts had found gold.

The step from one bar to the next is the value of another search. The last bar is the most that the agent's searches can
contribute to its answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import mean_figure
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hop_reading import GoldHop, gold_hops, may_have_searched
from ragrounds.evals.trace.summaries import Pages

LONGEST = 12
"""Number of searches that have their own bar; later finds are in the last bar."""


class GoldByHop(Struct, frozen=True, kw_only=True):
    """Shares of a run's attempts that had found gold by each search."""

    run: str
    attempts: int
    """Number of attempts at questions whose gold documents are known."""
    without_search: int
    """Number of these attempts that made no search."""
    unknown: int
    """Number of attempts for which it is not known whether they searched; they are in no other figure."""
    shares: tuple[Figure, ...]
    """Shares of the attempts that had found a gold document by the first search, by the second …, with intervals."""


def gold_by_hop(
    run: str, clusters: Mapping[str, str], hops: Mapping[tuple[str, int], GoldHop], seed: int = 0
) -> GoldByHop:
    """Return the shares of a run.

    Args:
        run: id of the run.
        clusters: question id → its cluster; any other question is its own cluster, with its epochs.
        hops: (question id, epoch) → hop at which the attempt found gold first.
        seed: seed of the bootstraps.
    """
    known_hops = {key: hop for key, hop in hops.items() if hop.searches is not None}
    last = max((hop.searches or 0 for hop in known_hops.values()), default=0)
    bar_count = min(LONGEST, last)
    shares: list[Figure] = []
    for number in range(1, bar_count + 1):
        # The last bar includes all later finds.
        last_search = last if number == bar_count else number
        values = [float(hop.hop is not None and hop.hop <= last_search) for hop in known_hops.values()]
        cluster_names = [clusters.get(question, question) for question, _ in known_hops]
        shares.append(mean_figure(values, cluster_names, seed))
    without_search = sum(not hop.searches for hop in known_hops.values())
    unknown = len(hops) - len(known_hops)
    return GoldByHop(
        run=run, attempts=len(known_hops), without_search=without_search, unknown=unknown, shares=tuple(shares)
    )


def gold_by_hop_picture(groups: Sequence[GoldByHop]) -> Picture:
    """Return the shares as bars, one group for each run."""
    marks = [
        replace(
            figure_mark(
                f"by search {number}" + (" or later" if number == len(record.shares) == LONGEST else ""),
                figure,
                record.run,
            ),
            note=f"n = {record.attempts:,}" * (number == 1),
        )
        for record in groups
        for number, figure in enumerate(record.shares, 1)
    ]
    return Picture(title="Attempts that had found gold, by search", marks=tuple(marks), bars=True)


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[GoldByHop, ...]:
    pages = Pages(store, runs)
    return tuple(_run_gold_by_hop(pages, run, run.id, options.seed) for run in pages.runs)


def _run_gold_by_hop(pages: Pages, run: Run, name: str, seed: int) -> GoldByHop:
    clusters = {question.id: question.cluster for question in pages.store.questions(run)[0] if question.cluster}
    return gold_by_hop(name, clusters, gold_hops(pages, run), seed)


def _table(records: tuple[GoldByHop, ...], options: AnalysisOptions) -> AnalysisTable:
    bar_count = max((len(record.shares) for record in records), default=0)
    columns = ("run", "attempts", "no search", *(f"by search {number}" for number in range(1, bar_count + 1)))
    rows = tuple(
        (
            record.run,
            record.attempts,
            record.without_search,
            *record.shares,
            *([None] * (bar_count - len(record.shares))),
        )
        for record in records
    )
    note = "Share of the attempts that had found a gold document by then; questions without known gold are left out."
    for row in (record for record in records if record.unknown):
        note += f" {row.run}: of {row.unknown:,} attempts it is not known whether they searched; they are left out too."
    return AnalysisTable(title="Gold found, by search", columns=columns, rows=rows, note=note)


HOPS = Analysis(
    name="hops",
    summary="attempts that had found gold by their first, second … search",
    needs="recorded searches, and questions that name gold documents",
    measure=_measure,
    table=_table,
    picture=lambda records, options: gold_by_hop_picture(records),
    scored=False,
)


def hop_profile(
    store: Store, runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({}), seed: int = 0
) -> Picture | None:
    """Return the shares of runs as bars; ``None`` if no attempt at a question with known gold searched more than once.

    Args:
        store: store of the runs.
        runs: runs to show, any number.
        names: run id → name of the run; other runs are named by their agents.
        seed: seed of the bootstraps of intervals.
    """
    pages = Pages(store, runs)
    records = [
        _run_gold_by_hop(pages, run, names.get(run.id, run.agent), seed)
        for run in pages.runs
        if may_have_searched(pages, run)
    ]
    if all(len(record.shares) < 2 for record in records):
        return None
    return replace(gold_by_hop_picture(records), series_names=tuple(names.values()))
