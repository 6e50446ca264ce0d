"""Retrieval success against right answers (OGCaReBench Table 14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.analyses.run_data import (
    ScoredRun,
    check_share,
    first_searches,
    gold_ranks,
    scored_runs,
)
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.scorers import described
from ragrounds.evals.stats import group_difference
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages


class Success(Struct, frozen=True, kw_only=True):
    """Retrieval success against a right answer."""

    run: str
    scorer: str
    k: int
    found_right: int
    found_wrong: int
    missed_right: int
    missed_wrong: int
    accuracy_found: float | None
    accuracy_missed: float | None
    difference: float | None
    """Accuracy (of shares of an answer: their mean) with the gold document found, less that without, with its 95 %
    interval."""
    low: float | None
    high: float | None
    without_gold: int


def by_success(run: ScoredRun, found: Mapping[str, FoundPassages], k: int) -> Success:
    """Right and wrong answers with a gold document among the first k passages, and without. A value of 1 is right; what
    is compared is the share of right answers, or, of a scorer whose scores are shares, their mean."""
    counts = described(run.scorer).accuracy
    table: Counter[tuple[bool, bool]] = Counter()
    right: dict[bool, list[float]] = {True: [], False: []}
    clusters: dict[bool, list[str]] = {True: [], False: []}
    named = {question.id: cluster_of(question) for question in run.questions}
    ranks = gold_ranks(run, found)
    for question, rank in ranks.items():
        value = run.values.get(question)
        if value is not None:
            place = rank is not None and rank <= k
            table[place, value == 1.0] += 1
            right[place].append(float(value == 1.0) if counts else value)
            clusters[place].append(named[question])
    hit, miss = len(right[True]), len(right[False])
    apart = group_difference(right[False], right[True], clusters[False], clusters[True]) if hit and miss else None
    return Success(
        run=run.run.id,
        scorer=run.scorer,
        k=k,
        found_right=table[True, True],
        found_wrong=table[True, False],
        missed_right=table[False, True],
        missed_wrong=table[False, False],
        accuracy_found=sum(right[True]) / hit if hit else None,
        accuracy_missed=sum(right[False]) / miss if miss else None,
        difference=apart.value if apart else None,
        low=apart.low if apart else None,
        high=apart.high if apart else None,
        without_gold=len(run.questions) - hit - miss,
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Success, ...]:
    check_share("success", options.scorer)
    return tuple(
        by_success(run, first_searches(store, run), options.k) for run in scored_runs(store, runs, options.scorer)
    )


def _title(options: AnalysisOptions) -> str:
    return f"Gold document among the first {options.k} passages, and the answer ({options.scorer})"


def _table(made: tuple[Success, ...], options: AnalysisOptions) -> AnalysisTable:
    right, wrong, word = _words(options)
    columns = (
        *("run", f"found, {right}", f"found, {wrong}", f"missed, {right}", f"missed, {wrong}"),
        *(f"{word} if found, %", f"{word} if missed, %", "difference", "low", "high"),
    )
    rows = tuple(
        (
            *(one.run, one.found_right, one.found_wrong, one.missed_right, one.missed_wrong),
            *map(_percent, (one.accuracy_found, one.accuracy_missed, one.difference, one.low, one.high)),
        )
        for one in made
    )
    return AnalysisTable(title=_title(options), columns=columns, rows=rows)


def _words(options: AnalysisOptions) -> tuple[str, str, str]:
    """What answers of a value of 1 and of less are called, and the figure that is compared."""
    return ("right", "wrong", "right") if described(options.scorer).accuracy else ("whole", "less", options.scorer)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _picture(made: tuple[Success, ...], options: AnalysisOptions) -> Picture:
    marks, word = [], _words(options)[2]
    for one in made:
        found, missed = one.found_right + one.found_wrong, one.missed_right + one.missed_wrong
        marks += [
            Mark(name=f"{word} if found", value=one.accuracy_found, note=f"n = {found:,}", group=one.run),
            Mark(name=f"{word} if missed", value=one.accuracy_missed, note=f"n = {missed:,}", group=one.run),
        ]
    return Picture(title=_title(options), marks=tuple(marks), bars=True)


SUCCESS = Analysis(
    name="success",
    summary="retrieval success and right answers (OGCaReBench Table 14)",
    needs="scores, recorded searches, and questions that name gold documents",
    measure=_measure,
    table=_table,
    picture=_picture,
)
