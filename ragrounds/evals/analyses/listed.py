"""Answers that rest on documents of a list: retracted papers, withdrawn guidelines, one publisher's trials."""

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

_BEGINS = 60
"""Characters of a passage by which a prompt is searched for it."""


class ListedEvidence(Struct, frozen=True, kw_only=True):
    """How far a run's answers rest on the documents of a list, or on those of one of its labels."""

    run: str
    label: str
    """Empty: the list has no labels."""
    listed: int
    """Documents on the list; of a label, those that have it."""
    found: Figure | None
    """Share of attempts whose searches found one of them."""
    shown: Figure | None
    """Share of attempts whose last prompt holds a passage of one."""
    right_with: Figure | None
    """Share of right answers among those."""
    right_without: Figure | None
    """The same among the others."""
    attempts: dict[str, tuple[str, ...]]
    """Question and epoch, ``id#epoch`` → the listed documents that its last prompt holds."""


ALONE, SEVERAL = "one label alone", "several labels"
"""Attempts whose evidence has one label, where the list has several: it is one-sided. And those where it conflicts."""
Listed = Mapping[str, Mapping[str, str]]
"""Document → question, or empty for every one → its label."""


class _Rests(NamedTuple):
    """What one attempt rests on."""

    question: Question
    key: str
    right: float
    found: Mapping[str, str]
    """Listed document → its label."""
    shown: Mapping[str, str]
    """The same of those in the last prompt."""


def read_list(path: str) -> Listed:
    """The documents of a list: the first column of CSV. A heading above ids of digits is none of them, nor is the word
    `document`. Under a heading with `label`, that column says what each document is (a kind of evidence, `outdated`,
    `supports`), and a column `question` for which question alone.

    Raises:
        UserError: no file is named, or it cannot be read.
    """
    if not path:
        raise UserError("Which documents? --documents FILE names a list: an id a line, or the first column of a CSV.")
    rows = [row for row in csv.reader(read_text(Path(path)).splitlines()) if row and row[0].strip()]
    heading = [name.strip().lower() for name in rows[0]] if rows else []
    named = "label" in heading
    digits = len(rows) > 1 and not rows[0][0].strip().isdigit() and rows[1][0].strip().isdigit()
    listed: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows[named or digits or heading[:1] == ["document"] :], 2):
        held = dict(zip(heading, (cell.strip() for cell in row), strict=False)) if named else {}
        if named and not held.get("label"):
            raise UserError(f"Cannot read line {number} of {path}: expected a document's id and its label.")
        listed.setdefault(row[0].strip(), {})[held.get("question", "")] = held.get("label", "")
    return listed


def _listed(passage: Passage, listed: Listed, question: str) -> tuple[str, str] | None:
    """The id by which a passage's document is on the list for a question, and its label; PubMed's ids stand with a
    prefix in some corpora."""
    ids = (passage.document, passage.id, passage.document.rpartition(":")[2].rpartition("_")[2])
    for id in ids:
        labels = listed.get(id, {})
        for asked in (question, question.rpartition("/")[2], ""):
            if asked in labels:
                return id, labels[asked]
    return None


def _shown(store: Store, attempt: Attempt, found: Sequence[Passage]) -> set[str]:
    """Those of some passages that the last prompt of an attempt holds."""
    last = [call for call in calls(attempt.events) if call.kind == "model" and not call.error]
    recorded = store.call(last[-1].key, Request, Reply) if last else None
    prompt = "\n".join(message.content for message in recorded[0].messages) if recorded else ""
    return {one.id for one in found if one.text[:_BEGINS].strip() and one.text[:_BEGINS].strip() in prompt}


