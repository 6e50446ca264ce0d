"""What each search of an attempt was good for: was a gold document found, was it new, were its passages new? And the
shares of these over a run."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import share_figure
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, every_trace
from ragrounds.records import Gold, Passage, Question, Run


class Searched(Struct, frozen=True, kw_only=True):
    """One search of an attempt as it was asked and answered, in order."""

    query: str
    passages: tuple[Passage, ...]


class SearchUse(Struct, frozen=True, kw_only=True):
    """What one search was good for."""

    query: str
    found: int | None
    """Rank of the first passage from a gold document; ``None``: none found."""
    new_gold: bool
    """A gold document that no earlier search of the attempt had found."""
    new: float
    """Share of its passages that no earlier search had found; 0.0 where it found none."""
    repeated: bool
    """The same query was asked before."""


def searches_of(trace: Trace) -> tuple[Searched, ...]:
    """The searches of a traced attempt. One whose passages the journal does not hold (it failed, or was imported) has
    none."""
    return tuple(
        Searched(query=call.searched.query if call.searched else "", passages=call.passages)
        for step in trace.steps
        for call in step.calls
        if call.call.kind == "search"
    )


def use_of_searches(searches: Sequence[Searched], gold: Gold) -> tuple[SearchUse, ...]:
    """Follow the gold documents through an attempt's searches, in the order they were made. The gold's `documents` are
    ids of documents, not of passages."""
    wanted = set(gold.documents)
    uses = []
    seen: set[str] = set()
    seen_gold: set[str] = set()
    asked: set[str] = set()
    for search in searches:
        ids = [passage.id for passage in search.passages]
        golden = [passage.document for passage in search.passages if passage.document in wanted]
        ranks = (rank for rank, passage in enumerate(search.passages, start=1) if passage.document in wanted)
        query = " ".join(search.query.split()).casefold()
        uses.append(
            SearchUse(
                query=search.query,
                found=next(ranks, None),
                new_gold=bool(set(golden) - seen_gold),
                new=sum(id not in seen for id in ids) / len(ids) if ids else 0.0,
                repeated=query in asked,
            )
        )
        seen.update(ids)
        seen_gold.update(golden)
        asked.add(query)
    return tuple(uses)


LAST = 4
"""Searches of an attempt that stand by themselves; the later ones stand together."""
EVERY = "all"
_TITLE = "What searches were good for"


class SearchUseShares(Struct, frozen=True, kw_only=True):
    """What some searches were good for, as shares with intervals; searches for one question are one cluster.
    ``None``: of none of them it can be decided."""

    which: str
    """``1``, ``2``, … by their order in an attempt, or ``all``."""
    searches: int
    found: Figure | None
    """Searches that found a gold document; of questions that name one."""
    new_gold: Figure | None
    """Searches that found a gold document that no earlier one had found."""
    new: Figure | None
    """A search's passages that no earlier one had found."""
    repeated: Figure | None
    """Searches for what was searched for before."""


class SearchUses(Struct, frozen=True, kw_only=True):
    """The searches of a run."""

    run: str
    attempts: int
    searching: int
    """Attempts that searched."""
    without_gold: int
    """Attempts at questions that name no gold document."""
    uses: tuple[SearchUseShares, ...]


class _Row(Struct, frozen=True):
    question: Question
    position: int
    use: SearchUse
    gold: bool


def uses_of_searches(store: Store, run: Run, seed: int = 0) -> SearchUses:
    """Follow the gold documents through the searches of every attempt."""
    rows: list[_Row] = []
    attempts = searching = without = 0
    for trace in every_trace(store, run):
        found = _uses(trace)
        attempts += 1
        searching += bool(found)
        without += not trace.gold.documents
        rows += [_Row(trace.question, place, use, bool(trace.gold.documents)) for place, use in enumerate(found, 1)]
    most = max((row.position for row in rows), default=0)
    parts = [(str(place), [row for row in rows if row.position == place]) for place in range(1, min(most, LAST) + 1)]
    if most > LAST:
        parts.append((f"{LAST + 1} and later", [row for row in rows if row.position > LAST]))
    return SearchUses(
        run=run.id,
        attempts=attempts,
        searching=searching,
        without_gold=without,
        uses=tuple(_use(which, some, seed) for which, some in [*parts, (EVERY, rows)]),
    )


def _uses(trace: Trace) -> Sequence[SearchUse]:
    return use_of_searches(searches_of(trace), trace.gold)


def _use(which: str, rows: Sequence[_Row], seed: int) -> SearchUseShares:
    golden = [row for row in rows if row.gold]
    return SearchUseShares(
        which=which,
        searches=len(rows),
        found=share_figure([(row.question, float(row.use.found is not None)) for row in golden], seed),
        new_gold=share_figure([(row.question, float(row.use.new_gold)) for row in golden], seed),
        new=share_figure([(row.question, row.use.new) for row in rows], seed),
        repeated=share_figure([(row.question, float(row.use.repeated)) for row in rows], seed),
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[SearchUses, ...]:
    return tuple(uses_of_searches(store, run, options.seed) for run in runs)


def _table(made: tuple[SearchUses, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=_TITLE,
        columns=("run", "search", "searches", "found gold", "new gold", "new passages", "asked before"),
        rows=tuple(
            (one.run, use.which, use.searches, use.found, use.new_gold, use.new, use.repeated)
            for one in made
            for use in one.uses
        ),
        note="; ".join(
            f"{one.run}: {one.searching:,} of {one.attempts:,} attempts searched; {one.without_gold:,} name no gold"
            for one in made
        ),
    )


def _picture(made: tuple[SearchUses, ...], options: AnalysisOptions) -> Picture:
    marks = []
    for one in made:
        use = one.uses[-1]
        shown = {
            "found gold": use.found,
            "new gold": use.new_gold,
            "new passages": use.new,
            "asked before": use.repeated,
        }
        marks += [figure_mark(name, figure, one.run) for name, figure in shown.items()]
    return Picture(title=_TITLE, marks=tuple(marks), bars=True)


SEARCHES = Analysis(
    name="searches",
    summary="what each search found, and what of it was new",
    needs="recorded searches, and questions that name gold documents",
    measure=_measure,
    table=_table,
    picture=_picture,
    scored=False,
)
