"""What LangChain's callbacks tell of a foreign system: models behind which no call at the wire stood, searches, tools.

They give a call its meaning; what is recorded, replayed and paid is decided at the wire.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from types import ModuleType
from typing import Any, NamedTuple
from uuid import UUID

from .answers import at_path
from .loading import when_loaded
from .observer import PROVIDER, STEP, Observer, found, step_here
from .passages import of_tool, passages_of, text_of
from .wire import MODEL_CALL, ToldCall

_SHOWN = 2_000
"""Characters of a tool's output that the trace shows."""


class _Telling:
    """Who is told of LangChain's events in this context, also where a system hands no callbacks on: what LangChain
    looks at as at a context variable. The handler is made of LangChain's own class once that is loaded."""

    def __init__(self) -> None:
        self._seen: ContextVar[list[Any] | None] = ContextVar("ragrounds_callbacks", default=None)

    def get(self, default: object = None) -> Any:
        """The handler of this context; ``None``: nobody is told."""
        held = self._seen.get()
        if held is None:
            return None
        if len(held) == 1:
            held.append(_handler_class()(held[0]))
        return held[1]

    @contextmanager
    def to(self, seen: Observer) -> Iterator[None]:
        """Have `seen` told in this context, and in what is begun here."""
        token = self._seen.set([seen])
        try:
            yield
        finally:
            self._seen.reset(token)


_TELLING = _Telling()


@contextmanager
def told_by_langchain(seen: Observer) -> Iterator[None]:
    """Tell of what LangChain's parts do in this context, and in what is begun here."""
    _listen()
    with _TELLING.to(seen):
        yield


@cache
def _listen() -> None:
    when_loaded("langchain_core.tracers.context", _register)
    when_loaded("langchain_core.callbacks.manager", _begin_in_place)


def _register(module: ModuleType) -> None:
    module.register_configure_hook(_TELLING, inheritable=True)


def _begin_in_place(module: ModuleType) -> None:
    manager = module.AsyncCallbackManager
    manager.on_chat_model_start = begins_in_place(manager.on_chat_model_start)
    manager.on_llm_start = begins_in_place(manager.on_llm_start)


def begins_in_place(begin: Callable[..., Awaitable[list[Any]]]) -> Callable[..., Awaitable[list[Any]]]:
    """Have a coroutine's model call begin in the context of who makes it: before langchain-core 0.3.51, handlers are
    told of it in a task of their own, whose context is lost."""

    @wraps(begin)
    async def begun(self: object, *args: Any, **named: Any) -> list[Any]:
        runs = await begin(self, *args, **named)
        handler = _TELLING.get()
        for run in runs if handler else ():
            handler.stand_in(run.run_id)
        return runs

    return begun


def handlers() -> list[Any]:
    """The handlers of this context, to be given to whatever takes callbacks."""
    handler = _TELLING.get()
    return [] if handler is None else [handler]


@cache
def _handler_class() -> Any:
    from langchain_core.callbacks import BaseCallbackHandler

    return type("CallbackRecorder", (_Callbacks, BaseCallbackHandler), {})


class _Running(NamedTuple):
    """A search, or a tool, that has begun."""

    name: str
    query: str
    start: float


