"""The order in which questions are asked. It never changes a result, only when it comes.

A server of one's own keeps what it computed for the beginnings of prompts (vLLM's automatic prefix caching) until
other prompts push it out. Questions whose prompts begin alike are asked one after the other, so that it is still there:
within blocks that a seed draws, which get smaller towards a budget's end. So a run that it ends has the first of the
drawn questions, whatever they share.
A sequential comparison asks in rounds, which a seed draws before anything is answered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import cluster_of, lot

BLOCK = 512
"""Questions of a block, at most."""
_ALIKE = 200
"""Characters that questions must begin with alike: a case that several questions are asked about."""


def ordered(questions: Sequence[Question], golds: Mapping[str, Gold]) -> list[Question]:
    """Give the questions, those that share something together, at the place of the first of them.

    What questions share is known before anything is searched: their cluster (the same source, or duplicates), a gold
    document (which a retriever will likely find for both), or a long common beginning. Linear in the number of
    questions. Inside a group, equal beginnings stand together, and otherwise the order is the given one.
    """
    first: dict[Hashable, int] = {}
    leader = list(range(len(questions)))

    def lead(place: int) -> int:
        """The first place of a group (union-find, with path halving)."""
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for place, question in enumerate(questions):
        for mark in _marks(question, golds.get(question.id)):
            one, other = lead(first.setdefault(mark, place)), lead(place)
            leader[max(one, other)] = min(one, other)
    begins: dict[tuple[int, str], int] = {}
    for place, question in enumerate(questions):
        begins.setdefault((lead(place), question.text[:_ALIKE]), place)
    key = {
        place: (lead(place), begins[lead(place), question.text[:_ALIKE]], place)
        for place, question in enumerate(questions)
    }
    return [questions[place] for place in sorted(key, key=key.__getitem__)]


class SharedOrder(Struct, frozen=True):
    """Has questions asked in drawn blocks, in each of them those together that share something, and each in all its
    epochs before the next: these share all of their prompts. It never stops a run (contract:
    :class:`ragrounds.base.contracts.Stop`)."""

    seed: int = 0
    epochs_together = True

    def blocks(
        self, questions: Iterable[Question], golds: Mapping[str, Gold], room: Callable[[], int]
    ) -> Iterator[Question]:
        """The questions block by block; each has as many as `room` says when it is begun."""
        left = iter(sorted(questions, key=lambda question: lot(self.seed, cluster_of(question))))
        while block := list(itertools.islice(left, room())):
            yield from ordered(block, golds)

    def observe(self, finished: FinishedAttempt) -> None:
        """Ignore it: nothing depends on results."""

    def reached(self) -> str:
        """Give no reason to stop, ever."""
        return ""


def _marks(question: Question, gold: Gold | None) -> Iterator[Hashable]:
    """What a question has in common with others, if others have it."""
    if question.cluster:
        yield "cluster", question.cluster
    if len(question.text) >= _ALIKE:
        yield "begins", question.text[:_ALIKE]
    for document in gold.documents if gold else ():
        yield "document", document


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
        datasets.setdefault(question.benchmark, {}).setdefault(cluster_of(question), []).append(question)
    drawn = [
        [tuple(clusters[name]) for name in sorted(clusters, key=lambda name: lot(seed, name))]
        for clusters in datasets.values()
    ]
    return [QuestionRound(parts) for parts in zip(*drawn, strict=False)]


def rounds_within(rounds: Sequence[QuestionRound], most: int) -> list[QuestionRound]:
    """Give the first rounds that have no more than `most` questions together."""
    totals = itertools.accumulate(len(one.questions) for one in rounds)
    return [one for one, total in zip(rounds, totals, strict=True) if total <= most]
