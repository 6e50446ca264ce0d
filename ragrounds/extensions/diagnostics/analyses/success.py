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
    """Counts of right and wrong answers by retrieval success."""

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
    """Accuracy (mean of shares, if scores are shares) with the gold document found minus that without, with its 95 %
    interval."""
    low: float | None
    high: float | None
    without_gold: int


def by_success(run: ScoredRun, searches: Mapping[str, FoundPassages], k: int) -> Success:
    """Return right and wrong answers with and without a gold document among the first k passages.

    A value of 1 is right. The share of right answers is compared, or the mean if the scorer's scores are shares.
    """
    is_accuracy = described(run.scorer).accuracy
    table: Counter[tuple[bool, bool]] = Counter()
    values_by_success: dict[bool, list[float]] = {True: [], False: []}
    clusters: dict[bool, list[str]] = {True: [], False: []}
    cluster_names = {question.id: cluster_of(question) for question in run.questions}
    ranks = gold_ranks(run, searches)
    for question, rank in ranks.items():
        value = run.values.get(question)
        if value is not None:
            is_found = rank is not None and rank <= k
            table[is_found, value == 1.0] += 1
            values_by_success[is_found].append(float(value == 1.0) if is_accuracy else value)
            clusters[is_found].append(cluster_names[question])
    hit, miss = len(values_by_success[True]), len(values_by_success[False])
    estimate = (
        group_difference(values_by_success[False], values_by_success[True], clusters[False], clusters[True])
        if hit and miss
        else None
    )
    return Success(
        run=run.run.id,
        scorer=run.scorer,
        k=k,
        found_right=table[True, True],
        found_wrong=table[True, False],
        missed_right=table[False, True],
        missed_wrong=table[False, False],
        accuracy_found=sum(values_by_success[True]) / hit if hit else None,
        accuracy_missed=sum(values_by_success[False]) / miss if miss else None,
        difference=estimate.value if estimate else None,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        without_gold=len(run.questions) - hit - miss,
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Success, ...]:
    check_share("success", options.scorer)
    return tuple(
        by_success(run, first_searches(store, run), options.k) for run in scored_runs(store, runs, options.scorer)
    )


def _title(options: AnalysisOptions) -> str:
    return f"Gold document among the first {options.k} passages, and the answer ({options.scorer})"


def _table(records: tuple[Success, ...], options: AnalysisOptions) -> AnalysisTable:
    right, wrong, word = _words(options)
    columns = (
        *("run", f"found, {right}", f"found, {wrong}", f"missed, {right}", f"missed, {wrong}"),
        *(f"{word} if found, %", f"{word} if missed, %", "difference", "low", "high"),
    )
    rows = []
    for record in records:
        shares = (record.accuracy_found, record.accuracy_missed, record.difference, record.low, record.high)
        percentages = [None if share is None else round(100 * share, 2) for share in shares]
        counts = (record.found_right, record.found_wrong, record.missed_right, record.missed_wrong)
        rows.append((record.run, *counts, *percentages))
    return AnalysisTable(title=_title(options), columns=columns, rows=tuple(rows))


def _words(options: AnalysisOptions) -> tuple[str, str, str]:
    """Return the names of answers with a value of 1 and of less, and the name of the compared figure."""
    return ("right", "wrong", "right") if described(options.scorer).accuracy else ("whole", "less", options.scorer)


def _picture(records: tuple[Success, ...], options: AnalysisOptions) -> Picture:
    marks, word = [], _words(options)[2]
    for record in records:
        found_count, missed_count = record.found_right + record.found_wrong, record.missed_right + record.missed_wrong
        marks += [
            Mark(name=f"{word} if found", value=record.accuracy_found, note=f"n = {found_count:,}", group=record.run),
            Mark(
                name=f"{word} if missed", value=record.accuracy_missed, note=f"n = {missed_count:,}", group=record.run
            ),
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
