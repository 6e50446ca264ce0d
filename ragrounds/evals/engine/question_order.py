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

    The mean over a round is the unweighted mean over datasets of a question's value, as in the tables. Rounds are
    alike, so that their mean can be monitored.
    """

    parts: tuple[tuple[Question, ...], ...]
    """One part for each dataset; its questions are duplicates of each other, or it has only one."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return all its questions, in the order in which they are asked."""
        return tuple(itertools.chain.from_iterable(self.parts))


def draw_rounds(questions: Iterable[Question], seed: int) -> list[QuestionRound]:
    """Sample rounds in an order that depends only on the seed and the questions' ids.

    They end when the smallest dataset is exhausted. With one dataset and no duplicates a round is a question, and the
    first N are those that ``--limit N`` samples with the same seed.
    """
    datasets: dict[str, dict[str, list[Question]]] = {}
    for question in questions:
        datasets.setdefault(question.benchmark, {}).setdefault(cluster_of(question), []).append(question)
    sampled = [
        [tuple(clusters[name]) for name in sorted(clusters, key=lambda name: lot(seed, name))]
        for clusters in datasets.values()
    ]
    return [QuestionRound(parts) for parts in zip(*sampled, strict=False)]


def rounds_within(rounds: Sequence[QuestionRound], limit: int) -> list[QuestionRound]:
    """Return the first rounds that have no more than `limit` questions together."""
    totals = itertools.accumulate(len(question_round.questions) for question_round in rounds)
    return [question_round for question_round, total in zip(rounds, totals, strict=True) if total <= limit]
