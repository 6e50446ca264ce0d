"""Rows of the frames of stored runs, read from the store in parts, so that memory does not grow with the runs.

Every function yields parts, lists of rows; a row has its frame's cells in the order of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import get_args

from ragrounds.api import frames
from ragrounds.api.frames import Part, Row, question_metadata
from ragrounds.base.chunks import chunks
from ragrounds.base.records import Attempt, Call, Gold, Question, Run, Status
from ragrounds.evals.compare.comparison import AttemptSums, attempt_sums
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.judges.recorded import recorded_verdicts
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.store.attempt_notes import AttemptNote, notes_of
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, searches_by

Rows = Callable[[Store, Run], Iterator[Part]]
QuestionAttempt = tuple[Question, Gold, int, Attempt | None]
"""Question of a run with its gold answer, its epoch and the attempt; ``None`` if the attempt was not made yet."""
_ROWS_PER_PART = 2000
_QUESTIONS_PER_PART = 400
"""Number of questions whose attempts are in memory together."""


def rows_of(frame: frames.Frame, store: Store, runs: Sequence[Run]) -> Iterator[Part]:
    """Yield the rows of one of `frames.OF_RUNS`, run after run."""
    readers: dict[str, Rows] = {
        "runs": _run_rows,
        "attempts": _attempt_rows,
        "calls": _call_rows,
        "scores": _score_rows,
        "passages": _passage_rows,
        "judgements": _judgement_rows,
    }
    for run in runs:
        yield from readers[frame.name](store, run)


def run_attempts(store: Store, run: Run) -> Iterator[list[QuestionAttempt]]:
    """Yield all questions of a run with their attempts, in the order of its questions, in parts, with texts and
    events.
    """
    questions, golds = store.questions(run)
    for part in chunks(questions, _QUESTIONS_PER_PART):
        attempts = store.attempts(run, among=[question.id for question in part])
        by_key = {attempt.key: attempt for attempt in attempts}
        yield [
            (question, golds[question.id], epoch, by_key.get((question.id, epoch)))
            for question in part
            for epoch in range(run.epochs)
        ]


def _run_rows(store: Store, run: Run) -> Iterator[Part]:
    sums = AttemptSums(**attempt_sums(run, store.summaries(run), run.count * run.epochs))
    models = dict.fromkeys(str(model) for model in dict(run.identity.get("models") or {}).values())
    yield [
        frames.RUNS.cells(
            run,
            sums,
            run=run.id,
            models=", ".join(models) or None,
            questions=run.count,
            **{name: sums.statuses.get(name, 0) for name in get_args(Status)},
            name=kept_names(store.engine).get(run.id, run.agent),
        )
    ]


def _attempt_rows(store: Store, run: Run) -> Iterator[Part]:
    noted = notes_of(store, [run])
    for part in run_attempts(store, run):
        yield [
            _attempt_row(run, question_attempt, noted.get((run.id, question_attempt[0].id, question_attempt[2]), ()))
            for question_attempt in part
        ]


def _attempt_row(run: Run, question_attempt: QuestionAttempt, notes: Sequence[AttemptNote]) -> Row:
    question, gold, epoch, attempt = question_attempt
    cells: dict[str, object] = {
        **_attempt_cells(run, question.id, epoch),
        "gold": gold.answer,
        "metadata": question_metadata(question),
        "marks": " ".join(note.mark for note in notes if note.mark) or None,
        "notes": "\n".join(f"{note.author}: {note.text}" for note in notes if note.text) or None,
    }
    if attempt is None or attempt.status == "not_run":
        reason = attempt.reason or None if attempt else None
        return frames.ATTEMPTS.cells(question, **cells, status="not_run", reason=reason, text=None)
    cells["seconds"] = attempt.seconds if run.timed else None
    return frames.ATTEMPTS.cells(attempt.with_unknowns(), question, **cells)


def _attempt_cells(run: Run, question_id: str, epoch: int) -> dict[str, object]:
    return {"run": run.id, "agent": run.agent, "question_id": question_id, "epoch": epoch}


def _call_rows(store: Store, run: Run) -> Iterator[Part]:
    for part in run_attempts(store, run):
        yield [
            _call_row(call, call=number, **_attempt_cells(run, question.id, epoch))
            for question, _, epoch, attempt in part
            if attempt is not None
            for number, call in enumerate(calls(attempt.events))
        ]


def _call_row(call: Call, /, **cells: object) -> Row:
    # The cost of a call without a reply is not known.
    uncached = call.cost_uncached if call.is_counted else None
    return frames.CALLS.cells(
        call,
        **cells,
        cost_paid=0.0 if call.cached and not call.error else uncached,
        cost_uncached=uncached,
        passages=len(call.passages) if call.kind == "search" else None,
        faults=len(call.faults),
    )


def _score_rows(store: Store, run: Run) -> Iterator[Part]:
    scores = store.stream_scores(run)
    while part := [frames.SCORES.cells(score, run=run.id, agent=run.agent) for score in islice(scores, _ROWS_PER_PART)]:
        yield part


def _passage_rows(store: Store, run: Run) -> Iterator[Part]:

    for part in run_attempts(store, run):
        rows: Part = []
        for question, reference, epoch, attempt in part:
            gold = frozenset(reference.documents)
            for number, search in enumerate(searches_by(store, attempt) if attempt else (), 1):
                for index, passage in enumerate(search.passages, 1):
                    rows.append(
                        frames.PASSAGES.cells(
                            passage,
                            **_attempt_cells(run, question.id, epoch),
                            search=number,
                            query=search.query,
                            rank=passage.rank or index,
                            gold=passage.document in gold if gold else None,
                        )
                    )
        yield rows


def _judgement_rows(store: Store, run: Run) -> Iterator[Part]:
    if not store.judges(run):
        return
    questions, golds = store.questions(run)
    for method in judge_methods().values():
        if not isinstance(method, LabelMethod):
            continue
        fitting = [question for question in questions if method.fits(question, golds[question.id])]
        items = [(item, question.id) for question in fitting for item in method.items(golds[question.id])]
        for epoch in range(run.epochs):
            for recorded in recorded_verdicts(store, run, method, epoch):
                yield [
                    (run.id, run.agent, question, epoch, method.name, recorded.judge, item, recorded.verdicts[item])
                    for item, question in items
                    if item in recorded.verdicts
                ]
