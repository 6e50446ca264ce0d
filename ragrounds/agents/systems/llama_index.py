"""LlamaIndex as a system: a query engine, a chat engine, a workflow (agents are workflows too).

Its passages, steps and models' calls are told of by :mod:`ragrounds.agents.systems.llama_index_events`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, cast

from msgspec.structs import replace

from ragrounds.agents.systems.answers import Wiring, check_fields, fed, guessed, read_answer, refuse_settings
from ragrounds.agents.systems.function import in_thread
from ragrounds.agents.systems.langgraph_graph import person
from ragrounds.agents.systems.llama_index_events import passages_of_nodes, watched
from ragrounds.contracts import Observation
from ragrounds.errors import AskedPerson, UserError
from ragrounds.records import Answer, Question

if TYPE_CHECKING:
    from workflows import Workflow
    from workflows.events import HumanResponseEvent
    from workflows.handler import WorkflowHandler

USUAL = ("user_msg", "query", "question", "input", "message", "prompt", "topic")
"""The names under which a workflow that does not say what it takes is given the question."""


class _Engine(Protocol):
    """A query engine or a chat engine, as far as it is used here."""

    def query(self, asked: str) -> object:
        """Answer."""

    async def aquery(self, asked: str) -> object:
        """Answer."""

    def chat(self, asked: str, chat_history: list[object]) -> object:
        """Answer in a conversation."""


class _Handler(Protocol):
    """A workflow at work."""

    def stream_events(self) -> AsyncIterator[object]:
        """What it tells."""

    def is_done(self) -> bool:
        """Whether it has ended."""

    async def cancel_run(self) -> None:
        """End it."""


class EngineSystem:
    """A query engine or a chat engine (contract: :class:`ragrounds.contracts.System`)."""

    takes_context = False

    def __init__(self, made: object, wiring: Wiring, *, chats: bool) -> None:
        """Settle what it is asked with.

        Raises:
            UserError: the card says what no engine takes.
        """
        self.kind = "LlamaIndex chat engine" if chats else "LlamaIndex query engine"
        refuse_settings(wiring, self.kind, "config", "context", "on_interrupt")
        check_fields(wiring.name, wiring.input.values())
        if len(wiring.input) > 1:
            raise UserError(f'{wiring.name} is a {self.kind}, which takes one text: input = {{ query = "prompt" }}.')
        self.made = made
        self._wiring = wiring
        self._given = next(iter(wiring.input.values()), "prompt")
        # A chat engine keeps one conversation: its attempts take turns.
        self._turn = asyncio.Lock() if chats else contextlib.nullcontext()
        self._chats = chats

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Ask the engine, in a thread, as its users do."""
        engine, asked = cast("_Engine", self.made), str(fed(question)[self._given])
        async with self._turn:
            if self._chats:
                said = await in_thread(lambda: engine.chat(asked, chat_history=[]))
            else:
                try:
                    said = await in_thread(lambda: engine.query(asked))
                except NotImplementedError:  # an engine that is async alone
                    said = await engine.aquery(asked)
        said = await in_thread(lambda: _whole(said))
        return _answered(said, question, self._wiring, seen)


