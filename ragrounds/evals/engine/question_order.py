"""Order in which questions are asked. It never changes a result, only when it comes.

A user's server caches its computation for the beginnings of prompts (vLLM's automatic prefix caching) until other
prompts replace it. Questions whose prompts begin alike are asked one after the other, so that the cache still holds:
within blocks of a seeded random order, which get smaller towards a budget's end. So a run that the budget ends has the
first of the sampled questions, whatever they share.
A sequential comparison asks in rounds, whose random order is fixed before anything is answered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import cluster_of, lot

BLOCK = 512
"""Largest number of questions of a block."""
_ALIKE = 200
"""Number of characters of a common beginning: a case that several questions are asked about."""


def ordered(questions: Sequence[Question], golds: Mapping[str, Gold]) -> list[Question]:
    """Return the questions so that those that share something are together, at the position of the first of them.

    What questions share is known before anything is searched: their cluster (the same source, or duplicates), a gold
    document (which a retriever will likely find for both), or a long common beginning. The time is linear in the number
    of questions. Inside a group, questions with equal beginnings are adjacent; otherwise the order is kept.
    """
    first: dict[Hashable, int] = {}
    leader = list(range(len(questions)))

    def lead(index: int) -> int:
        """Return the first index of a group (union-find, with path halving)."""
        while leader[index] != index:
            leader[index] = index = leader[leader[index]]
        return index

    for index, question in enumerate(questions):
        for mark in _marks(question, golds.get(question.id)):
            leader_1, leader_2 = lead(first.setdefault(mark, index)), lead(index)
            leader[max(leader_1, leader_2)] = min(leader_1, leader_2)
    first_with_beginning: dict[tuple[int, str], int] = {}
    for index, question in enumerate(questions):
        first_with_beginning.setdefault((lead(index), question.text[:_ALIKE]), index)
    key = {
        index: (lead(index), first_with_beginning[lead(index), question.text[:_ALIKE]], index)
        for index, question in enumerate(questions)
    }
    return [questions[index] for index in sorted(key, key=key.__getitem__)]


class SharedOrder(Struct, frozen=True):
    """Order in random blocks. Questions of a block that share something are asked together, and each in all its epochs
    before the next, because epochs share all of their prompts.

    It never stops a run (contract: :class:`ragrounds.base.contracts.Stop`).
    """

    seed: int = 0
    epochs_together = True

    def blocks(
        self, questions: Iterable[Question], golds: Mapping[str, Gold], room: Callable[[], int]
    ) -> Iterator[Question]:
        """Yield the questions block by block; each block has as many as `room` returns when it begins."""
        remaining = iter(sorted(questions, key=lambda question: lot(self.seed, cluster_of(question))))
        while block := list(itertools.islice(remaining, room())):
            yield from ordered(block, golds)

    def observe(self, finished: FinishedAttempt) -> None:
        """Ignore the attempt, because nothing depends on results."""

    def reached(self) -> str:
        """Return no reason to stop, ever."""
        return ""


def _marks(question: Question, gold: Gold | None) -> Iterator[Hashable]:
    """Yield the properties that a question may share with others."""
    if question.cluster:
        yield "cluster", question.cluster
    if len(question.text) >= _ALIKE:
        yield "begins", question.text[:_ALIKE]
    for document in gold.documents if gold else ():
        yield "document", document


class QuestionRound(Struct, frozen=True):
    """One round of a sequential comparison: for every dataset of the benchmark one question, or one cluster of
    duplicates.

    Questions are weighted as in the tables, where a dataset's figure is the mean over its questions and the headline
    the unweighted mean over datasets: :meth:`weigh`. Rounds are alike, so that their sums can be monitored.
    """

    parts: tuple[tuple[Question, ...], ...]
    """One part for each dataset; its questions are duplicates of each other, or it has only one."""
    weights: tuple[float, ...] = ()
    """Weight of a question of each part, such that the weights of all rounds have the same mean for each dataset; by
    default 1 / its number of questions."""
    largest: tuple[float, ...] = ()
    """Weight of the largest cluster of each part's dataset; by default that of the part."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return all its questions, in the order in which they are asked."""
        return tuple(itertools.chain.from_iterable(self.parts))

    def weigh(self, value: Callable[[Question], float | None], dataset: str = "") -> tuple[float, float] | None:
        """Return the weighted sum of the questions' values and the sum of their weights.

        Both are shares of the weight of the largest possible round. Questions without a value are left out; ``None`` if
        no question of some dataset has a value.

        Args:
            value: function that returns the value of a question.
            dataset: the only dataset to count; empty for all.
        """
        total = weight = bound = 0.0
        for index, part in enumerate(self.parts):
            if dataset and part[0].benchmark != dataset:
                continue
            values = [number for question in part if (number := value(question)) is not None]
            if not values:
                return None
            question_weight = self.weights[index] if self.weights else 1 / len(part)
            total += question_weight * sum(values)
            weight += question_weight * len(values)
            bound += self.largest[index] if self.largest else 1.0
        return (total / bound, weight / bound) if bound else None


def draw_rounds(questions: Iterable[Question], seed: int) -> list[QuestionRound]:
    """Sample rounds in an order that depends only on the seed and the questions' ids.

    They end when the smallest dataset is exhausted. With one dataset and no duplicates a round is a question, and the
    first N are those that ``--limit N`` samples with the same seed.
    """
    datasets = _clusters(questions)
    sampled = [
        [clusters[name] for name in sorted(clusters, key=lambda name: lot(seed, name))]
        for clusters in datasets.values()
    ]
    weights = [len(clusters) / sum(map(len, clusters.values())) for clusters in datasets.values()]
    largest = [weight * max(map(len, clusters)) for weight, clusters in zip(weights, sampled, strict=True)]
    return [QuestionRound(parts, tuple(weights), tuple(largest)) for parts in zip(*sampled, strict=False)]


def cluster_rounds(questions: Iterable[Question]) -> list[QuestionRound]:
    """Return every cluster of questions as a round of its own, so that all together have the weights of the tables."""
    datasets = _clusters(questions)
    weights = {name: 1 / sum(map(len, clusters.values())) for name, clusters in datasets.items()}
    largest = max(weights[name] * len(cluster) for name, clusters in datasets.items() for cluster in clusters.values())
    return [
        QuestionRound((cluster,), (weights[name],), (largest,))
        for name, clusters in datasets.items()
        for cluster in clusters.values()
    ]


def _clusters(questions: Iterable[Question]) -> dict[str, dict[str, tuple[Question, ...]]]:
    """Return dataset → cluster → its questions."""
    datasets: dict[str, dict[str, list[Question]]] = {}
    for question in questions:
        datasets.setdefault(question.benchmark, {}).setdefault(cluster_of(question), []).append(question)
    return {
        dataset: {name: tuple(cluster) for name, cluster in clusters.items()} for dataset, clusters in datasets.items()
    }


def rounds_within(rounds: Sequence[QuestionRound], limit: int) -> list[QuestionRound]:
    """Return the first rounds that have no more than `limit` questions together."""
    totals = itertools.accumulate(len(question_round.questions) for question_round in rounds)
    return [question_round for question_round, total in zip(rounds, totals, strict=True) if total <= limit]
