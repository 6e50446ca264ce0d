"""What each question brings to a run's figure: its score, and of a figure that is a ratio of sums its two parts.

A mean (an accuracy) needs the scores alone. A figure of the whole corpus (a micro-F1) is made of numerators and
denominators, which the scorer reads from its scores (:meth:`ScorerRecord.parts`). An attempt that was not made is
scored as an empty answer: what it should have found is missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from shlex import quote

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Question, Run, Score
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.store.store import AttemptKey

CAREFUL = "robust"
"""The scorer that others are set beside."""
MOST_DIFFERENT = 0.05
"""Share of a run's answers from which on it is said that they are read differently."""
Values = Mapping[str, float | None]
"""Question id → mean score over epochs; ``None``: no score (a judge that failed)."""
Parts = tuple[tuple[float, float], ...]
"""Numerator and denominator, an epoch each."""


class QuestionValues(dict[str, float | None]):
    """:data:`Values` of one run under one scorer, with what a ratio needs besides."""

    def __init__(self, values: Values, parts: Mapping[str, Parts], best: Mapping[str, Parts]) -> None:
        super().__init__(values)
        self.parts = parts
        """Question id → its parts; empty where the scorer's figure is a mean."""
        self.best = best
        """The same, if every attempt whose result is open had given all that is wanted and nothing else."""


def scorer_values(
    questions: Iterable[Question],
    scores: Iterable[Score],
    epochs: int,
    scorer: ScorerRecord | None = None,
    golds: Mapping[str, Gold] | None = None,
    open_: Container[AttemptKey] = (),
) -> QuestionValues:
    """Each question's mean score over all its epochs. An attempt without a score counts as 0; a score without a value
    (missing) makes the question's value missing.

    Args:
        questions: the denominator.
        scores: of one run; where they are of later epochs than there are, as of one epoch by itself, they are taken in
            their order.
        epochs: of the run, or how many of them.
        scorer: says how scores aggregate; by default they have a mean.
        golds: by question id; needed where the figure is a ratio.
        open_: attempts whose result is open.

    Raises:
        UserError: a ratio whose scorer is not here.
    """
    given = list(scores)
    seen = sorted({score.epoch for score in given})
    if epochs == 1 and len(seen) < 2 and (scorer is None or not scorer.ratio):
        alone = {score.question_id: score.value for score in given}
        found = ((question.id, alone.get(question.id, 0.0)) for question in questions)
        return QuestionValues({id: None if value is None else 0.0 + value for id, value in found}, {}, {})
    places = {epoch: place for place, epoch in enumerate(seen if seen and seen[-1] >= epochs else range(epochs))}
    by_question: dict[str, dict[int, Score]] = defaultdict(dict)
    for score in given:
        by_question[score.question_id][places[score.epoch]] = score
    values: dict[str, float | None] = {}
    asked = list(questions)
    for question in asked:
        known = [score.value for score in by_question[question.id].values()]
        numbers = [value for value in known if value is not None]
        values[question.id] = None if len(numbers) < len(known) else sum(numbers) / epochs
    parts: dict[str, Parts] = {}
    best: dict[str, Parts] = {}
    if scorer is not None and scorer.ratio:
        for question in asked:
            if values[question.id] is None:
                continue
            gold = (golds or {})[question.id]
            made = whole_scores(scorer, question, gold, by_question[question.id], epochs)
            parts[question.id] = tuple(scorer.parts(score) for score in made)
            best[question.id] = tuple(
                scorer.parts(answered_with(scorer, question, gold, gold.answer)) if key in open_ else own
                for key, own in zip(((question.id, epoch) for epoch in range(epochs)), parts[question.id], strict=True)
            )
    return QuestionValues(values, parts, best)


def whole_scores(
    scorer: ScorerRecord, question: Question, gold: Gold, known: Mapping[int, Score], epochs: int
) -> tuple[Score, ...]:
    """A score for every epoch of a question: what was not made is scored as an empty answer."""
    return tuple(known.get(epoch) or answered_with(scorer, question, gold, "") for epoch in range(epochs))


def answered_with(scorer: ScorerRecord, question: Question, gold: Gold, text: str) -> Score:
    """The score of this text as an answer.

    Raises:
        UserError: the scorer is not here.
    """
    if not scorer.computes:
        raise UserError(
            f"The figure of {scorer.name} is a ratio of sums over questions, and its scorer is not installed. "
            "Install its package, or give --scorer package.module:NAME."
        )
    attempt = Attempt(run="", question_id=question.id, epoch=0, status="completed" if text else "failed", text=text)
    return scorer.score(attempt, question, gold)


class TwoReadings(Struct, frozen=True, kw_only=True):
    """One answer as two scorers read it."""

    first: Score
    second: Score

    @property
    def differ(self) -> bool:
        """Whether they read another option, or one of them none."""
        return self.first.prediction != self.second.prediction


def two_readings(scores: Mapping[str, Sequence[Score]], scorer: str) -> list[TwoReadings]:
    """The answers of a run that both a scorer and `robust` have read.

    Args:
        scores: scorer → its scores of the run.
        scorer: the name of one that reads choices.
    """
    careful = {(one.question_id, one.epoch): one for one in scores.get(CAREFUL, ())}
    pairs = ((one, careful.get((one.question_id, one.epoch))) for one in scores.get(scorer, ()))
    return [TwoReadings(first=one, second=other) for one, other in pairs if other is not None and one.value is not None]


def reading_notes(
    runs: Sequence[Run], scores: Mapping[str, Mapping[str, Sequence[Score]]], scorers: Sequence[str]
) -> Iterator[str]:
    """What tables say of runs whose answers one of these scorers and `robust` read differently.

    Args:
        runs: that are compared.
        scores: run id → scorer → scores.
        scorers: the headlines.
    """
    for name in scorers:
        known = described(name)
        if name == CAREFUL or not known.accuracy or "choice" not in known.kinds or known.needs_judge:
            continue
        for run in runs:
            both = two_readings(scores[run.id], name)
            apart = [one for one in both if one.differ]
            if both and len(apart) / len(both) > MOST_DIFFERENT:
                gained = sum((one.second.value or 0) - (one.first.value or 0) for one in apart)
                how = f"{abs(gained):,.0f} {'more' if gained >= 0 else 'fewer'} are right"
                yield (
                    f"{run.id}: {name} and {CAREFUL} read {len(apart):,} of {len(both):,} answers differently; by "
                    f"{CAREFUL} {how}. `ragrounds analyse readings {quote(run.id)} --scorer {quote(name)}` shows them."
                )
