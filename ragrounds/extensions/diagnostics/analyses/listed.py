"""Answers based on documents of a list: retracted papers, withdrawn guidelines, one publisher's trials."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
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
    """Figures of a run's answers that are based on the documents of a list, or on those with one of its labels."""

    run: str
    label: str
    """Label of the documents; empty if the list has no labels."""
    listed: int
    """Number of documents on the list; with a label, those that have it."""
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


ALONE, SEVERAL = "one label alone", "several labels"
"""Labels of attempts by their evidence, if the list has several labels: one label alone (one-sided evidence), and
several labels (conflicting evidence)."""
Listed = Mapping[str, Mapping[str, str]]
"""Document → question, or empty for every question → label of the document."""


class _Evidence(NamedTuple):
    """Listed documents behind one attempt."""

    question: Question
    key: str
    right: float
    retrieved: Mapping[str, str]
    """Listed document → its label."""
    in_prompt: Mapping[str, str]
    """Listed document → its label, for those in the last prompt."""


def read_list(path: str) -> Listed:
    """Read the documents of a list from the first column of a CSV file.

    A heading above ids of digits, or the word `document`, is not an id. Under a heading with `label`, that column says
    what each document is (a kind of evidence, `outdated`, `supports`), and a column `question` limits it to one
    question.

    Raises:
        UserError: no file is given, or it cannot be read.
    """
    if not path:
        raise UserError("Which documents? --documents FILE names a list: an id a line, or the first column of a CSV.")
    rows = [row for row in csv.reader(read_text(Path(path)).splitlines()) if row and row[0].strip()]
    heading = [name.strip().lower() for name in rows[0]] if rows else []
    has_labels = "label" in heading
    has_id_heading = len(rows) > 1 and not rows[0][0].strip().isdigit() and rows[1][0].strip().isdigit()
    listed: dict[str, dict[str, str]] = {}
    for line, row in enumerate(rows[has_labels or has_id_heading or heading[:1] == ["document"] :], 2):
        cells = dict(zip(heading, (cell.strip() for cell in row), strict=False)) if has_labels else {}
        if has_labels and not cells.get("label"):
            raise UserError(f"Cannot read line {line} of {path}: expected a document's id and its label.")
        listed.setdefault(row[0].strip(), {})[cells.get("question", "")] = cells.get("label", "")
    return listed


def _listed(passage: Passage, listed: Listed, question: str) -> tuple[str, str] | None:
    """Return the id by which a passage's document is on the list for a question, and its label; ``None`` if it is not.

    Some corpora have PubMed's ids with a prefix.
    """
    ids = (passage.document, passage.id, passage.document.rpartition(":")[2].rpartition("_")[2])
    for id in ids:
        labels = listed.get(id, {})
        for question_key in (question, question.rpartition("/")[2], ""):
            if question_key in labels:
                return id, labels[question_key]
    return None


def _passages_in_prompt(store: Store, attempt: Attempt, passages: Sequence[Passage]) -> set[str]:
    """Return the ids of these passages that are in the last prompt of an attempt."""
    model_calls = [call for call in calls(attempt.events) if call.kind == "model" and not call.error]
    recorded_call = store.call(model_calls[-1].key, Request, Reply) if model_calls else None
    prompt = "\n".join(message.content for message in recorded_call[0].messages) if recorded_call else ""
    return {
        passage.id
        for passage in passages
        if passage.text[:_SEARCHED].strip() and passage.text[:_SEARCHED].strip() in prompt
    }


def _load_evidence(store: Store, run: Run, listed: Listed, scorer: str) -> list[_Evidence]:
    scored = scored_run(store, run, scorer)
    question_by_id = {question.id: question for question in scored.questions}
    values = {score.key: float(score.value == 1.0) for score in scored.scores}
    evidence = []
    for attempt in store.attempts(run):
        if (question := question_by_id.get(attempt.question_id)) is None:
            continue
        passages = [passage for search in searches_by(store, attempt) for passage in search.passages]
        entries = {
            passage.id: entry for passage in passages if (entry := _listed(passage, listed, question.id)) is not None
        }
        listed_passages = [passage for passage in passages if passage.id in entries]
        shown_ids = _passages_in_prompt(store, attempt, listed_passages) if entries else set[str]()
        right = values.get((question.id, attempt.epoch), 0.0)
        in_prompt = dict(entries[id] for id in shown_ids)
        evidence.append(_Evidence(question, f"{question.id}#{attempt.epoch}", right, dict(entries.values()), in_prompt))
    return evidence


