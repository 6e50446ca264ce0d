"""Grading a stored run: scores go into the store beside the others, the bill comes back."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.evals.grading.billing import bill
from ragrounds.evals.grading.grade import Grade, Grader, judges_itself
from ragrounds.evals.grading.running import grade_attempts
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Run, Usage, Verdict


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
    reused: int
    """Calls that the journal answered."""
    usage: Usage | None
    """Tokens of all calls; ``None``: not all known."""
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
    wanted: Callable[[Attempt], bool] = lambda attempt: True,
    done: Callable[[Grade], None] = lambda grade: None,
) -> GradedRun:
    """Grade every attempt of a run, or those `wanted`, and write the scores. Grading again replaces them and pays only
    for what is new.

    Raises:
        ragrounds.errors.StopRun: the judge cannot be asked at all; nothing is written.
    """
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    attempts = filter(wanted, store.attempts(run))
    grades = await grade_attempts(grader, attempts, by_id, golds, judge, journal, prompts, at_once=at_once, done=done)
    scores = [score for grade in grades for score in grade.scores]
    calls = [call for grade in grades for call in grade.calls]
    store.add_scores(run, scores, calls)
    took = bill(calls)
    return GradedRun(
        run=run.id,
        judge=judge.spec,
        protocols=grader.protocols,
        attempts=len(grades),
        missing=sum(score.value is None for score in scores),
        failed=sum(grade.failed for grade in grades),
        calls=took.calls,
        reused=took.reused,
        usage=took.usage,
        spent=took.spent,
        cold=took.cold,
        same_model=judges_itself(judge.spec, writers(run)),
        verdicts=tuple(verdict for grade in grades for verdict in grade.verdicts),
    )


def writers(run: Run) -> list[str]:
    """The models that wrote a run's answers."""
    return [str(model) for model in (run.identity.get("models") or {}).values()]
