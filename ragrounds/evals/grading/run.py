"""Grading a stored run: scores go into the store beside the others, the bill comes back."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.evals.grading.grade import Grade, Grader, judges_itself
from ragrounds.evals.grading.running import grade_attempts
from ragrounds.evals.store.store import Store
from ragrounds.records import Run, Verdict


class GradedRun(Struct, frozen=True, kw_only=True):
    """What grading a run gave and took."""

    run: str
    judge: str
    protocols: tuple[str, ...]
    attempts: int
    missing: int
    """Scores without a value that another try, or another judge, may give."""
    failed: int
    """Attempts where a call of the judge gave no reply."""
    calls: int
    spent: float | None
    """Dollars really paid for judging; ``None``: some price is not known."""
    cold: float | None
    """Dollars from cold: as if nothing had been in the journal."""
    same_model: bool
    """The judge is a model that wrote these answers: it may favour itself."""
    verdicts: tuple[Verdict, ...]


async def grade_run(
    store: Store,
    run: Run,
    grader: Grader,
    judge: Model,
    journal: Journal,
    prompts: Prompts,
    *,
    at_once: int = 16,
    done: Callable[[Grade], None] = lambda grade: None,
) -> GradedRun:
    """Grade every attempt of a run and write the scores. Grading again replaces them and pays only for what is new.

    Raises:
        ragrounds.errors.StopRun: the judge cannot be asked at all; nothing is written.
    """
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    grades = await grade_attempts(
        grader, store.attempts(run), by_id, golds, judge, journal, prompts, at_once=at_once, done=done
    )
    scores = [score for grade in grades for score in grade.scores]
    store.add_scores(run, scores)
    calls = [call for grade in grades for call in grade.calls]
    cold = [call.cold for call in calls]
    spent = [0.0 if call.cached else call.cold for call in calls]
    return GradedRun(
        run=run.id,
        judge=judge.spec,
        protocols=grader.protocols,
        attempts=len(grades),
        missing=sum(score.value is None for score in scores),
        failed=sum(grade.failed for grade in grades),
        calls=len(calls),
        spent=_sum(spent),
        cold=_sum(cold),
        same_model=judges_itself(judge.spec, [str(model) for model in (run.identity.get("models") or {}).values()]),
        verdicts=tuple(verdict for grade in grades for verdict in grade.verdicts),
    )


def _sum(amounts: list[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
