"""Stand-ins for models and searchers, where a test needs to say what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ragrounds.base.contracts import Request
from ragrounds.base.records import Answer, Call, Called, Fault, Gold, Noted, Passage, Question, Reply, Usage
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.models.prices import Price
from ragrounds.prompts.loader import PromptFolder

Say = Callable[[Request], Reply | Exception]


def always(text: str) -> Say:
    return lambda request: Reply(text=text, usage=Usage(10, 5))


@dataclass
class ScriptedModel:
    """Answers what `say` says, and remembers what it was asked."""

    say: Say = field(default=always('{"answer_choice": "A"}'))
    spec: str = "test:scripted"
    window: int | None = None
    cost: float | None = 0.001
    delay: float = 0.0
    asked: list[Request] = field(default_factory=list)

    def count(self, text: str) -> int:
        return len(text.split())

    def cut(self, text: str, tokens: int, /) -> str:
        return " ".join(text.split()[:tokens])

    def price(self, reply: Reply) -> float | None:
        return self.cost

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        self.asked.append(request)
        await asyncio.sleep(self.delay)
        said = self.say(request)
        if isinstance(said, Exception):
            raise said
        return said

    async def close(self) -> None:
        """Nothing is held."""


@dataclass
class ScriptedSearcher:
    """Finds the same passages for every query, and remembers the queries."""

    texts: Sequence[str] = ("Aspirin inhibits platelets.", "Heparin inhibits thrombin.")
    spec: str = "scripted"
    corpus: str = "test@1"
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def search(self, query: str, k: int) -> list[Passage]:
        self.asked.append((query, k))
        return [
            Passage(
                id=f"p{i}", document=f"d{i}", title=f"Title {i}", text=text, corpus=self.corpus, score=1 / i, rank=i
            )
            for i, text in enumerate(self.texts[:k], 1)
        ]


def questions(count: int, **fields: Any) -> tuple[list[Question], dict[str, Gold]]:
    """`count` four-option questions whose gold is A."""
    options = {"A": "one", "B": "two", "C": "three", "D": "four"}
    made = [
        Question(id=f"t/{i}", benchmark="t", text=f"Question number {i}?", options=options, **fields)
        for i in range(count)
    ]
    return made, {question.id: Gold(question_id=question.id, answer="A") for question in made}


def context_of(journal: StoreJournal, id: str = "q", text: str = "What?", **more: Any) -> AttemptContext:
    """What an attempt at one question goes by."""
    return AttemptContext(
        item=Question(id=id, benchmark="a/b", text=text),
        epoch=0,
        parameters={},
        models={},
        searcher=None,
        prompts=PromptFolder(None, ""),
        journal=journal,
        prices={"openai:m": Price(input=1.0, output=10.0)},
        **more,
    )


class Made(NamedTuple):
    """What came of an attempt."""

    text: str
    error: BaseException | None
    context: AttemptContext

    @property
    def calls(self) -> list[Call]:
        return [event.call for event in self.context.events if isinstance(event, Called)]

    @property
    def notes(self) -> list[str]:
        return [f"{event.what}: {event.text}" for event in self.context.events if isinstance(event, Noted)]


class Doing:
    """A system that does what it is told."""

    kind = "function"
    takes_context = False

    def __init__(self, do: Any) -> None:
        self.do = do

    async def answer(self, question: Question, seen: Any) -> Answer:
        return Answer(text=str(await self.do(question)))
