"""A stored run graded by several judges: scores by their majority go into the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.errors import UserError
from ragrounds.evals.grading.billing import bill
from ragrounds.evals.grading.grade import Grade, Grader, Voting, judges_itself
from ragrounds.evals.grading.panel import grade_by_panel
from ragrounds.evals.grading.run import writers
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Run, Usage, Verdict


class PanelGradedRun(Struct, frozen=True, kw_only=True):
    """What grading a run by a panel gave and took."""

    run: str
    judges: tuple[str, ...]
    protocols: tuple[str, ...]
    attempts: int
    missing: int
    """Scores without a value."""
    failed: int
    """Calls without a reply."""
    graded: int
    """Things that were put to the judges: answers, or statements of answers."""
    undecided: int
    """Of these, without a majority."""
    kappa: float | None
    """Fleiss' kappa of the judges."""
    alpha: float | None
    """Krippendorff's alpha of the judges."""
    calls: int
    reused: int
    usage: Usage | None
    spent: float | None
    cold: float | None
    same_model: tuple[str, ...]
    """Judges that are a model that wrote these answers: they may favour themselves."""
    verdicts: tuple[Verdict, ...]


async def grade_run_by_panel(
    store: Store,
    run: Run,
    grader: Grader,
    judges: Sequence[Model],
    journal: Journal,
    prompts: Prompts,
    *,
    at_once: int = 16,
    wanted: Callable[[Attempt], bool] = lambda attempt: True,
    done: Callable[[Grade], None] = lambda grade: None,
) -> PanelGradedRun:
    """Let every judge grade every attempt of a run, or those `wanted`, and write the scores of the majority.

    Raises:
        UserError: fewer than two judges, or one of them twice; verdicts that are numbers, on which nobody can vote.
        ragrounds.errors.StopRun: a judge cannot be asked at all; nothing is written.
    """
    if not isinstance(grader, Voting):
        raise UserError(f"{grader.protocols[0]} is a number, and numbers have no majority: name one --judge.")
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    attempts = list(filter(wanted, store.attempts(run)))
    made = await grade_by_panel(grader, judges, attempts, by_id, golds, journal, prompts, at_once=at_once, done=done)
    store.add_scores(run, made.scores, made.calls)
    took = bill(made.calls)
    return PanelGradedRun(
        run=run.id,
        judges=made.judges,
        protocols=grader.protocols,
        attempts=len(attempts),
        missing=sum(score.value is None for score in made.scores),
        failed=took.failed,
        graded=made.graded,
        undecided=made.undecided,
        kappa=made.kappa,
        alpha=made.alpha,
        calls=took.calls,
        reused=took.reused,
        usage=took.usage,
        spent=took.spent,
        cold=took.cold,
        same_model=tuple(judge for judge in made.judges if judges_itself(judge, writers(run))),
        verdicts=made.verdicts,
    )