def _label_evidence(run: Run, label: str, listed: Listed, evidence: Sequence[_Evidence], seed: int) -> ListedEvidence:
    def matches(labels: Mapping[str, str]) -> bool:
        """Return True if the labels match the label of this row."""
        count = len(set(labels.values()))
        return {ALONE: count == 1, SEVERAL: count > 1}.get(label, label in labels.values())

    right_figures = [share_figure([(attempt.question, attempt.right) for attempt in evidence
                                   if matches(attempt.in_prompt) is is_with], seed)
                     for is_with in (True, False)]  # fmt: skip
    return ListedEvidence(
        run=run.id,
        label=label,
        listed=sum(label in labels.values() or label in (ALONE, SEVERAL) for labels in listed.values()),
        found=share_figure([(attempt.question, float(matches(attempt.retrieved))) for attempt in evidence], seed),
        shown=share_figure([(attempt.question, float(matches(attempt.in_prompt))) for attempt in evidence], seed),
        right_with=right_figures[0],
        right_without=right_figures[1],
        attempts={attempt.key: tuple(sorted(attempt.in_prompt)) for attempt in evidence if matches(attempt.in_prompt)},
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[ListedEvidence, ...]:
    listed = read_list(options.documents)
    labels = sorted({label for labels_by_question in listed.values() for label in labels_by_question.values()})
    if len(labels) > _MOST_LABELS:
        raise UserError(f"{options.documents} has {len(labels):,} labels; expected at most {_MOST_LABELS}.")
    records = []
    for run in runs:
        evidence = _load_evidence(store, run, listed, options.scorer)
        row_labels = [*labels, *([ALONE, SEVERAL] if len(labels) > 1 else [])] or [""]
        records += [_label_evidence(run, label, listed, evidence, options.seed) for label in row_labels]
    return tuple(records)


def _table(records: tuple[ListedEvidence, ...], options: AnalysisOptions) -> AnalysisTable:
    labelled = any(record.label for record in records)
    label_column = [("label", tuple(record.label for record in records))] if labelled else []
    run_column = (
        [("run", tuple(record.run for record in records))]
        if not labelled or len({record.run for record in records}) > 1
        else []
    )
    columns = dict([*run_column, *label_column])
    figures = (("found", "found"), ("in the last prompt", "shown"), ("right with", "right_with"),
               ("right without", "right_without"))  # fmt: skip
    rows = tuple(
        (*(cells[index] for cells in columns.values()), *(getattr(record, field) for _, field in figures))
        for index, record in enumerate(records)
    )
    shown_ids = {(record.run, key): ids for record in records for key, ids in record.attempts.items()}
    counts = Counter(id for ids in shown_ids.values() for id in ids)
    most_frequent = ", ".join(f"{id} ({count:,})" for id, count in counts.most_common(5))
    note = f"Most often in a last prompt: {most_frequent}. --json names every attempt." if most_frequent else ""
    if labelled and any(record.label == ALONE for record in records):
        note = f"{ALONE}: one-sided evidence; {SEVERAL}: evidence that conflicts, or of several kinds. {note}"
    title = f"Answers that used {max(record.listed for record in records):,} listed documents"
    return AnalysisTable(title=title, columns=(*columns, *(name for name, _ in figures)), rows=rows, note=note)


_MOST_LABELS = 20
"""Largest number of labels of a list: each is a row."""
LISTED = Analysis(
    name="listed",
    summary="which answers used documents of a list, such as retracted papers (--documents FILE)",
    needs="attempts that searched, and a list of document ids",
    measure=_measure,
    table=_table,
    picture=lambda records, options: Picture(
        title="Answers that used listed documents",
        marks=tuple(figure_mark(record.label or "in the last prompt", record.shown, record.run) for record in records),
        bars=True,
    ),
)
