"""Made-up texts of the size and spread of real ones: words by Zipf's law, passages and replies of usual length."""

from __future__ import annotations

import itertools
import random

from ragrounds.base.contracts import Request
from ragrounds.base.records import Fault, Passage, Reply, Usage

_SYLLABLES = "ba ce di fo gu la me ni po ru sa te vi xo zu car den lip mor nel pan ros tin var".split()
WORDS = [
    "".join(parts)
    for size in (2, 3, 4)
    for parts in itertools.islice(itertools.product(_SYLLABLES, repeat=size), 12_000)
]


SEARCHES, POOL, REPLY = 4, 5000, 90
"""Searches of an attempt; passages that there are; words of a reply."""


class MadeTexts:
    """Texts by a seed: 24,000 different words, of which the commonest tenth makes up most."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self._order = WORDS[:]
        self.random.shuffle(self._order)
        weights = [1 / (place + 3) for place in range(len(self._order))]
        self._weights = list(itertools.accumulate(weights))

    def words(self, count: int) -> str:
        """So many words, with a full stop here and there."""
        drawn = self.random.choices(self._order, cum_weights=self._weights, k=count)
        return " ".join(f"{word}." if place % 14 == 13 else word for place, word in enumerate(drawn))

    def passage(self, number: int, words: int = 130) -> Passage:
        """A passage of a textbook's size."""
        return Passage(id=f"p{number}", document=f"d{number // 4}", title=self.words(6), text=self.words(words),
                       corpus="made@1", score=1.0, rank=1)  # fmt: skip


class MadeModel:
    """Thinks, searches four times, answers. The same prompt has the same reply."""

    spec, window = "made:model", None

    def __init__(self) -> None:
        self._texts = MadeTexts(2)

    def count(self, text: str) -> int:
        return len(text) // 4

    def cut(self, text: str, tokens: int, /) -> str:
        return text[: tokens * 4]

    def price(self, reply: Reply) -> float | None:
        return 0.001

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        said = self._texts.words(REPLY)
        turn = request.prefix.count("<information>")
        if not request.prefix:
            turn = 0 if request.stop else SEARCHES + 1
        if not request.stop:
            return Reply(text='{"answer_choice": "A"}', usage=Usage(900, 90))
        closing = "<answer> A </answer>" if turn >= SEARCHES else f"<search> {self._texts.words(7)} </search>"
        return Reply(text=f"<think>{said}</think> {closing}", usage=Usage(900, 90))

    async def close(self) -> None:
        """Nothing is held."""


class MadeSearcher:
    """Finds ten of 5,000 passages, the first ones oftener."""

    spec, corpus = "made", "made@1"

    def __init__(self) -> None:
        self._texts = MadeTexts(3)
        self._pool = [self._texts.passage(number) for number in range(POOL)]

    async def search(self, query: str, k: int) -> list[Passage]:
        first = [int(self._texts.random.random() ** 2 * POOL) for _ in range(k)]
        return [self._pool[number] for number in dict.fromkeys(first)]