def _rests(store: Store, run: Run, listed: Listed, scorer: str) -> list[_Rests]:
    scored = scored_run(store, run, scorer)
    asked = {question.id: question for question in scored.questions}
    values = {(score.question_id, score.epoch): float(score.value == 1.0) for score in scored.scores}
    made = []
    for attempt in store.attempts(run):
        if (question := asked.get(attempt.question_id)) is None:
            continue
        passages = [one for search in searches_by(store, attempt) for one in search.passages]
        mine = {one.id: held for one in passages if (held := _listed(one, listed, question.id)) is not None}
        shown = _shown(store, attempt, [one for one in passages if one.id in mine]) if mine else set[str]()
        right = values.get((question.id, attempt.epoch), 0.0)
        in_prompt = dict(mine[id] for id in shown)
        made.append(_Rests(question, f"{question.id}#{attempt.epoch}", right, dict(mine.values()), in_prompt))
    return made


def _of_label(run: Run, label: str, listed: Listed, rests: Sequence[_Rests], seed: int) -> ListedEvidence:
    def holds(labels: Mapping[str, str]) -> bool:
        """Whether documents are what this is about."""
        count = len(set(labels.values()))
        return {ALONE: count == 1, SEVERAL: count > 1}.get(label, label in labels.values())

    right = [share_figure([(one.question, one.right) for one in rests if holds(one.shown) is with_it], seed)
             for with_it in (True, False)]  # fmt: skip
    return ListedEvidence(
        run=run.id,
        label=label,
        listed=sum(label in labels.values() or label in (ALONE, SEVERAL) for labels in listed.values()),
        found=share_figure([(one.question, float(holds(one.found))) for one in rests], seed),
        shown=share_figure([(one.question, float(holds(one.shown))) for one in rests], seed),
        right_with=right[0],
        right_without=right[1],
        attempts={one.key: tuple(sorted(one.shown)) for one in rests if holds(one.shown)},
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[ListedEvidence, ...]:
    listed = read_list(options.documents)
    labels = sorted({label for known in listed.values() for label in known.values()})
    if len(labels) > _MOST_LABELS:
        raise UserError(f"{options.documents} has {len(labels):,} labels; expected at most {_MOST_LABELS}.")
    made = []
    for run in runs:
        rests = _rests(store, run, listed, options.scorer)
        shown = [*labels, *([ALONE, SEVERAL] if len(labels) > 1 else [])] or [""]
        made += [_of_label(run, label, listed, rests, options.seed) for label in shown]
    return tuple(made)


def _table(made: tuple[ListedEvidence, ...], options: AnalysisOptions) -> AnalysisTable:
    labelled = any(one.label for one in made)
    named = [("label", tuple(one.label for one in made))] if labelled else []
    several = [("run", tuple(one.run for one in made))] if not labelled or len({one.run for one in made}) > 1 else []
    columns = dict([*several, *named])
    figures = (("found", "found"), ("in the last prompt", "shown"), ("right with", "right_with"),
               ("right without", "right_without"))  # fmt: skip
    rows = tuple(
        (*(cells[at] for cells in columns.values()), *(getattr(one, field) for _, field in figures))
        for at, one in enumerate(made)
    )
    shown = {(one.run, key): ids for one in made for key, ids in one.attempts.items()}
    counts = Counter(id for ids in shown.values() for id in ids)
    most = ", ".join(f"{id} ({count:,})" for id, count in counts.most_common(5))
    note = f"Most often in a last prompt: {most}. --json names every attempt." if most else ""
    if labelled and any(one.label == ALONE for one in made):
        note = f"{ALONE}: one-sided evidence; {SEVERAL}: evidence that conflicts, or of several kinds. {note}"
    title = f"Answers that rest on {max(one.listed for one in made):,} listed documents"
    return AnalysisTable(title=title, columns=(*columns, *(name for name, _ in figures)), rows=rows, note=note)


def _picture(made: tuple[ListedEvidence, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(figure_mark(one.label or "in the last prompt", one.shown, one.run) for one in made)
    return Picture(title="Answers that rest on listed documents", marks=marks, bars=True)


_MOST_LABELS = 20
"""Labels of a list: each is a row."""
LISTED = Analysis(
    name="listed",
    summary="which answers rest on documents of a list, such as retracted papers (--documents FILE)",
    needs="attempts that searched, and a list of document ids",
    measure=_measure,
    table=_table,
    picture=_picture,
)
