"""Inside the answers of a run: what its searches were good for, and what a refinement turned right and wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.contracts import Scorer
from ragrounds.evals.analyses.refinement import Flips, count_flips, refinements
from ragrounds.evals.analyses.search_use import SearchUse, searches_of, use_of_searches
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.stats import paired_difference, stratified_mean
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, every_trace
from ragrounds.records import Question, Run

LAST = 4
"""Searches of an attempt that stand by themselves; the later ones stand together."""
EVERY = "all"


class SearchUseShares(Struct, frozen=True, kw_only=True):
    """What some searches were good for, as shares with intervals by a bootstrap over questions. ``None``: of none of
    them it can be told."""

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
    kept: Figure | None
    """What a reader kept comes from a gold document; where there is a reader and it can be told."""
    used: Figure | None
    """The answer rests on a gold document of this search; where it can be told."""


class SearchUses(Struct, frozen=True, kw_only=True):
    """The searches of a run."""

    run: str
    attempts: int
    searching: int
    """Attempts that searched."""
    without_gold: int
    """Attempts at questions that name no gold document."""
    uses: tuple[SearchUseShares, ...]


class Refinement(Struct, frozen=True, kw_only=True):
    """What a refinement did to a run's answers."""

    run: str
    flips: Flips
    gained: Figure | None
    """Share of refined attempts that were wrong and became right."""
    lost: Figure | None
    net: float | None
    """Gained less lost, with the interval of a paired bootstrap over questions."""
    low: float | None
    high: float | None


class _Row(Struct, frozen=True):
    question: Question
    place: int
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
    most = max((row.place for row in rows), default=0)
    parts = [(str(place), [row for row in rows if row.place == place]) for place in range(1, min(most, LAST) + 1)]
    if most > LAST:
        parts.append((f"{LAST + 1} and later", [row for row in rows if row.place > LAST]))
    return SearchUses(
        run=run.id,
        attempts=attempts,
        searching=searching,
        without_gold=without,
        uses=tuple(_use(which, some, seed) for which, some in [*parts, (EVERY, rows)]),
    )


def _uses(trace: Trace) -> Sequence[SearchUse]:
    return use_of_searches(searches_of(trace), trace.gold, trace.attempt.text)


def _use(which: str, rows: Sequence[_Row], seed: int) -> SearchUseShares:
    golden = [row for row in rows if row.gold]
    return SearchUseShares(
        which=which,
        searches=len(rows),
        found=_share([(row.question, float(row.use.found is not None)) for row in golden], seed),
        new_gold=_share([(row.question, float(row.use.new_gold)) for row in golden], seed),
        new=_share([(row.question, row.use.new) for row in rows], seed),
        repeated=_share([(row.question, float(row.use.repeated)) for row in rows], seed),
        kept=_share([(row.question, float(row.use.kept)) for row in golden if row.use.kept is not None], seed),
        used=_share([(row.question, float(row.use.used)) for row in golden if row.use.used is not None], seed),
    )


def refinement(
    store: Store, run: Run, scorer: Scorer, fits: Mapping[str, Question], key: str = "first", seed: int = 0
) -> Refinement:
    """Count what became of the first answers to the questions that the scorer fits, and how sure that is."""
    _, golds = store.questions(run)
    attempts = (attempt for attempt in store.attempts(run) if attempt.question_id in fits)
    made = list(refinements(attempts, fits, golds, scorer, key))
    known = [(one.question, one.before.value == 1.0, one.after.value == 1.0) for one in made if one.before and one.told]
    net = (
        paired_difference(
            [float(before) for _, before, _ in known],
            [float(after) for _, _, after in known],
            [""] * len(known),
            [_cluster(question) for question, _, _ in known],
            seed=seed,
        )
        if known
        else None
    )
    return Refinement(
        run=run.id,
        flips=count_flips(scorer.scorer, made),
        gained=_share([(question, float(after and not before)) for question, before, after in known], seed),
        lost=_share([(question, float(before and not after)) for question, before, after in known], seed),
        net=net.value if net else None,
        low=net.low if net else None,
        high=net.high if net else None,
    )


def _share(values: Iterable[tuple[Question, float]], seed: int) -> Figure | None:
    found = list(values)
    if not found:
        return None
    made = stratified_mean(
        [value for _, value in found], [""] * len(found), [_cluster(question) for question, _ in found], seed=seed
    )
    return Figure(value=made.value, n=made.n, missing=0, error=None, low=made.low, high=made.high, best=None)


def _cluster(question: Question) -> str:
    return question.cluster or question.id
