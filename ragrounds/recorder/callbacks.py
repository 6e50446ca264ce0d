"""Events of LangChain's callbacks in a foreign system: searches, tools, and model calls without a recorded HTTP call.

The callbacks give a call its meaning. Recording, replay and cost are decided at the HTTP layer.
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
from .observer import PROVIDER, STEP, Observer, report_search, step_here
from .passages import of_tool, passages_of, text_of
from .wire import MODEL_CALL, ReportedCall, setting

_MAX_SHOWN = 2_000
"""Maximum number of characters of a tool's output in the trace."""


class _ContextHandler:
    """Handler of LangChain's events in this context, even if a system does not pass callbacks on.

    LangChain reads it like a context variable. The handler's class inherits from LangChain's class, and is created once
    that is loaded.
    """

    def __init__(self) -> None:
        self.observer_and_handler: ContextVar[list[Any] | None] = ContextVar("ragrounds_callbacks", default=None)
        """Observer of this context, followed by its handler once LangChain has asked for it."""

    def get(self, default: object = None) -> Any:
        """Return the handler of this context, or ``None`` if nothing observes it."""
        observer_and_handler = self.observer_and_handler.get()
        if observer_and_handler is None:
            return None
        if len(observer_and_handler) == 1:
            observer_and_handler.append(_handler_class()(observer_and_handler[0]))
        return observer_and_handler[1]


_CONTEXT_HANDLER = _ContextHandler()


@contextmanager
def observe_langchain(seen: Observer) -> Iterator[None]:
    """Report the events of LangChain's components in this context, and in tasks that start in it."""
    _listen()
    with setting(_CONTEXT_HANDLER.observer_and_handler, [seen]):
        yield


@cache  # the hooks are installed once, for the rest of the process
def _listen() -> None:
    def begin_in_place(module: ModuleType) -> None:
        manager = module.AsyncCallbackManager
        manager.on_chat_model_start = begins_in_place(manager.on_chat_model_start)
        manager.on_llm_start = begins_in_place(manager.on_llm_start)

    when_loaded(
        "langchain_core.tracers.context",
        lambda module: module.register_configure_hook(_CONTEXT_HANDLER, inheritable=True),
    )
    when_loaded("langchain_core.callbacks.manager", begin_in_place)


def begins_in_place(begin: Callable[..., Awaitable[list[Any]]]) -> Callable[..., Awaitable[list[Any]]]:
    """Let a coroutine's model call begin in the context of its caller.

    Before langchain-core 0.3.51, handlers are called in a separate task, whose context is lost.
    """

    @wraps(begin)
    async def begin_in_context(self: object, *args: Any, **keywords: Any) -> list[Any]:
        runs = await begin(self, *args, **keywords)
        handler = _CONTEXT_HANDLER.get()
        for run in runs if handler else ():
            handler.stand_in(run.run_id)
        return runs

    return begin_in_context


def handlers() -> list[Any]:
    """Return the handlers of this context, for anything that takes callbacks."""
    handler = _CONTEXT_HANDLER.get()
    return [] if handler is None else [handler]


@cache
def _handler_class() -> Any:
    from langchain_core.callbacks import BaseCallbackHandler

    return type("CallbackRecorder", (_Callbacks, BaseCallbackHandler), {})


class _RunningCall(NamedTuple):
    """A search, or a tool, that has begun."""

    name: str
    query: str
    start: float


