"""What a panel of judges gave a stored run: scores by their majority go into the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from ragrounds.evals.judges.billing import bill
from ragrounds.evals.judges.grade import Voting, judges_itself
from ragrounds.evals.judges.panel import PanelGrades
from ragrounds.evals.judges.run import answers, writers
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Run, Score, Usage, Verdict


class PanelGradedRun(Struct, frozen=True, kw_only=True):
    """What grading a run by a panel gave and took."""

    run: str
    judges: tuple[str, ...]
    scorers: tuple[str, ...]
    attempts: int
    missing: int
    """Scores without a value."""
    failed: int
    """Calls without a reply."""
    left: int
    """Answers that were not put to the judges, because a budget was used up: their scores are missing."""
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
    earlier: int
    usage: Usage | None
    cost_paid: float | None
    cost_paid_earlier: float | None
    cost_uncached: float | None
    same_model: tuple[str, ...]
    """Judges that are a model that wrote these answers: they may favour themselves."""
    verdicts: tuple[Verdict, ...]


def keep_panel(
    store: Store,
    run: Run,
    grader: Voting,
    attempts: Sequence[Attempt],
    made: PanelGrades,
    left: Sequence[Score],
    *,
    earlier: Collection[str],
    replace: bool,
) -> PanelGradedRun:
    """As :func:`ragrounds.evals.judges.run.keep_grades`, with the scores of the majority."""
    store.add_scores(run, [*made.scores, *left] if replace else (), made.calls)
    took = bill(made.calls, earlier)
    return PanelGradedRun(
        run=run.id,
        judges=made.judges,
        scorers=grader.scorers,
        attempts=len(attempts),
        missing=sum(score.value is None for score in made.scores),
        failed=took.failed,
        left=answers(left),
        graded=made.graded,
        undecided=made.undecided,
        kappa=made.kappa,
        alpha=made.alpha,
        calls=took.calls,
        reused=took.reused,
        earlier=took.earlier,
        usage=took.usage,
        cost_paid=took.cost_paid,
        cost_paid_earlier=took.cost_paid_earlier,
        cost_uncached=took.cost_uncached,
        same_model=tuple(judge for judge in made.judges if judges_itself(judge, writers(run))),
        verdicts=made.verdicts,
    )
