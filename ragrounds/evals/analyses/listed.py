"""Answers that rest on documents of a list: retracted papers, withdrawn guidelines, one publisher's trials."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ragrounds.contracts import Request
from ragrounds.errors import UserError
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import scored_run, share_figure
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls, searches_by
from ragrounds.files import read_text
from ragrounds.records import Attempt, Passage, Reply, Run

_BEGINS = 60
"""Characters of a passage by which a prompt is searched for it."""


class ListedEvidence(Struct, frozen=True, kw_only=True):
    """How far a run's answers rest on the documents of a list."""

    run: str
    listed: int
    """Documents on the list."""
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


def read_list(path: str) -> frozenset[str]:
    """The documents of a list: the first column of CSV, without a heading above ids of digits.

    Raises:
        UserError: no file is named, or it cannot be read.
    """
    if not path:
        raise UserError("Which documents? --documents FILE names a list: an id a line, or the first column of a CSV.")
    rows = csv.reader(read_text(Path(path)).splitlines())
    ids = [row[0].strip() for row in rows if row and row[0].strip()]
    heading = len(ids) > 1 and not ids[0].isdigit() and ids[1].isdigit()
    return frozenset(ids[heading:])


def _listed(passage: Passage, listed: frozenset[str]) -> str:
    """The id by which a passage's document is on the list; PubMed's ids stand with a prefix in some corpora."""
    ids = (passage.document, passage.id, passage.document.rpartition(":")[2].rpartition("_")[2])
    return next((id for id in ids if id in listed), "")


def _shown(store: Store, attempt: Attempt, found: Sequence[Passage]) -> set[str]:
    """Those of some passages that the last prompt of an attempt holds."""
    last = [call for call in calls(attempt.events) if call.kind == "model" and not call.error]
    recorded = store.call(last[-1].key, Request, Reply) if last else None
    prompt = "\n".join(message.content for message in recorded[0].messages) if recorded else ""
    return {one.id for one in found if one.text[:_BEGINS].strip() and one.text[:_BEGINS].strip() in prompt}


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[ListedEvidence, ...]:
    listed, made = read_list(options.documents), []
    for run in runs:
        scored = scored_run(store, run, options.scorer)
        asked = {question.id: question for question in scored.questions}
        values = {(score.question_id, score.epoch): float(score.value == 1.0) for score in scored.scores}
        found, rests, attempts = [], [], dict[str, tuple[str, ...]]()
        for attempt in store.attempts(run):
            if (question := asked.get(attempt.question_id)) is None:
                continue
            passages = [one for search in searches_by(store, attempt) for one in search.passages]
            mine = {one.id: id for one in passages if (id := _listed(one, listed))}
            shown = _shown(store, attempt, [one for one in passages if one.id in mine]) if mine else set[str]()
            found.append((question, float(bool(mine))))
            rests.append((question, bool(shown), values.get((question.id, attempt.epoch), 0.0)))
            if shown:
                attempts[f"{question.id}#{attempt.epoch}"] = tuple(sorted({mine[id] for id in shown}))
        right = [share_figure([(q, value) for q, held, value in rests if held is with_it], options.seed)
                 for with_it in (True, False)]  # fmt: skip
        made.append(
            ListedEvidence(
                run=run.id,
                listed=len(listed),
                found=share_figure(found, options.seed),
                shown=share_figure([(question, float(held)) for question, held, _ in rests], options.seed),
                right_with=right[0],
                right_without=right[1],
                attempts=attempts,
            )
        )
    return tuple(made)


def _table(made: tuple[ListedEvidence, ...], options: AnalysisOptions) -> AnalysisTable:
    rows = tuple((one.run, one.found, one.shown, one.right_with, one.right_without) for one in made)
    counts = Counter(id for one in made for ids in one.attempts.values() for id in ids)
    most = ", ".join(f"{id} ({count:,})" for id, count in counts.most_common(5))
    note = f"Most often in a last prompt: {most}. --json names every attempt." if most else ""
    title = f"Answers that rest on {made[0].listed:,} listed documents"
    return AnalysisTable(
        title=title, columns=("run", "found", "in the last prompt", "right with", "right without"), rows=rows, note=note
    )


def _picture(made: tuple[ListedEvidence, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(figure_mark("in the last prompt", one.shown, one.run) for one in made)
    return Picture(title="Answers that rest on listed documents", marks=marks, bars=True)


LISTED = Analysis(
    name="listed",
    summary="which answers rest on documents of a list, such as retracted papers (--documents FILE)",
    needs="attempts that searched, and a list of document ids",
    measure=_measure,
    table=_table,
    picture=_picture,
)