class _Callbacks:
    """Handler of the events of one attempt, in any thread."""

    raise_error = True
    """True, because reaching a cap of the attempt must end the graph."""
    run_inline = True
    """True, so that handlers run in the caller's context, which identifies the model call of a later HTTP call."""
    ignore_chain = ignore_custom_event = ignore_retry = True
    """True, because retries are seen at the HTTP layer."""

    def __init__(self, seen: Observer) -> None:
        self._seen = seen
        self._open_calls: dict[UUID, tuple[str, ReportedCall]] = {}
        """Running model calls with the step that was set for each. The step is empty if it was already known."""
        self._running: dict[UUID, _RunningCall] = {}
        self._reported: set[UUID] = set()
        """Tools inside which a retriever has already reported its passages."""

    def on_chat_model_start(
        self,
        serialized: Mapping[str, object] | None,
        messages: list[list[Any]],
        *,
        run_id: UUID,
        metadata: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        """Record that a call begins. A call of ragrounds' own model is already recorded.

        Raises:
            Unsent: a cap is reached.
        """
        known_metadata = metadata or {}
        if known_metadata.get("ls_provider") == PROVIDER:
            return
        kind = str((serialized or {}).get("name") or "unknown")
        provider, model = str(known_metadata.get("ls_provider") or ""), str(known_metadata.get("ls_model_name") or kind)
        # Before Python 3.11, no context variable contains the LangGraph node in which a coroutine runs.
        step = "" if step_here() else str(known_metadata.get("langgraph_checkpoint_ns") or "")
        if step:
            STEP.set(step)
        self._seen.model_started(str(run_id), provider, model, kind)
        self._open_calls[run_id] = step, ReportedCall(str(run_id))

    def stand_in(self, run_id: UUID) -> None:
        """Set a running call as the model call of this context."""
        step, call = self._open_calls.get(run_id, ("", None))
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
        """Do the same for a model that takes a text."""
        self.on_chat_model_start(serialized, [], run_id=run_id, metadata=metadata)

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: object) -> None:
        """Report a call that returned a reply."""
        if not self._ended(run_id):
            return
        generation = at_path(response.generations, "0.0")
        usage = at_path(generation, "message.usage_metadata")
        reported_usage = usage if isinstance(usage, Mapping) else None
        self._seen.model_ended(
            str(run_id),
            text=str(at_path(generation, "text") or ""),
            model=str(at_path(generation, "message.response_metadata.model_name") or ""),
            usage=None if reported_usage is None else {str(key): value for key, value in reported_usage.items()},
            # A cost of 0 marks a reply from LangChain's own cache.
            cached=reported_usage is not None and reported_usage.get("total_cost") == 0,
        )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Report a call that failed."""
        if self._ended(run_id):
            self._seen.model_ended(str(run_id), error=type(error).__name__)

    def _ended(self, run_id: UUID) -> bool:
        """Remove an ending call. Return True if its start was recorded."""
        step, call = self._open_calls.pop(run_id, ("", None))
        if call is None:
            return False
        if step and STEP.get() == step:
            STEP.set("")
        call.end()
        return True

    def on_retriever_start(
        self, serialized: Mapping[str, object] | None, query: str, *, run_id: UUID, name: str | None = None, **_: object
    ) -> None:
        """Record that a search begins."""
        called = name or str((serialized or {}).get("name") or "retriever")
        self._running[run_id] = _RunningCall(called, str(query), time.perf_counter())

    def on_retriever_end(
        self, documents: Sequence[Any], *, run_id: UUID, parent_run_id: UUID | None = None, **_: object
    ) -> None:
        """Report the results of a retriever."""
        search = self._running.pop(run_id, None)
        if search is None:
            return
        if parent_run_id is not None:
            self._reported.add(parent_run_id)
        seconds = time.perf_counter() - search.start
        report_search(self._seen, search.query, passages_of(documents), search.name, seconds=seconds)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Remove a search that failed."""
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
        """Record that a tool begins."""
        texts = [value for value in (inputs or {}).values() if isinstance(value, str)]
        name = str((serialized or {}).get("name") or "tool")
        self._running[run_id] = _RunningCall(name, texts[0] if texts else str(input_str), time.perf_counter())

    def on_tool_end(self, output: object, *, run_id: UUID, parent_run_id: UUID | None = None, **_: object) -> None:
        """Report the output of a tool: passages, if it searched."""
        tool = self._running.pop(run_id, None)
        if tool is None:
            return
        shown_output = _short(text_of(output), _MAX_SHOWN)
        self._seen.note("tool", f"{tool.name}({_short(tool.query, 300)}) gave: {shown_output}")
        if run_id in self._reported:
            self._seen.handed_on(tool.query)
        passages = [] if run_id in self._reported else of_tool(output, tool.name)
        if passages:
            if parent_run_id is not None:  # a tool that passes on another's results has not searched again
                self._reported.add(parent_run_id)
            seconds = time.perf_counter() - tool.start
            report_search(self._seen, tool.query, passages, tool.name, seconds=seconds)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Report a tool that failed."""
        tool = self._running.pop(run_id, None)
        if tool is not None:
            self._seen.note("tool_failed", f"{tool.name}({_short(tool.query, 300)}) failed: {type(error).__name__}")


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters)"
