"""Answers based on documents of a list: retracted papers, withdrawn guidelines, one publisher's trials."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.base.records import Attempt, Passage, Question, Reply, Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import scored_run, share_figure
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, searches_by

_SEARCHED = 60
"""Number of first characters of a passage that are searched in a prompt."""


class ListedEvidence(Struct, frozen=True, kw_only=True):
    """Figures of a run's answers that are based on the documents of a list."""

    run: str
    listed: int
    """Number of documents on the list."""
    found: Figure | None
    """Share of attempts whose searches found one of these documents."""
    shown: Figure | None
    """Share of attempts whose last prompt contains a passage of one of them."""
    right_with: Figure | None
    """Share of right answers among the attempts counted in `shown`."""
    right_without: Figure | None
    """Share of right answers among the other attempts."""
    attempts: dict[str, tuple[str, ...]]
    """Question and epoch, ``id#epoch`` → listed documents in its last prompt."""


class _Evidence(NamedTuple):
    """Listed documents behind one attempt."""

    question: Question
    key: str
    right: float
    was_found: bool
    """True if a search found a listed document."""
    in_prompt: tuple[str, ...]
    """Listed documents in the last prompt."""


def read_list(path: str) -> frozenset[str]:
    """Read the documents of a list from the first column of a CSV file.

    A heading above ids of digits, or the word `document`, is not an id.

    Raises:
        UserError: no file is given, or it cannot be read.
    """
    if not path:
        raise UserError("Which documents? --documents FILE names a list: an id a line, or the first column of a CSV.")
    rows = csv.reader(read_text(Path(path)).splitlines())
    ids = [row[0].strip() for row in rows if row and row[0].strip()]
    first, second = (*ids, "", "")[:2]
    has_heading = first.lower() == "document" or (second.isdigit() and not first.isdigit())
    return frozenset(ids[has_heading:])


def _listed_id(passage: Passage, listed: frozenset[str]) -> str:
    """Return the id by which a passage's document is on the list; empty if it is not.

    Some corpora have PubMed's ids with a prefix.
    """
    ids = (passage.document, passage.id, passage.document.rpartition(":")[2].rpartition("_")[2])
    return next((id for id in ids if id in listed), "")


def _texts_in_prompt(store: Store, attempt: Attempt, passages: Sequence[Passage]) -> list[Passage]:
    """Return those of the passages that are in the last prompt of an attempt."""
    model_calls = [call for call in calls(attempt.events) if call.kind == "model" and not call.error]
    recorded_call = store.call(model_calls[-1].key, Request, Reply) if model_calls else None
    prompt = "\n".join(message.content for message in recorded_call[0].messages) if recorded_call else ""
    return [
        passage
        for passage in passages
        if passage.text[:_SEARCHED].strip() and passage.text[:_SEARCHED].strip() in prompt
    ]


def _load_evidence(store: Store, run: Run, listed: frozenset[str], scorer: str) -> list[_Evidence]:
    scored = scored_run(store, run, scorer)
    question_by_id = {question.id: question for question in scored.questions}
    values = {score.key: float(score.value == 1.0) for score in scored.scores}
    evidence = []
    for attempt in store.attempts(run):
        if (question := question_by_id.get(attempt.question_id)) is None:
            continue
        found = [
            passage
            for search in searches_by(store, attempt)
            for passage in search.passages
            if _listed_id(passage, listed)
        ]
        shown = _texts_in_prompt(store, attempt, found) if found else []
        in_prompt = tuple(sorted({_listed_id(passage, listed) for passage in shown}))
        right = values.get((question.id, attempt.epoch), 0.0)
        evidence.append(_Evidence(question, f"{question.id}#{attempt.epoch}", right, bool(found), in_prompt))
    return evidence


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[ListedEvidence, ...]:
    listed = read_list(options.documents)
    records = []
    for run in runs:
        evidence = _load_evidence(store, run, listed, options.scorer)
        right_with, right_without = (
            share_figure(
                [(attempt.question, attempt.right) for attempt in evidence if bool(attempt.in_prompt) is is_with],
                options.seed,
            )
            for is_with in (True, False)
        )
        records.append(
            ListedEvidence(
                run=run.id,
                listed=len(listed),
                found=share_figure(
                    [(attempt.question, float(attempt.was_found)) for attempt in evidence], options.seed
                ),
                shown=share_figure(
                    [(attempt.question, float(bool(attempt.in_prompt))) for attempt in evidence], options.seed
                ),
                right_with=right_with,
                right_without=right_without,
                attempts={attempt.key: attempt.in_prompt for attempt in evidence if attempt.in_prompt},
            )
        )
    return tuple(records)


def _table(records: tuple[ListedEvidence, ...], options: AnalysisOptions) -> AnalysisTable:
    shown_ids = Counter(id for record in records for ids in record.attempts.values() for id in ids)
    most_frequent = ", ".join(f"{id} ({count:,})" for id, count in shown_ids.most_common(5))
    return AnalysisTable(
        title=f"Answers that used {records[0].listed:,} listed documents",
        columns=("run", "found", "in the last prompt", "right with", "right without"),
        rows=tuple(
            (record.run, record.found, record.shown, record.right_with, record.right_without) for record in records
        ),
        note=f"Most often in a last prompt: {most_frequent}. --json names every attempt." if most_frequent else "",
    )


LISTED = Analysis(
    name="listed",
    summary="which answers used documents of a list, such as retracted papers (--documents FILE)",
    needs="attempts that searched, and a list of document ids",
    measure=_measure,
    table=_table,
    picture=lambda records, options: Picture(
        title="Answers that used listed documents",
        marks=tuple(figure_mark("in the last prompt", record.shown, record.run) for record in records),
        bars=True,
    ),
)