class _Callbacks:
    """Handles the events of one attempt, in whatever thread they come."""

    raise_error = True
    """An attempt's cap, reached here, must end the graph."""
    run_inline = True
    """In the context of who makes the call, which then says whose call at the wire it is."""
    ignore_chain = ignore_custom_event = ignore_retry = True
    """The wire sees what is tried again."""

    def __init__(self, seen: Observer) -> None:
        self._seen = seen
        self._asked: dict[UUID, tuple[str, ToldCall]] = {}
        """Calls to models that go on, and the step that was set for each; empty: it was known."""
        self._running: dict[UUID, _Running] = {}
        self._told: set[UUID] = set()
        """Tools inside which a retriever has told of its passages already."""

    def on_chat_model_start(
        self,
        serialized: Mapping[str, object] | None,
        messages: list[list[Any]],
        *,
        run_id: UUID,
        metadata: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        """Note that a call begins; a call of our own model is recorded already.

        Raises:
            Unsent: a cap is reached.
        """
        known = metadata or {}
        if known.get("ls_provider") == PROVIDER:
            return
        kind = str((serialized or {}).get("name") or "unknown")
        provider, model = str(known.get("ls_provider") or ""), str(known.get("ls_model_name") or kind)
        # Before Python 3.11 no context says in which node of LangGraph's a coroutine runs.
        step = "" if step_here() else str(known.get("langgraph_checkpoint_ns") or "")
        if step:
            STEP.set(step)
        self._seen.model_started(str(run_id), provider, model, kind)
        self._asked[run_id] = step, ToldCall(str(run_id))

    def stand_in(self, run_id: UUID) -> None:
        """Have a call that goes on be the one of this context."""
        step, call = self._asked.get(run_id, ("", None))
        if call is not None:
            MODEL_CALL.set(call)
        if step:
            STEP.set(step)

    def on_llm_start(
        self,
        serialized: Mapping[str, object] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        metadata: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        """The same for a model that takes a text."""
        self.on_chat_model_start(serialized, [], run_id=run_id, metadata=metadata)

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: object) -> None:
        """Tell of a call that gave a reply."""
        if not self._ended(run_id):
            return
        generation = at_path(response.generations, "0.0")
        usage = at_path(generation, "message.usage_metadata")
        told = usage if isinstance(usage, Mapping) else None
        self._seen.model_ended(
            str(run_id),
            text=str(at_path(generation, "text") or ""),
            model=str(at_path(generation, "message.response_metadata.model_name") or ""),
            usage=None if told is None else {str(key): value for key, value in told.items()},
            cached=told is not None and told.get("total_cost") == 0,  # LangChain's own cache
        )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Tell of a call that failed."""
        if self._ended(run_id):
            self._seen.model_ended(str(run_id), error=type(error).__name__)

    def _ended(self, run_id: UUID) -> bool:
        """Whether a call was told of that ends now."""
        step, call = self._asked.pop(run_id, ("", None))
        if call is None:
            return False
        if step and STEP.get() == step:
            STEP.set("")
        call.end()
        return True

    def on_retriever_start(
        self, serialized: Mapping[str, object] | None, query: str, *, run_id: UUID, name: str | None = None, **_: object
    ) -> None:
        """Note that a search begins."""
        called = name or str((serialized or {}).get("name") or "retriever")
        self._running[run_id] = _Running(called, str(query), time.perf_counter())

    def on_retriever_end(
        self, documents: Sequence[Any], *, run_id: UUID, parent_run_id: UUID | None = None, **_: object
    ) -> None:
        """Tell of what a retriever found."""
        begun = self._running.pop(run_id, None)
        if begun is None:
            return
        if parent_run_id is not None:
            self._told.add(parent_run_id)
        seconds = time.perf_counter() - begun.start
        found(self._seen, begun.query, passages_of(documents), begun.name, seconds=seconds)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Forget a search that failed."""
        self._running.pop(run_id, None)

    def on_tool_start(
        self,
        serialized: Mapping[str, object] | None,
        input_str: str,
        *,
        run_id: UUID,
        inputs: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        """Note that a tool begins."""
        texts = [value for value in (inputs or {}).values() if isinstance(value, str)]
        name = str((serialized or {}).get("name") or "tool")
        self._running[run_id] = _Running(name, texts[0] if texts else str(input_str), time.perf_counter())

    def on_tool_end(self, output: object, *, run_id: UUID, parent_run_id: UUID | None = None, **_: object) -> None:
        """Tell of what a tool gave: passages, where it searched."""
        begun = self._running.pop(run_id, None)
        if begun is None:
            return
        given = _short(text_of(output), _SHOWN)
        self._seen.note("tool", f"{begun.name}({_short(begun.query, 300)}) gave: {given}")
        if run_id in self._told:
            self._seen.handed_on(begun.query)
        passages = [] if run_id in self._told else of_tool(output, begun.name)
        if passages:
            if parent_run_id is not None:  # a tool that hands on what another found has not searched again
                self._told.add(parent_run_id)
            seconds = time.perf_counter() - begun.start
            found(self._seen, begun.query, passages, begun.name, seconds=seconds)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Note a tool that failed."""
        begun = self._running.pop(run_id, None)
        if begun is not None:
            self._seen.note("tool_failed", f"{begun.name}({_short(begun.query, 300)}) failed: {type(error).__name__}")


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters)"
