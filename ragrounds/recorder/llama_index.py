"""LlamaIndex's query engines and chat engines as systems.

Its passages, steps and models' calls are told of by :mod:`~.llama_index_events`.
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
from .observer import Given, Observer
from .passages import passages_of


class EngineSystem:
    """A query engine or a chat engine (:class:`~.observer.Form`)."""

    takes_context = False

    def __init__(self, made: Any, wiring: Wiring, *, chats: bool) -> None:
        """Settle what it is asked with.

        Raises:
            Refused: the card says what no engine takes.
        """
        self.kind = "LlamaIndex chat engine" if chats else "LlamaIndex query engine"
        refuse_settings(wiring, self.kind, "config", "context", "on_interrupt")
        check_fields(wiring.name, wiring.input.values())
        if len(wiring.input) > 1:
            raise Refused(f'{wiring.name} is a {self.kind}, which takes one text: input = {{ query = "prompt" }}.')
        self.made = made
        self._wiring = wiring
        self._given = next(iter(wiring.input.values()), "prompt")
        # A chat engine keeps one conversation: its attempts take turns.
        self._turn = asyncio.Lock() if chats else contextlib.nullcontext()
        self._chats = chats

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> Given:
        """Ask the engine, in a thread, as its users do."""
        engine, asked = self.made, str(fed(question)[self._given])
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


def adapts(made: object, wiring: Wiring) -> EngineSystem | None:
    """The system of LlamaIndex's query engines and chat engines.

    Raises:
        Refused: what the card says does not fit it.
    """
    if isinstance(made, type):
        return None
    if "llama_index.core" in sys.modules:
        from llama_index.core.base.base_query_engine import BaseQueryEngine
        from llama_index.core.chat_engine.types import BaseChatEngine

        for kind, chats in ((BaseQueryEngine, False), (BaseChatEngine, True)):
            if isinstance(made, kind):
                return EngineSystem(made, wiring, chats=chats)
    return None


def _whole(said: object) -> object:
    """A response, once a streamed one has come to its end."""
    whole = getattr(said, "get_response", None)
    if callable(whole) and hasattr(said, "response_gen"):
        return whole()
    parts = getattr(said, "response_gen", None)
    if parts is not None and not getattr(said, "response", ""):
        return "".join(map(str, parts))
    return said


def _answered(said: object, question: Mapping[str, Any], wiring: Wiring, seen: Observer) -> Given:
    """The answer, with the passages that it was made from."""
    answer = read_answer(said, question, wiring, seen)
    nodes = getattr(said, "source_nodes", None)
    if isinstance(nodes, list) and nodes:
        answer = answer._replace(passages=passages_of(nodes))
        watch = watched()
        if watch is not None and not watch.searches:  # an engine with a search of its own kind
            seen.found(question["text"], answer.passages, type(said).__name__)
    return answer
