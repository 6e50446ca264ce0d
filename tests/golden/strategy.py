"""One question through a built-in graph and the product's own context, with a scripted model and searcher."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct

from ragrounds.agents.agent import Agent, open_agent
from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import Fault, Passage, Question, Reply, Usage
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs import catalogue
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder

T = TypeVar("T", bound=Struct)
Replies = Callable[[Request], str]
Found = Callable[[str, int], list[Passage]]


class ScriptedModel:
    """A model (contract: Model) whose tokens are characters. A script that raises `CallFailed` fails the call."""

    spec = "scripted:model"
    window = None
    continues = "prefix"

    def __init__(self, script: Replies) -> None:
        self.script = script
        self.requests: list[Request] = []

    def count(self, text: str) -> int:
        return len(text)

    def cut(self, text: str, tokens: int, /) -> str:
        return text[:tokens]

    def price(self, reply: Reply) -> float | None:
        return 0.0

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        self.requests.append(request)
        return Reply(text=self.script(request), usage=Usage(input=1, output=1), finish="stop")

    async def close(self) -> None: ...


class ScriptedSearcher:
    """A searcher (contract: Searcher)."""

    spec, corpus = "scripted", "scripted@1"

    def __init__(self, found: Found) -> None:
        self.found = found
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, k: int) -> list[Passage]:
        self.asked.append((query, k))
        return self.found(query, k)


class NoJournal:
    """Every call is made (contract: Journal)."""

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        return await make(), False


class Strategy:
    """An agent with what it asks: the state that its graph ends with, and all that was asked on the way."""

    def __init__(
        self, agent: str, question: Question, script: Replies, found: Found, reader: Replies | None = None
    ) -> None:
        self.agent, self.question = _opened(agent), question
        self.model, self.searcher = ScriptedModel(script), ScriptedSearcher(found)
        self.reader = ScriptedModel(reader or script)

    def run(self, state: dict[str, Any] | None = None) -> dict[str, Any]:
        """The last state, from `state` on."""
        agent = self.agent
        self.context = AttemptContext(
            item=self.question,
            epoch=0,
            parameters=agent.parameters,
            models={"model": self.model, "reader": self.reader},
            searcher=self.searcher,
            prompts=PromptFolder(agent.card.prompts, agent.layout),
            journal=NoJournal(),
            limits=agent.caps,
            question_only=agent.card.question_only,
        )
        graph = _graph(agent.card.graph)
        settings = {"recursion_limit": 1000}
        return asyncio.run(graph.ainvoke(state or {}, settings, context=self.context))


@cache
def _opened(agent: str) -> Agent:
    return open_agent(agent)


@cache
def _graph(name: str) -> Any:
    return catalogue.build(name).compile()


def failed(message: str) -> CallFailed:
    """A call that failed after all tries."""
    return CallFailed("server_error", message)


def passage(number: int, title: str, text: str, query: str = "") -> Passage:
    """One of what a search found."""
    place = f"{query}#{number}"
    return Passage(id=place, document=place, title=title, text=text, corpus="scripted@1", rank=number)
