"""The rows of frames of stored runs, read from the store in parts: what is in memory at a time does not grow with them.

Every function gives parts, lists of rows; a row holds its frame's cells in the order of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ragrounds.api import frames

if TYPE_CHECKING:
    from ragrounds.evals.store.asked import AskedQuestion
    from ragrounds.evals.store.attempt_notes import AttemptNote
    from ragrounds.evals.store.store import Store
    from ragrounds.records import Call, Question, Run, Usage

Row = tuple[object, ...]
Part = list[Row]
Rows = Callable[["Store", "Run"], Iterator[Part]]
_PART = 2000


def rows_of(frame: frames.Frame, store: Store, runs: Sequence[Run]) -> Iterator[Part]:
    """The rows of one of `frames.OF_RUNS`, run after run."""
    read: dict[str, Rows] = {
        "runs": _run_rows,
        "attempts": _attempt_rows,
        "calls": _call_rows,
        "scores": _score_rows,
        "passages": _passage_rows,
        "judgements": _judgement_rows,
    }
    for run in runs:
        yield from read[frame.name](store, run)


def _run_rows(store: Store, run: Run) -> Iterator[Part]:
    from ragrounds.evals.store.asked import attempt_totals
    from ragrounds.evals.store.shown_names import kept_names

    totals = attempt_totals(store, run)
    status, attempts = totals.statuses, run.count * run.epochs
    made = sum(count for name, count in status.items() if name != "not_run")
    models = dict.fromkeys(str(model) for model in dict(run.identity.get("models") or {}).values())
    yield [
        (
            run.id,
            run.agent,
            run.benchmark,
            ", ".join(models) or None,
            run.count,
            run.epochs,
            *(status.get(name, 0) for name in ("completed", "blocked", "failed", "capped", "paused")),
            attempts - made,
            totals.input,
            totals.output,
            totals.cost_paid,
            totals.cost_uncached,
            totals.seconds / made if made and run.origin == "replayed" else None,
            totals.calls,
            run.created,
            run.origin,
            run.fingerprint,
            totals.retried,
            kept_names(store.engine).get(run.id, run.agent),
            totals.unrecorded,
        )
    ]


def _tokens(usage: Usage | None) -> tuple[int | None, ...]:
    return (usage.input, usage.output, usage.cached, usage.reasoning) if usage else (None,) * 4


def _attempt_rows(store: Store, run: Run) -> Iterator[Part]:
    from ragrounds.evals.store.asked import asked
    from ragrounds.evals.store.attempt_notes import notes_of

    noted = notes_of(store, [run])
    for part in asked(store, run):
        yield [
            (*_attempt_row(run, one), *_note_cells(noted.get((run.id, one.question.id, one.epoch), ()))) for one in part
        ]


def _note_cells(notes: Sequence[AttemptNote]) -> Row:
    marks = " ".join(note.mark for note in notes if note.mark)
    texts = "\n".join(f"{note.author}: {note.text}" for note in notes if note.text)
    return marks or None, texts or None


def _attempt_row(run: Run, one: AskedQuestion) -> Row:
    from ragrounds.evals.store.traces import calls

    question, attempt = one.question, one.attempt
    about = (run.id, run.agent, question.id, one.epoch, question.benchmark, question.group or None, question.kind)
    if attempt is None or attempt.status == "not_run":
        reason = attempt.reason or None if attempt else None
        return (*about, one.gold.answer, "not_run", reason, *(None,) * 12, question_metadata(question), None, None)
    return (
        *about,
        one.gold.answer,
        attempt.status,
        attempt.reason or None,
        attempt.text,
        *_tokens(attempt.usage),
        attempt.cost_paid,
        attempt.cost_uncached,
        attempt.seconds if run.origin == "replayed" else None,
        attempt.calls,
        sum(call.kind == "search" for call in calls(attempt.events)),
        attempt.at or None,
        attempt.retry,
        question_metadata(question),
        attempt.choice or None,
        attempt.unrecorded,
    )


def question_metadata(question: Question) -> str | None:
    """A question's metadata as a frame has it: a JSON object; ``None``: it has none."""
    return msgspec.json.encode(question.metadata).decode() if question.metadata else None


def _call_rows(store: Store, run: Run) -> Iterator[Part]:
    from ragrounds.evals.store.asked import asked
    from ragrounds.evals.store.traces import calls

    for part in asked(store, run):
        yield [
            (run.id, run.agent, one.question.id, one.epoch, number, *_call_cells(call))
            for one in part
            if one.attempt is not None
            for number, call in enumerate(calls(one.attempt.events))
        ]


def _call_cells(call: Call) -> Row:
    # A call without a reply: nothing is known of what it cost.
    uncached = None if call.error else call.cost_uncached
    return (
        call.kind,
        call.role,
        call.node,
        call.actor,
        call.cached,
        *_tokens(call.usage),
        0.0 if call.cached and not call.error else uncached,
        uncached,
        call.seconds,
        call.at or None,
        len(call.passages) if call.kind == "search" else None,
        len(call.faults),
        call.error or None,
        call.key or None,
        call.model or None,
    )


def _score_rows(store: Store, run: Run) -> Iterator[Part]:
    part: Part = []
    for score in store.stream_scores(run):
        part.append(
            (
                run.id,
                run.agent,
                score.question_id,
                score.epoch,
                score.scorer,
                score.value,
                score.answer_status,
                score.prediction or None,
                score.reason or None,
            )
        )
        if len(part) >= _PART:
            yield part
            part = []
    yield part


def _passage_rows(store: Store, run: Run) -> Iterator[Part]:
    from ragrounds.evals.store.asked import asked
    from ragrounds.evals.store.traces import searches_by

    for part in asked(store, run):
        rows: Part = []
        for one in part:
            if one.attempt is None:
                continue
            gold = frozenset(one.gold.documents)
            for number, search in enumerate(searches_by(store, one.attempt), 1):
                for place, passage in enumerate(search.passages, 1):
                    rows.append(
                        (
                            run.id,
                            run.agent,
                            one.question.id,
                            one.epoch,
                            number,
                            search.query,
                            passage.rank or place,
                            passage.id,
                            passage.document,
                            passage.title or None,
                            passage.score,
                            passage.document in gold if gold else None,
                            passage.corpus,
                            passage.retriever or None,
                            passage.chunk or None,
                        )
                    )
        yield rows


def _judgement_rows(store: Store, run: Run) -> Iterator[Part]:
    from ragrounds.evals.judges.methods import judge_methods
    from ragrounds.evals.judges.recorded import recorded_verdicts
    from ragrounds.evals.scorers.judged import LabelMethod

    if not store.judges(run):
        return
    questions, golds = store.questions(run)
    for method in judge_methods().values():
        if not isinstance(method, LabelMethod):
            continue
        fitting = [question for question in questions if method.fits(question, golds[question.id])]
        items = [(item, question.id) for question in fitting for item in method.items(golds[question.id])]
        for epoch in range(run.epochs):
            for said in recorded_verdicts(store, run, method, epoch):
                yield [
                    (run.id, run.agent, question, epoch, method.name, said.judge, item, said.verdicts[item])
                    for item, question in items
                    if item in said.verdicts
                ]
