"""Precision, recall and F1 by class (a type of relation), for scorers that count, run by run.

With several epochs every figure is the mean over epochs, as the whole figure is, so the line of all classes together
shows the same F1 as the table of scores.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from ragrounds.evals.compare.figures import Figure, ratio_estimate
from ragrounds.evals.compare.question_values import Parts, QuestionValues, whole_scores
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.stats.bootstrap import JOINT_RESAMPLES
from ragrounds.records import Gold, Question, Score

EVERY = ""
"""The name of all classes together."""
ELSE = "(not asked for)"
"""Classes that answers have and no gold."""
Counts = tuple[int, int, int]
"""True positives, false positives, false negatives."""
EpochCounts = list[dict[str, Counts]]
"""Of one question: class → counts, an epoch each."""


class ClassFigure(Struct, frozen=True, kw_only=True):
    """What one run found of one class in one dataset."""

    run: str
    dataset: str
    name: str
    """The class; empty: all together."""
    wanted: float
    """How many there are to find, the mean over epochs; so are the next two."""
    given: float
    right: float
    precision: float | None
    """``None``: nothing was given."""
    recall: float | None
    """``None``: there is nothing to find."""
    f1: float | None
    low: float | None = None
    """95 % interval of F1, by a bootstrap of questions; ``None`` beside a value: too few."""
    high: float | None = None


@dataclass(frozen=True)
class ClassCounts:
    """What figures by class are made from."""

    questions: Sequence[Question]
    """Those the scorer scores."""
    golds: Mapping[str, Gold]
    values: Mapping[str, QuestionValues]
    """By run, as of the table of scores."""
    scores: Mapping[str, Sequence[Score]]
    """By run."""
    overall: Mapping[str, Mapping[str, Figure]]
    """The figures of all classes together, by run and dataset."""
    scorer: ScorerRecord
    epochs: int
    seed: int

    def figures(self) -> tuple[ClassFigure, ...]:
        """The figures of every dataset, class and run, all classes first and then the commonest; none where the scorer
        counts no classes."""
        if not any(self.scorer.by_class(score) for found in self.scores.values() for score in found):
            return ()
        by_dataset: dict[str, list[Question]] = defaultdict(list)
        for question in self.questions:
            by_dataset[question.benchmark].append(question)
        return tuple(line for name, inside in by_dataset.items() for line in self._dataset(name, inside))

    def _dataset(self, dataset: str, inside: Sequence[Question]) -> Iterator[ClassFigure]:
        counted = {run: self._counted(run, inside) for run in self.values}
        wanted: Counter[str] = Counter()
        for epochs in next(iter(counted.values())).values():
            for name, (right, _, missed) in epochs[0].items():
                wanted[name] += right + missed
        names = [name for name, count in wanted.most_common() if count]
        merged = {run: _merged(found, set(names)) for run, found in counted.items()}
        if any(ELSE in classes for found in merged.values() for epochs in found.values() for classes in epochs):
            names.append(ELSE)
        for name in (EVERY, *names):
            for run in self.values:
                yield self._line(run, dataset, name, inside, merged)

    def _counted(self, run: str, inside: Sequence[Question]) -> dict[str, EpochCounts]:
        known: dict[str, dict[int, Score]] = defaultdict(dict)
        for score in self.scores[run]:
            known[score.question_id][score.epoch] = score
        return {
            one.id: [
                dict(self.scorer.by_class(score))
                for score in whole_scores(self.scorer, one, self.golds[one.id], known[one.id], self.epochs)
            ]
            for one in inside
            if self.values[run].get(one.id) is not None
        }

    def _line(
        self,
        run: str,
        dataset: str,
        name: str,
        inside: Sequence[Question],
        merged: Mapping[str, Mapping[str, EpochCounts]],
    ) -> ClassFigure:
        mine = merged[run]
        epochs = [
            _added(classes for found in mine.values() for key, classes in found[epoch].items() if name in (EVERY, key))
            for epoch in range(self.epochs)
        ]
        if name == ELSE:  # there is nothing to find of them, so they have a precision of 0 and no F1
            whole = Figure(n=len(mine), missing=0)
        else:
            whole = self.overall[run][dataset] if name == EVERY else self._f1(name, inside, mine)
        return ClassFigure(
            run=run,
            dataset=dataset,
            name=name,
            wanted=_mean([right + missed for right, _, missed in epochs]) or 0.0,
            given=_mean([right + wrong for right, wrong, _ in epochs]) or 0.0,
            right=_mean([right for right, _, _ in epochs]) or 0.0,
            precision=_mean([right / (right + wrong) for right, wrong, _ in epochs if right + wrong]),
            recall=_mean([right / (right + missed) for right, _, missed in epochs if right + missed]),
            f1=whole.value,
            low=whole.low,
            high=whole.high,
        )

    def _f1(self, name: str, inside: Sequence[Question], mine: Mapping[str, EpochCounts]) -> Figure:
        asked = [question for question in inside if question.id in mine]
        columns = [[_parts(mine[question.id], name) for question in asked]]
        made = (
            ratio_estimate(columns, [1.0], asked, self.scorer, self.seed, resamples=JOINT_RESAMPLES) if asked else None
        )
        if made is None:
            return Figure(n=len(asked), missing=0)
        return Figure(value=made.value, n=made.n, missing=0, low=made.low, high=made.high)


def _merged(found: Mapping[str, EpochCounts], names: set[str]) -> dict[str, EpochCounts]:
    """The counts with the classes that no gold has as one."""
    made: dict[str, EpochCounts] = {}
    for question, epochs in found.items():
        kept: EpochCounts = []
        for classes in epochs:
            one = {name: counts for name, counts in classes.items() if name in names}
            others = [counts for name, counts in classes.items() if name not in names]
            kept.append({**one, ELSE: _added(others)} if others else one)
        made[question] = kept
    return made


def _parts(epochs: EpochCounts, name: str) -> Parts:
    """The parts of F1 of one class."""
    counts = [classes.get(name, (0, 0, 0)) for classes in epochs]
    return tuple((2.0 * right, 2.0 * right + wrong + missed) for right, wrong, missed in counts)


def _added(counts: Iterator[Counts] | Sequence[Counts]) -> Counts:
    right = wrong = missed = 0
    for one in counts:
        right, wrong, missed = right + one[0], wrong + one[1], missed + one[2]
    return right, wrong, missed


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
