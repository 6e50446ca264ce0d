"""Groups of questions in which answers fail: by the purpose of the published case, treatment, test or diagnosis
(OGCaReBench Fig. 4), and by specialty (its Table 8).

Wrong answers are separated by whether the source report was retrieved (its Table 14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import ScoredRun, check_accuracy, first_searches, gold_ranks, scored_runs
from ragrounds.evals.compare.figures import NONE, Figure, property_named
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages

_PROPERTIES = {"failures": "significance_type", "specialties": "subject"}
"""Analysis → property of questions that it groups by."""


class GroupFailures(Struct, frozen=True, kw_only=True):
    """Answers of one run to the questions of one group. A value of 1 is right; all counts are of questions."""

    run: str
    agent: str
    scorer: str
    k: int
    group: str
    questions: int
    right: int
    wrong: int
    wrong_found: int | None
    """Number of questions answered wrongly although a gold document was among the first `k` passages; ``None`` if the
    run has no searches."""
    wrong_missed: int | None
    """Number of questions answered wrongly without a gold document among these passages."""
    share: float | None
    """Share of this group in the run's answers that are wrong although the document was retrieved (in all wrong ones,
    if that is not known); ``None`` if there are no such answers."""
    accuracy: Figure


def failures_by(
    run: ScoredRun, searches: Mapping[str, FoundPassages], property_name: str, k: int, seed: int = 0
) -> list[GroupFailures]:
    """Return the answers of a run by a property of its questions, the largest group first.

    Questions without a score count in no group's right or wrong.

    Raises:
        UserError: no question has the property.
    """
    property_of = property_named(property_name, run.questions)
    ranks = gold_ranks(run, searches)
    groups: dict[str, list[str]] = {}
    for question in run.questions:
        groups.setdefault(property_of(question) or NONE, []).append(question.id)
    failed = {id for id, value in run.values.items() if value is not None and value != 1.0}
    reached = {id for id, rank in ranks.items() if rank is not None and rank <= k}
    wrong = {name: [id for id in ids if id in failed] for name, ids in groups.items()}
    hits = {name: [id for id in ids if id in reached] for name, ids in wrong.items()}
    failures = hits if ranks else wrong
    total = sum(map(len, failures.values()))
    return [
        GroupFailures(
            run=run.run.id,
            agent=run.run.agent,
            scorer=run.scorer,
            k=k,
            group=name,
            questions=len(ids),
            right=sum(run.values.get(id) == 1.0 for id in ids),
            wrong=len(wrong[name]),
            wrong_found=len(hits[name]) if ranks else None,
            wrong_missed=sum(id in ranks for id in wrong[name]) - len(hits[name]) if ranks else None,
            share=len(failures[name]) / total if total else None,
            accuracy=run.figure(ids, seed),
        )
        for name, ids in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]


def _measure(name: str, store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[GroupFailures, ...]:
    check_accuracy(name, options.scorer)
    return tuple(
        record
        for run in scored_runs(store, runs, options.scorer)
        for record in failures_by(run, first_searches(store, run), _PROPERTIES[name], options.k, options.seed)
    )


def _title(name: str, options: AnalysisOptions) -> str:
    return f"Right and wrong answers by {_PROPERTIES[name].replace('_', ' ')} ({options.scorer})"


def _table(name: str, records: tuple[GroupFailures, ...], options: AnalysisOptions) -> AnalysisTable:
    columns = (
        *("run", _PROPERTIES[name].replace("_", " "), "questions", "accuracy", "right", "wrong"),
        *("wrong, found", "wrong, missed", "share of failures"),
    )
    rows = tuple(
        (
            *(record.run, record.group, record.questions, record.accuracy, record.right, record.wrong),
            *(record.wrong_found, record.wrong_missed, record.share),
        )
        for record in records
    )
    note = (
        f"Found: a gold document was among the first {options.k} passages of the first search. The last column is each "
        "group's share of the answers that are wrong although it was found, or of all wrong ones without a search."
    )
    return AnalysisTable(title=_title(name, options), columns=columns, rows=rows, note=note)


def _picture(name: str, records: tuple[GroupFailures, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(figure_mark(record.group, record.accuracy, record.run) for record in records)
    return Picture(title=_title(name, options), marks=marks, bars=True)


FAILURES = Analysis(
    name="failures",
    summary="failures by what the case is published for: treatment, test, diagnosis (OGCaReBench Fig. 4)",
    needs="scores, and questions whose metadata has a significance_type",
    measure=partial(_measure, "failures"),
    table=partial(_table, "failures"),
    picture=partial(_picture, "failures"),
)
SPECIALTIES = Analysis(
    name="specialties",
    summary="right answers and failures by specialty (OGCaReBench Table 8)",
    needs="scores, and questions that name their subject",
    measure=partial(_measure, "specialties"),
    table=partial(_table, "specialties"),
    picture=partial(_picture, "specialties"),
)
