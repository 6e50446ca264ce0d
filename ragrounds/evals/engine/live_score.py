"""The score of a run while it goes on, by the same rules as its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragrounds.base.records import Attempt, Gold, Question, Score
from ragrounds.evals.scorers import described, headline_of, scores_by_default

Parts = tuple[float, float]
"""Numerator and denominator."""
ENOUGH = 10
"""Questions of each dataset from which a run that goes on has a mean over datasets."""


def pooled_yet(made: Iterable[str], asked: Iterable[str]) -> bool:
    """Whether the figure so far is of all questions alike, for one dataset or more has too few answers: in a mean over
    datasets the first answer of one would weigh as much as hundreds of another.

    Args:
        made: the dataset of each question that was answered.
        asked: the same of all questions.
    """
    counts = Counter(made)
    return any(counts[name] < min(ENOUGH, number) for name, number in Counter(asked).items())


class LiveScore:
    """The score of a run so far by its headline scorer, as its table has it. Of a mean: each question's mean over the
    epochs that ended, their mean in each dataset. Of a ratio over the corpus (a micro-F1): the ratio of the sums of
    each dataset, the mean over the epochs so far. Then the unweighted mean over datasets, once each has enough
    (:func:`pooled_yet`). An attempt that ended without an answer counts 0 (it found nothing); a question whose score is
    missing is left out.

    Args:
        questions: the run's.
        golds: by question id, for what an attempt without a score did not find.
        scorer: the scorer, where it is not the headline.
    """

    def __init__(
        self, questions: Sequence[Question], golds: Mapping[str, Gold] | None = None, scorer: str = ""
    ) -> None:
        headlines = headline_of(questions)
        self.scorer = scorer or (headlines[0].scorer if headlines else "")
        """Which scorer it is by; empty: none scores these questions."""
        self._known = described(self.scorer) if self.scorer else None
        self._ratio = self._known is not None and self._known.ratio
        usual = [one for one in questions if self._known and scores_by_default(self._known, one)]
        suited = [one for one in questions if self._known and self._known.suits(one)]
        self._asked = {one.id: one for one in (usual or suited)}
        self._golds = golds or {}
        self._datasets = {id: question.benchmark for id, question in self._asked.items()}
        self._made: dict[str, dict[int, Parts | None]] = {}
        """Question id → epoch → the parts of its score; of a mean the score and 1. ``None``: missing."""

    def add(self, attempt: Attempt, score: Score | None) -> None:
        """Count an attempt that ended; one that was counted before is replaced."""
        if attempt.question_id in self._datasets:
            self._made.setdefault(attempt.question_id, {})[attempt.epoch] = self._parts(attempt, score)

    def _parts(self, attempt: Attempt, score: Score | None) -> Parts | None:
        if score is None and self._ratio and attempt.status != "completed" and self._known and self._known.computes:
            question = self._asked[attempt.question_id]
            if (gold := self._golds.get(question.id)) is not None:
                score = self._known.score(attempt, question, gold)
        # An answer that nobody has scored is not a wrong answer.
        if score is None:
            return None if attempt.status == "completed" else (0.0, 1.0)
        if score.value is None:
            return None
        return self._known.parts(score) if self._ratio and self._known else (score.value, 1.0)

    def _sums(self, *, together: bool = False) -> list[dict[int, list[float]]]:
        """For each dataset, or of all `together`: epoch → numerators and denominators, added up; a mean's epochs are
        one. They are summed when somebody looks, which is less often than attempts end. A question one of whose scores
        is missing is left out."""
        sums: dict[str, dict[int, list[float]]] = {}
        for id, made in list(self._made.items()):
            known = {epoch: parts for epoch, parts in made.copy().items() if parts is not None}
            if len(known) < len(made):
                continue
            if not self._ratio:
                known = {0: (sum(value for value, _ in known.values()) / len(known), 1.0)}
            epochs = sums.setdefault("" if together else self._datasets[id], {})
            for epoch, (above, below) in known.items():
                added = epochs.setdefault(epoch, [0.0, 0.0])
                added[0] += above
                added[1] += below
        return list(sums.values())

    def made(self) -> list[tuple[Question, tuple[Parts | None, ...]]]:
        """The questions so far in the order of the run, each with the parts of its score in the epochs that ended.
        ``None``: a score is missing."""
        made = {id: tuple(parts for _, parts in sorted(epochs.items())) for id, epochs in list(self._made.items())}
        return [(question, made[id]) for id, question in self._asked.items() if made.get(id)]

    @property
    def dataset_names(self) -> list[str]:
        """The datasets that the table has a column for, whether or not they have a score by now."""
        return list(dict.fromkeys(self._datasets.values()))

    @property
    def is_ratio(self) -> bool:
        """Whether the score is a ratio of sums over questions."""
        return self._ratio

    @property
    def is_pooled(self) -> bool:
        """Whether the figure so far is of all questions alike."""
        return pooled_yet([self._datasets[id] for id in list(self._made)], self._datasets.values())

    @property
    def average(self) -> float | None:
        """The unweighted mean over datasets, or that of all questions alike while these are too few; ``None``: nothing
        is scored yet, or there is nothing to count."""
        if self.is_pooled:
            return self.pooled
        known = [value for value in map(_mean_ratio, self._sums()) if value is not None]
        return sum(known) / len(known) if known else None

    @property
    def pooled(self) -> float | None:
        """The figure of all questions alike, whatever dataset they are of."""
        return next(map(_mean_ratio, self._sums(together=True)), None)


def _mean_ratio(epochs: Mapping[int, Sequence[float]]) -> float | None:
    ratios = [above / below for above, below in epochs.values() if below]
    return sum(ratios) / len(ratios) if ratios else None
