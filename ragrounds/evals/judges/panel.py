"""Several judges on the same answers: the verdict of more than half of them counts, and how far they agree is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.errors import UserError
from ragrounds.evals.judges.grade import Grade, Grader, Voting
from ragrounds.evals.judges.running import grade_attempts
from ragrounds.evals.stats.agreement import fleiss_kappa, krippendorff_alpha, majority
from ragrounds.records import Attempt, Call, Gold, Question, Score, Verdict

UNDECIDED = "the judges have no majority"


class PanelGrades(Struct, frozen=True, kw_only=True):
    """What a panel of judges came to."""

    judges: tuple[str, ...]
    scores: tuple[Score, ...]
    """By the majority; missing where there is none."""
    verdicts: tuple[Verdict, ...]
    """Every single one, with its judge."""
    calls: tuple[Call, ...]
    graded: int
    """Things that were put to the judges: answers, or statements of answers."""
    undecided: int
    """Of these, without a majority."""
    kappa: float | None
    """Fleiss' kappa of the judges, over what all of them gave a verdict on; ``None`` where it is not defined."""
    alpha: float | None
    """Krippendorff's alpha, missing verdicts included; ``None`` where it is not defined."""


async def grade_by_panel(
    grader: Voting,
    judges: Sequence[Model],
    attempts: Iterable[Attempt],
    questions: Mapping[str, Question],
    golds: Mapping[str, Gold],
    journal: Journal,
    prompts: Prompts,
    *,
    at_once: int = 16,
    done: Callable[[Grade], None] = lambda grade: None,
) -> PanelGrades:
    """Let every judge grade every attempt, then take the majority of each verdict.

    Raises:
        UserError: fewer than two judges, or one of them twice.
        ragrounds.errors.StopRun: a judge cannot be asked at all.
    """
    as_panel(grader, judges)
    tried = list(attempts)
    by_judge = [
        await grade_attempts(grader, tried, questions, golds, judge, journal, prompts, at_once=at_once, done=done)
        for judge in judges
    ]
    return by_majority(grader, judges, tried, golds, by_judge)


def as_panel(grader: Grader, judges: Sequence[Model]) -> Voting:
    """The grader, where these judges can vote on its verdicts.

    Raises:
        UserError: fewer than two judges, or one of them twice; verdicts that are numbers, on which nobody can vote.
    """
    names = [judge.spec for judge in judges]
    if len(names) < 2 or len(set(names)) < len(names):
        raise UserError(f"A panel needs two or more different judges, got {', '.join(names) or 'none'}.")
    if not isinstance(grader, Voting):
        raise UserError(f"{grader.scorers[0]} is a number, and numbers have no majority: name one --judge.")
    return grader


def by_majority(
    grader: Voting,
    judges: Sequence[Model],
    tried: Sequence[Attempt],
    golds: Mapping[str, Gold],
    by_judge: Sequence[Sequence[Grade]],
) -> PanelGrades:
    """What the panel came to, from every judge's grades of the attempts `tried`, in their order."""
    scores: list[Score] = []
    labels: list[tuple[str | None, ...]] = []
    for attempt, grades in zip(tried, zip(*by_judge, strict=True), strict=True):
        given = _labels(grades)
        labels += given
        if given:
            said = [(outcome, "") if (outcome := majority(each)) else ("", UNDECIDED) for each in given]
            scores += grader.scored(attempt, golds[attempt.question_id], said)
        else:  # nothing to grade: every judge says the same, without being asked
            scores += grades[0].scores
    whole = [each for each in labels if None not in each]
    some = [each for each in labels if sum(label is not None for label in each) > 1]
    return PanelGrades(
        judges=tuple(judge.spec for judge in judges),
        scores=tuple(scores),
        verdicts=tuple(verdict for grades in by_judge for grade in grades for verdict in grade.verdicts),
        calls=tuple(call for grades in by_judge for grade in grades for call in grade.calls),
        graded=len(labels),
        undecided=sum(majority(each) is None for each in labels),
        kappa=fleiss_kappa(whole) if whole else None,
        alpha=krippendorff_alpha(some) if some else None,
    )


def _labels(grades: Sequence[Grade]) -> list[tuple[str | None, ...]]:
    """For each thing graded the verdict of every judge; ``None``: it gave none."""
    columns = [[verdict.outcome or None for verdict in grade.verdicts] for grade in grades]
    return list(zip(*columns, strict=True))
