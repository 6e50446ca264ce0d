"""LlamaIndex's query engines and chat engines as systems.

:mod:`~.llama_index_events` reports their passages, steps and model calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from typing import Any

from .answers import Wiring, check_fields, fed, read_answer, refuse_settings
from .errors import Refused
from .function import in_thread
from .llama_index_events import watched
from .observer import Observer, SystemAnswer
from .passages import passages_of


class EngineSystem:
    """A query engine or a chat engine as a system (:class:`~.observer.Form`)."""

    takes_context = False

    def __init__(self, wrapped: Any, wiring: Wiring, *, chats: bool) -> None:
        """Determine the engine's input.

        Raises:
            Refused: the card sets something that engines do not take.
        """
        self.kind = "LlamaIndex chat engine" if chats else "LlamaIndex query engine"
        refuse_settings(wiring, self.kind, "config", "context", "on_interrupt")
        check_fields(wiring.name, wiring.input.values())
        if len(wiring.input) > 1:
            raise Refused(f'{wiring.name} is a {self.kind}, which takes one text: input = {{ query = "prompt" }}.')
        self.wrapped = wrapped
        self._wiring = wiring
        self._input_name = next(iter(wiring.input.values()), "prompt")
        # A chat engine keeps one conversation: its attempts take turns.
        self._turn = asyncio.Lock() if chats else contextlib.nullcontext()
        self._chats = chats

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> SystemAnswer:
        """Call the engine, in a thread, as its users do."""
        engine, query = self.wrapped, str(fed(question)[self._input_name])
        async with self._turn:
            if self._chats:
                output = await in_thread(lambda: engine.chat(query, chat_history=[]))
            else:
                try:
                    output = await in_thread(lambda: engine.query(query))
                except NotImplementedError:  # an engine that is only async
                    output = await engine.aquery(query)
        output = await in_thread(lambda: _complete_response(output))
        return _read_with_passages(output, question, self._wiring, seen)


def adapts(candidate: object, wiring: Wiring) -> EngineSystem | None:
    """Return the system of a LlamaIndex query engine or chat engine, or ``None`` for any other object.

    Raises:
        Refused: the card does not fit it.
    """
    if isinstance(candidate, type):
        return None
    if "llama_index.core" in sys.modules:
        from llama_index.core.base.base_query_engine import BaseQueryEngine
        from llama_index.core.chat_engine.types import BaseChatEngine

        for kind, chats in ((BaseQueryEngine, False), (BaseChatEngine, True)):
            if isinstance(candidate, kind):
                return EngineSystem(candidate, wiring, chats=chats)
    return None


def _complete_response(response: object) -> object:
    """Return a response, after reading a streamed one to its end."""
    get_response = getattr(response, "get_response", None)
    if callable(get_response) and hasattr(response, "response_gen"):
        return get_response()
    parts = getattr(response, "response_gen", None)
    if parts is not None and not getattr(response, "response", ""):
        return "".join(map(str, parts))
    return response


def _read_with_passages(response: object, question: Mapping[str, Any], wiring: Wiring, seen: Observer) -> SystemAnswer:
    """Return the answer, with the passages on which it is based."""
    answer = read_answer(response, question, wiring, seen)
    nodes = getattr(response, "source_nodes", None)
    if isinstance(nodes, list) and nodes:
        answer = answer._replace(passages=passages_of(nodes))
        watch = watched()
        if watch is not None and not watch.searches:  # an engine with a custom search
            seen.search_returned(question["text"], answer.passages, type(response).__name__)
    return answer