class WorkflowSystem:
    """A workflow (contract: :class:`ragrounds.contracts.System`)."""

    kind = "LlamaIndex workflow"
    takes_context = False

    def __init__(self, made: Workflow, wiring: Wiring) -> None:
        """Settle what it is run with.

        Raises:
            UserError: it is not known what it takes, or the card says what no workflow takes.
        """
        refuse_settings(wiring, self.kind, "config", "context")
        check_fields(wiring.name, wiring.input.values())
        self.made = made
        self._wiring = wiring
        self._person = person(wiring.on_interrupt)
        self.input = wiring.input or _taken(made, wiring.name)

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Run the workflow on the question, in a context of its own.

        Raises:
            AskedPerson: it needs a person's input, and nobody is named to answer.
        """
        from workflows.events import InputRequiredEvent

        values = fed(question)
        run = cast("Callable[..., WorkflowHandler]", self.made.run)
        handler = run(**{key: values[given] for key, given in self.input.items()})
        running = cast("_Handler", handler)
        try:
            async for event in running.stream_events():
                if isinstance(event, InputRequiredEvent):
                    asked = _asked(event)
                    if self._person is None:
                        raise AskedPerson(asked)
                    handler.ctx.send_event(self._response(str(self._person(asked))))
            said = await cast("Awaitable[object]", handler)
        finally:
            if not running.is_done():
                with contextlib.suppress(Exception):
                    await running.cancel_run()
        return _answered(said, question, self._wiring, seen)

    def _response(self, text: str) -> HumanResponseEvent:
        """A person's answer, as the event that a step of the workflow waits for."""
        from workflows.events import HumanResponseEvent

        accepted = [kind for step in self.made._step_configs().values() for kind in step.accepted_events]
        own = next((kind for kind in accepted if issubclass(kind, HumanResponseEvent)), HumanResponseEvent)
        return cast("Callable[..., HumanResponseEvent]", own)(response=text)


def adapts(made: object, wiring: Wiring) -> EngineSystem | WorkflowSystem | None:
    """The system of LlamaIndex's query engines, chat engines and workflows.

    Raises:
        UserError: what the card says does not fit it.
    """
    if isinstance(made, type):
        return None
    if "workflows" in sys.modules:
        from workflows import Workflow

        if isinstance(made, Workflow):
            return WorkflowSystem(made, wiring)
    if "llama_index.core" in sys.modules:
        from llama_index.core.base.base_query_engine import BaseQueryEngine
        from llama_index.core.chat_engine.types import BaseChatEngine

        for kind, chats in ((BaseQueryEngine, False), (BaseChatEngine, True)):
            if isinstance(made, kind):
                return EngineSystem(made, wiring, chats=chats)
    return None


def _taken(made: Workflow, name: str) -> dict[str, str]:
    """What a workflow's first event holds, by the usual names; all of these where it does not say what it holds."""
    fields = [key for key in made.start_event_class.model_fields if not key.startswith("_")]
    if not fields:
        return dict.fromkeys(USUAL, "prompt")
    found = guessed(fields) if "user_msg" not in fields else {"user_msg": "prompt"}
    if not found:
        found = {key: "prompt" for key in fields[:1] if len(fields) == 1}
    if not found:
        raise UserError(
            f"{name}: what is its start event given? It has {', '.join(fields)}. Say it in the agent's file: "
            f'input = {{ {fields[0]} = "prompt" }}.'
        )
    return found


def _asked(event: object) -> str:
    """What a workflow asks a person."""
    dumped = getattr(event, "model_dump", None)
    fields = dumped() if callable(dumped) else {}
    held: dict[str, object] = dict(fields) if isinstance(fields, dict) else {}
    get = getattr(event, "get", None)
    prefix = held.get("prefix") or (get("prefix", "") if callable(get) else "")
    return str(prefix or held or "its input is needed")


def _whole(said: object) -> object:
    """A response, once a streamed one has come to its end."""
    whole = getattr(said, "get_response", None)
    if callable(whole) and hasattr(said, "response_gen"):
        return whole()
    parts = getattr(said, "response_gen", None)
    if parts is not None and not getattr(said, "response", ""):
        return "".join(map(str, parts))
    return said


def _answered(said: object, question: Question, wiring: Wiring, seen: Observation) -> Answer:
    """The answer, with the passages that it was made from."""
    answer = read_answer(said, question, wiring, seen)
    nodes = getattr(said, "source_nodes", None)
    if isinstance(nodes, list) and nodes:
        answer = replace(answer, passages=passages_of_nodes(nodes))
        watch = watched()
        if watch is not None and not watch.searches:  # an engine with a search of its own kind
            seen.found(question.text, answer.passages, type(said).__name__)
    return answer
