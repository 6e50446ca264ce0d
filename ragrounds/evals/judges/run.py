"""What a judge gave a stored run: scores go into the store beside the others, the bill comes back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from ragrounds.contracts import Model
from ragrounds.evals.judges.billing import bill
from ragrounds.evals.judges.grade import Grade, Grader, judges_itself
from ragrounds.evals.store.store import Store
from ragrounds.records import Run, Score, Usage, Verdict


class GradedRun(Struct, frozen=True, kw_only=True):
    """What grading a run gave and took."""

    run: str
    judge: str
    scorers: tuple[str, ...]
    attempts: int
    missing: int
    """Scores without a value that another try, or another judge, may give."""
    failed: int
    """Attempts where a call of the judge gave no reply."""
    left: int
    """Answers that were not put to the judge, because a budget was used up: their scores are missing."""
    calls: int
    reused: int
    """Calls that the journal answered."""
    earlier: int
    """Of these, paid for by an earlier judging that was broken off."""
    usage: Usage | None
    """Tokens of all calls; ``None``: not all known."""
    cost_paid: float | None
    """Dollars really paid for judging, by an earlier one that was broken off too; ``None``: some price is not known."""
    cost_paid_earlier: float | None
    """Of these, paid by the earlier one."""
    cost_uncached: float | None
    """Dollars uncached: as if nothing had been in the journal."""
    same_model: bool
    """The judge is a model that wrote these answers: it may favour itself."""
    verdicts: tuple[Verdict, ...]


def keep_grades(
    store: Store,
    run: Run,
    grader: Grader,
    judge: Model,
    grades: Sequence[Grade],
    left: Sequence[Score],
    *,
    earlier: Collection[str],
    replace: bool,
) -> GradedRun:
    """Write what was paid for and, to `replace` those in the store, the scores, also of answers that were `left`
    without a verdict; add up what they took (`earlier`: :class:`ragrounds.evals.judges.paying.Paying`)."""
    scores = [score for grade in grades for score in grade.scores]
    calls = [call for grade in grades for call in grade.calls]
    store.add_scores(run, [*scores, *left] if replace else (), calls)
    took = bill(calls, earlier)
    return GradedRun(
        run=run.id,
        judge=judge.spec,
        scorers=grader.scorers,
        attempts=len(grades),
        missing=sum(score.value is None for score in scores),
        failed=sum(grade.failed for grade in grades),
        left=answers(left),
        calls=took.calls,
        reused=took.reused,
        earlier=took.earlier,
        usage=took.usage,
        cost_paid=took.cost_paid,
        cost_paid_earlier=took.cost_paid_earlier,
        cost_uncached=took.cost_uncached,
        same_model=judges_itself(judge.spec, writers(run)),
        verdicts=tuple(verdict for grade in grades for verdict in grade.verdicts),
    )


def answers(scores: Iterable[Score]) -> int:
    """How many answers these scores are of."""
    return len({(score.question_id, score.epoch) for score in scores})


def writers(run: Run) -> list[str]:
    """The models that wrote a run's answers."""
    return [str(model) for model in (run.identity.get("models") or {}).values()]
