"""Panels of judges: the verdict of more than half of them counts, and their agreement is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Score
from ragrounds.evals.judges.attempts import AttemptJudge, JudgedAnswer, LabelJudge
from ragrounds.evals.judges.bill import JudgingResult, PanelAgreement
from ragrounds.evals.stats.agreement import fleiss_kappa, krippendorff_alpha, majority

UNDECIDED = "the judges have no majority"


def as_panel(attempt_judge: AttemptJudge, judges: Sequence[Model]) -> LabelJudge:
    """Return the judge whose verdicts these judges can vote on.

    Raises:
        UserError: there are fewer than two judges, or one of them twice; the verdicts are numbers, which have no
            majority.
    """
    names = [judge.spec for judge in judges]
    if len(names) < 2 or len(set(names)) < len(names):
        raise UserError(f"A panel needs two or more different judges, got {', '.join(names) or 'none'}.")
    if not isinstance(attempt_judge, LabelJudge):
        raise UserError(f"{attempt_judge.scorers[0]} is a number, and numbers have no majority: name one --judge.")
    return attempt_judge


def by_majority(
    label_judge: LabelJudge,
    tried: Sequence[Attempt],
    golds: Mapping[str, Gold],
    by_judge: Sequence[Sequence[JudgedAnswer]],
) -> JudgingResult:
    """Return the panel's result from every judge's answers on the attempts `tried`, in their order."""
    scores: list[Score] = []
    labels: list[tuple[str | None, ...]] = []
    for attempt, answers in zip(tried, zip(*by_judge, strict=True), strict=True):
        # The verdicts of all judges for each judged item; None for a missing verdict.
        columns = [[verdict.outcome or None for verdict in answer.verdicts] for answer in answers]
        item_labels = list(zip(*columns, strict=True))
        labels += item_labels
        if item_labels:
            voted = [(outcome, "") if (outcome := majority(votes)) else ("", UNDECIDED) for votes in item_labels]
            scores += label_judge.method.scores(attempt, golds[attempt.question_id], voted)
        else:  # nothing to judge: every judge has the same scores, without being asked
            scores += answers[0].scores
    complete = [votes for votes in labels if None not in votes]
    comparable = [votes for votes in labels if sum(label is not None for label in votes) > 1]
    return JudgingResult(
        scores=tuple(scores),
        verdicts=tuple(verdict for answers in by_judge for answer in answers for verdict in answer.verdicts),
        calls=tuple(call for answers in by_judge for answer in answers for call in answer.calls),
        panel=PanelAgreement(
            judged=len(labels),
            undecided=sum(majority(votes) is None for votes in labels),
            kappa=fleiss_kappa(complete) if complete else None,
            alpha=krippendorff_alpha(comparable) if comparable else None,
        ),
    )
