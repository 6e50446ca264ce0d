"""Several judges on the same answers: the verdict of more than half of them counts, and how far they agree is
measured. The scores of the majority go into the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict
from msgspec.structs import replace as changed

from ragrounds.contracts import Model
from ragrounds.errors import UserError
from ragrounds.evals.judges.attempts import AttemptJudge, JudgedAnswer, LabelJudge, judge_code, judges_itself
from ragrounds.evals.judges.bill import JudgedRunBill, bill, count_answers, writers
from ragrounds.evals.stats.agreement import fleiss_kappa, krippendorff_alpha, majority
from ragrounds.evals.store.journal import judging_payer
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Call, Gold, Run, Score, Verdict

UNDECIDED = "the judges have no majority"


class PanelResult(Struct, frozen=True, kw_only=True):
    """What a panel of judges came to."""

    judges: tuple[str, ...]
    scores: tuple[Score, ...]
    """By the majority; missing where there is none."""
    verdicts: tuple[Verdict, ...]
    """Every single one, with its judge."""
    calls: tuple[Call, ...]
    judged: int
    """Things that were put to the judges: answers, or statements of answers."""
    undecided: int
    """Of these, without a majority."""
    kappa: float | None
    """Fleiss' kappa of the judges, over what all of them gave a verdict on; ``None`` where it is not defined."""
    alpha: float | None
    """Krippendorff's alpha, missing verdicts included; ``None`` where it is not defined."""


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
    judges: Sequence[Model],
    tried: Sequence[Attempt],
    golds: Mapping[str, Gold],
    by_judge: Sequence[Sequence[JudgedAnswer]],
) -> PanelResult:
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
    return PanelResult(
        judges=tuple(judge.spec for judge in judges),
        scores=tuple(scores),
        verdicts=tuple(verdict for answers in by_judge for answer in answers for verdict in answer.verdicts),
        calls=tuple(call for answers in by_judge for answer in answers for call in answer.calls),
        judged=len(labels),
        undecided=sum(majority(each) is None for each in labels),
        kappa=fleiss_kappa(whole) if whole else None,
        alpha=krippendorff_alpha(some) if some else None,
    )


def _labels(answers: Sequence[JudgedAnswer]) -> list[tuple[str | None, ...]]:
    """For each thing judged the verdict of every judge; ``None``: it gave none."""
    columns = [[verdict.outcome or None for verdict in answer.verdicts] for answer in answers]
    return list(zip(*columns, strict=True))


class PanelJudgedRun(JudgedRunBill, frozen=True, kw_only=True):
    """What judging a run by a panel gave and took; `failed` counts calls."""

    judges: tuple[str, ...]
    judged: int
    """Things that were put to the judges: answers, or statements of answers."""
    undecided: int
    """Of these, without a majority."""
    kappa: float | None
    """Fleiss' kappa of the judges."""
    alpha: float | None
    """Krippendorff's alpha of the judges."""
    same_model: tuple[str, ...]
    """Judges that are a model that wrote these answers: they may favour themselves."""


def store_panel_run(
    store: Store,
    run: Run,
    by: LabelJudge,
    attempts: Sequence[Attempt],
    made: PanelResult,
    left: Sequence[Score],
    *,
    earlier: Collection[str],
    replace: bool,
) -> PanelJudgedRun:
    """As :func:`ragrounds.evals.judges.bill.store_judged_run`, with the scores of the majority."""
    code = judge_code(by.method, panel=True)
    scores = [changed(one, code=code) for one in (*made.scores, *left) if replace]
    store.add_scores(run, scores, made.calls, judging_payer(run))
    return PanelJudgedRun(
        **asdict(bill(made.calls, earlier)),
        run=run.id,
        judges=made.judges,
        scorers=by.scorers,
        attempts=len(attempts),
        missing=sum(score.value is None for score in made.scores),
        left=count_answers(left),
        judged=made.judged,
        undecided=made.undecided,
        kappa=made.kappa,
        alpha=made.alpha,
        same_model=tuple(judge for judge in made.judges if judges_itself(judge, writers(run))),
        verdicts=made.verdicts,
    )
