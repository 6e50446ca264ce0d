"""Score of a run in progress, by the same rules as its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragrounds.base.records import Attempt, Gold, Question, Score
from ragrounds.evals.scorers import described, headline_of, questions_of

Parts = tuple[float, float]
"""Numerator and denominator."""
ENOUGH = 10
"""Number of answered questions of each dataset from which a run in progress has a mean over datasets."""


def pooled_yet(answered: Iterable[str], requested: Iterable[str]) -> bool:
    """Return True if the figure so far pools all questions, because at least one dataset has too few answers.

    In a mean over datasets the first answer of one dataset would weigh as much as hundreds of another.

    Args:
        answered: the dataset of each question that was answered.
        requested: the same of all questions.
    """
    counts = Counter(answered)
    return any(counts[name] < min(ENOUGH, number) for name, number in Counter(requested).items())


class LiveScore:
    """Score of a run so far by its headline scorer, as in its table.

    If the score is a mean: each question's mean over the epochs that ended, and their mean in each dataset. If it is a
    ratio over the corpus (a micro-F1): the ratio of the sums of each dataset, and the mean over the epochs so far. Then
    the unweighted mean over datasets, once each has enough answers (:func:`pooled_yet`). An attempt that ended without
    an answer counts 0 (it found nothing); a question whose score is missing is left out.

    Args:
        questions: the run's.
        golds: by question id, for what an attempt without a score did not find.
        scorer: the scorer, if it is not the headline.
    """

    def __init__(
        self, questions: Sequence[Question], golds: Mapping[str, Gold] | None = None, scorer: str = ""
    ) -> None:
        headlines = headline_of(questions)
        self.scorer = scorer or (headlines[0].scorer if headlines else "")
        """Name of the scorer; empty if no scorer suits these questions."""
        self._scorer = described(self.scorer) if self.scorer else None
        self._ratio = self._scorer is not None and self._scorer.ratio
        scored_questions = questions_of(self._scorer, questions) if self._scorer else []
        self._questions = {question.id: question for question in scored_questions}
        self._golds = golds or {}
        self._datasets = {id: question.benchmark for id, question in self._questions.items()}
        self._parts_by_epoch: dict[str, dict[int, Parts | None]] = {}
        """Question id → epoch → the parts of its score; for a mean the score and 1. ``None``: missing."""

    def add(self, attempt: Attempt, score: Score | None) -> None:
        """Count an attempt that ended. It replaces an earlier count of the same attempt."""
        if (question := self._questions.get(attempt.question_id)) is None:
            return
        if score is None and self._ratio and attempt.status != "completed" and self._scorer and self._scorer.computes:
            gold = self._golds.get(question.id)
            score = self._scorer.score(attempt, question, gold) if gold is not None else None
        parts: Parts | None = None  # an answer that was not scored is not a wrong answer
        if score is None and attempt.status != "completed":
            parts = 0.0, 1.0
        elif score is not None and score.value is not None:
            parts = self._scorer.parts(score) if self._ratio and self._scorer else (score.value, 1.0)
        self._parts_by_epoch.setdefault(question.id, {})[attempt.epoch] = parts

    def _sums(self, *, together: bool = False) -> list[dict[int, list[float]]]:
        """Return numerators and denominators, added up by epoch, for each dataset, or for all `together`.

        The epochs of a mean are combined into one. The sums are computed when a reader asks, which is less often than
        attempts end. A question with a missing score is left out.
        """
        sums: dict[str, dict[int, list[float]]] = {}
        for id, by_epoch in list(self._parts_by_epoch.items()):
            present = {epoch: parts for epoch, parts in by_epoch.copy().items() if parts is not None}
            if len(present) < len(by_epoch):
                continue
            if not self._ratio:
                present = {0: (sum(value for value, _ in present.values()) / len(present), 1.0)}
            epochs = sums.setdefault("" if together else self._datasets[id], {})
            for epoch, (numerator, denominator) in present.items():
                added = epochs.setdefault(epoch, [0.0, 0.0])
                added[0] += numerator
                added[1] += denominator
        return list(sums.values())

    def scored_questions(self) -> list[tuple[Question, tuple[Parts | None, ...]]]:
        """Return the questions so far in the order of the run, each with the parts of its score in the epochs that
        ended. ``None``: a score is missing.
        """
        parts_by_id = {
            id: tuple(parts for _, parts in sorted(epochs.items())) for id, epochs in list(self._parts_by_epoch.items())
        }
        return [(question, parts_by_id[id]) for id, question in self._questions.items() if parts_by_id.get(id)]

    @property
    def dataset_names(self) -> list[str]:
        """Return the datasets for which the table has a column, even if they have no score yet."""
        return list(dict.fromkeys(self._datasets.values()))

    @property
    def is_ratio(self) -> bool:
        """True if the score is a ratio of sums over questions."""
        return self._ratio

    @property
    def is_pooled(self) -> bool:
        """True if the figure so far pools all questions."""
        return pooled_yet([self._datasets[id] for id in list(self._parts_by_epoch)], self._datasets.values())

    @property
    def average(self) -> float | None:
        """Unweighted mean over datasets, or the pooled figure while datasets have too few answers.

        ``None`` if nothing is scored yet, or there is nothing to count.
        """
        if self.is_pooled:
            return self.pooled
        dataset_means = [value for value in map(_mean_ratio, self._sums()) if value is not None]
        return sum(dataset_means) / len(dataset_means) if dataset_means else None

    @property
    def pooled(self) -> float | None:
        """Figure of all questions alike, regardless of their datasets."""
        return next(map(_mean_ratio, self._sums(together=True)), None)


def _mean_ratio(epochs: Mapping[int, Sequence[float]]) -> float | None:
    ratios = [numerator / denominator for numerator, denominator in epochs.values() if denominator]
    return sum(ratios) / len(ratios) if ratios else None
