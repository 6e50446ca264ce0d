"""In which order questions are asked. It never changes a result, only when it comes.

A server of one's own keeps what it computed for the beginnings of prompts (vLLM's automatic prefix caching) until
other prompts push it out. Questions whose prompts begin alike are asked one after the other, so that it is still there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Literal

from ragrounds.evals.engine.strands import Finished
from ragrounds.records import Gold, Question

Order = Literal["given", "shared"]
ORDERS: tuple[Order, ...] = ("given", "shared")
_ALIKE = 200
"""Characters that questions must begin with alike: a case that several questions are asked about."""


def ordered(questions: Sequence[Question], golds: Mapping[str, Gold], order: Order) -> list[Question]:
    """The questions in the order given; or those that share something together, at the place of their first.

    What questions share is told before anything is searched: their cluster (the same source, or duplicates), a gold
    document (which a retriever will likely find for both), or a long common beginning. Linear in the number of
    questions. Inside a group, equal beginnings stand together, and otherwise the order is the given one.
    """
    if order == "given":
        return list(questions)
    first: dict[Hashable, int] = {}
    leader = list(range(len(questions)))

    def lead(place: int) -> int:
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


class Together:
    """Has every question asked in all its epochs before the next: these share all of their prompts. It never stops a
    run (contract: :class:`ragrounds.evals.engine.strands.Stop`)."""

    whole = True

    def hear(self, finished: Finished) -> None:
        """Nothing depends on it."""

    def reached(self) -> str:
        """Never."""
        return ""


def _marks(question: Question, gold: Gold | None) -> Iterator[Hashable]:
    """What a question has in common with others, if others have it."""
    if question.cluster:
        yield "cluster", question.cluster
    if len(question.text) >= _ALIKE:
        yield "begins", question.text[:_ALIKE]
    for document in gold.documents if gold else ():
        yield "document", document
