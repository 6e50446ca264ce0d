"""Contribution of each question to a run's figure: its score, and for a ratio of sums also its two parts.

A mean (an accuracy) needs the scores alone. A figure of the whole corpus (a micro-F1) is made of numerators and
denominators, which the scorer reads from its scores (:meth:`ScorerRecord.parts`). An attempt that was not made is
scored as an empty answer: what it should have contained is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from shlex import quote

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, AttemptKey, Gold, Question, Run, Score
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.base import ScorerRecord

CAREFUL = "robust"
"""Scorer that others are compared with."""
MOST_DIFFERENT = 0.05
"""Share of a run's answers above which a note reports that they are read differently."""
Values = Mapping[str, float | None]
"""Question id → mean score over epochs; ``None`` if there is no score (a judge failed)."""
Parts = tuple[tuple[float, float], ...]
"""Numerator and denominator of each epoch."""


class QuestionValues(dict[str, float | None]):
    """:data:`Values` of one run under one scorer, with the parts that a ratio needs."""

    def __init__(self, values: Values, parts: Mapping[str, Parts], best_case: Mapping[str, Parts]) -> None:
        super().__init__(values)
        self.parts = parts
        """Question id → its parts; empty if the scorer's figure is a mean."""
        self.best_case = best_case
        """Question id → its parts if every open attempt had given exactly the right answer."""


def scorer_values(
    questions: Iterable[Question],
    scores: Iterable[Score],
    epochs: int,
    scorer: ScorerRecord | None = None,
    golds: Mapping[str, Gold] | None = None,
    open_: Container[AttemptKey] = (),
) -> QuestionValues:
    """Return each question's mean score over all its epochs.

    An attempt without a score counts as 0. A score without a value (missing) makes the question's value missing.

    Args:
        questions: questions of the denominator.
        scores: scores of one run. If their epochs exceed `epochs`, as for a single later epoch, they are taken in
            order.
        epochs: number of epochs, of the run or of a part of it.
        scorer: scorer, which says how scores aggregate; by default by their mean.
        golds: question id → gold; needed if the figure is a ratio.
        open_: attempts whose result is open.

    Raises:
        UserError: the figure is a ratio and its scorer is not installed.
    """
    all_scores = list(scores)
    scored_epochs = sorted({score.epoch for score in all_scores})
    if epochs == 1 and len(scored_epochs) < 2 and (scorer is None or not scorer.ratio):
        value_by_question = {score.question_id: score.value for score in all_scores}
        single_values: dict[str, float | None] = {}
        for question in questions:
            value = value_by_question.get(question.id, 0.0)
            single_values[question.id] = None if value is None else 0.0 + value
        return QuestionValues(single_values, {}, {})
    index_by_epoch = {
        epoch: index
        for index, epoch in enumerate(scored_epochs if scored_epochs and scored_epochs[-1] >= epochs else range(epochs))
    }
    by_question: dict[str, dict[int, Score]] = defaultdict(dict)
    for score in all_scores:
        by_question[score.question_id][index_by_epoch[score.epoch]] = score
    values: dict[str, float | None] = {}
    question_list = list(questions)
    for question in question_list:
        epoch_values = [score.value for score in by_question[question.id].values()]
        numbers = [value for value in epoch_values if value is not None]
        values[question.id] = None if len(numbers) < len(epoch_values) else sum(numbers) / epochs
    parts: dict[str, Parts] = {}
    best_case: dict[str, Parts] = {}
    if scorer is not None and scorer.ratio:
        for question in question_list:
            if values[question.id] is None:
                continue
            gold = (golds or {})[question.id]
            epoch_scores = whole_scores(scorer, question, gold, by_question[question.id], epochs)
            parts[question.id] = tuple(scorer.parts(score) for score in epoch_scores)
            best_case[question.id] = tuple(
                scorer.parts(answered_with(scorer, question, gold, gold.answer)) if key in open_ else epoch_parts
                for key, epoch_parts in zip(
                    ((question.id, epoch) for epoch in range(epochs)), parts[question.id], strict=True
                )
            )
    return QuestionValues(values, parts, best_case)


def whole_scores(
    scorer: ScorerRecord, question: Question, gold: Gold, scores: Mapping[int, Score], epochs: int
) -> tuple[Score, ...]:
    """Return a score for every epoch of a question. Epochs that were not made are scored as an empty answer."""
    return tuple(scores.get(epoch) or answered_with(scorer, question, gold, "") for epoch in range(epochs))


def answered_with(scorer: ScorerRecord, question: Question, gold: Gold, text: str) -> Score:
    """Return the score of this text as an answer.

    Raises:
        UserError: the scorer is not installed.
    """
    if not scorer.computes:
        raise UserError(
            f"The figure of {scorer.name} is a ratio of sums over questions, and its scorer is not installed. "
            "Install its package, or give --scorer package.module:NAME."
        )
    attempt = Attempt(run="", question_id=question.id, epoch=0, status="completed" if text else "failed", text=text)
    return scorer.score(attempt, question, gold)


class TwoReadings(Struct, frozen=True, kw_only=True):
    """Scores of one answer by two scorers."""

    first: Score
    second: Score

    @property
    def differ(self) -> bool:
        """True if the scorers read different options, or only one of them reads an option."""
        return self.first.prediction != self.second.prediction


def two_readings(scores: Mapping[str, Sequence[Score]], scorer: str) -> list[TwoReadings]:
    """Return the answers of a run that both a scorer and `robust` have read.

    Args:
        scores: scorer → its scores of the run.
        scorer: name of a scorer that reads choices.
    """
    careful = {score.key: score for score in scores.get(CAREFUL, ())}
    pairs = ((score, careful.get(score.key)) for score in scores.get(scorer, ()))
    return [
        TwoReadings(first=first, second=second)
        for first, second in pairs
        if second is not None and first.value is not None
    ]


def reading_notes(
    runs: Sequence[Run], scores: Mapping[str, Mapping[str, Sequence[Score]]], scorers: Sequence[str]
) -> Iterator[str]:
    """Yield a note for each run whose answers one of these scorers and `robust` read differently.

    Args:
        runs: compared runs.
        scores: run id → scorer → scores.
        scorers: headline scorers.
    """
    for name in scorers:
        record = described(name)
        if name == CAREFUL or not record.accuracy or "choice" not in record.kinds or record.needs_judge:
            continue
        for run in runs:
            both = two_readings(scores[run.id], name)
            differing = [reading for reading in both if reading.differ]
            if both and len(differing) / len(both) > MOST_DIFFERENT:
                gained = sum((reading.second.value or 0) - (reading.first.value or 0) for reading in differing)
                how = f"{abs(gained):,.0f} {'more' if gained >= 0 else 'fewer'} are right"
                yield (
                    f"{run.id}: {name} and {CAREFUL} read {len(differing):,} of {len(both):,} answers differently; by "
                    f"{CAREFUL} {how}. `ragrounds analyse readings {quote(run.id)} --scorer {quote(name)}` shows them."
                )
