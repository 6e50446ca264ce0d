"""The order in which a sequential comparison asks: in rounds, which a seed draws before anything is answered."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.records import Question


class QuestionRound(Struct, frozen=True):
    """One draw of a sequential comparison: for every dataset of the benchmark one question, or one cluster of
    duplicates.

    The mean over a round is the unweighted mean over datasets of a question's value, as in the tables; rounds are
    alike, so their mean can be followed.
    """

    parts: tuple[tuple[Question, ...], ...]
    """A part a dataset; its questions are duplicates of each other, or there is one."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """All its questions, in the order in which they are asked."""
        return tuple(itertools.chain.from_iterable(self.parts))


def draw_rounds(questions: Iterable[Question], seed: int) -> list[QuestionRound]:
    """Draw rounds in an order that depends on nothing but the seed and the questions' ids. They end where the smallest
    dataset does. With one dataset and no duplicates a round is a question, and the first N are those that
    ``--limit N`` draws with the same seed."""
    datasets: dict[str, dict[str, list[Question]]] = {}
    for question in questions:
        datasets.setdefault(question.benchmark, {}).setdefault(question.cluster or question.id, []).append(question)
    drawn = [
        [tuple(clusters[name]) for name in sorted(clusters, key=lambda name: lot(seed, name))]
        for clusters in datasets.values()
    ]
    return [QuestionRound(parts) for parts in zip(*drawn, strict=False)]


def rounds_within(rounds: Sequence[QuestionRound], most: int) -> list[QuestionRound]:
    """Give the first rounds that have no more than `most` questions together."""
    totals = itertools.accumulate(len(one.questions) for one in rounds)
    return [one for one, total in zip(rounds, totals, strict=True) if total <= most]
