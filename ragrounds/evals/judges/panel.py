"""Several judges on the same answers: the verdict of more than half of them counts, and how far they agree is
measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Score
from ragrounds.evals.judges.attempts import AttemptJudge, JudgedAnswer, LabelJudge
from ragrounds.evals.judges.bill import Judged, PanelAgreement
from ragrounds.evals.stats.agreement import fleiss_kappa, krippendorff_alpha, majority

UNDECIDED = "the judges have no majority"


def as_panel(by: AttemptJudge, judges: Sequence[Model]) -> LabelJudge:
    """What judges, where these judges can vote on its verdicts.

    Raises:
        UserError: fewer than two judges, or one of them twice; verdicts that are numbers, on which nobody can vote.
    """
    names = [judge.spec for judge in judges]
    if len(names) < 2 or len(set(names)) < len(names):
        raise UserError(f"A panel needs two or more different judges, got {', '.join(names) or 'none'}.")
    if not isinstance(by, LabelJudge):
        raise UserError(f"{by.scorers[0]} is a number, and numbers have no majority: name one --judge.")
    return by


def by_majority(
    by: LabelJudge,
    tried: Sequence[Attempt],
    golds: Mapping[str, Gold],
    by_judge: Sequence[Sequence[JudgedAnswer]],
) -> Judged:
    """What the panel came to, from every judge's answers on the attempts `tried`, in their order."""
    scores: list[Score] = []
    labels: list[tuple[str | None, ...]] = []
    for attempt, answers in zip(tried, zip(*by_judge, strict=True), strict=True):
        given = _labels(answers)
        labels += given
        if given:
            said = [(outcome, "") if (outcome := majority(each)) else ("", UNDECIDED) for each in given]
            scores += by.method.scores(attempt, golds[attempt.question_id], said)
        else:  # nothing to judge: every judge says the same, without being asked
            scores += answers[0].scores
    whole = [each for each in labels if None not in each]
    some = [each for each in labels if sum(label is not None for label in each) > 1]
    return Judged(
        scores=tuple(scores),
        verdicts=tuple(verdict for answers in by_judge for answer in answers for verdict in answer.verdicts),
        calls=tuple(call for answers in by_judge for answer in answers for call in answer.calls),
        panel=PanelAgreement(
            judged=len(labels),
            undecided=sum(majority(each) is None for each in labels),
            kappa=fleiss_kappa(whole) if whole else None,
            alpha=krippendorff_alpha(some) if some else None,
        ),
    )


def _labels(answers: Sequence[JudgedAnswer]) -> list[tuple[str | None, ...]]:
    """For each thing judged the verdict of every judge; ``None``: it gave none."""
    columns = [[verdict.outcome or None for verdict in answer.verdicts] for answer in answers]
    return list(zip(*columns, strict=True))
