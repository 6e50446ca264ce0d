"""What LangChain's callbacks tell of a foreign system: models behind which no call at the wire stood, searches, tools.

They give a call its meaning; what is recorded, replayed and paid is decided at the wire.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from ragrounds.contracts import Observation
from ragrounds.evals.engine.attempt_log import AttemptEnded, StartedCall
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.recording.passages import of_documents, of_tool, text_of
from ragrounds.evals.engine.recording.recorder import AttemptRecorder
from ragrounds.models.langchain import read_usage
from ragrounds.models.prices import listed_price
from ragrounds.recorder.observer import PROVIDER
from ragrounds.recorder.wire import MODEL_CALL
from ragrounds.records import Usage
from ragrounds.text import safe

HANDLER: ContextVar[BaseCallbackHandler | None] = ContextVar("ragrounds_callbacks", default=None)
"""Who is told of LangChain's events in this context, also where a system hands no callbacks on."""
register_configure_hook(HANDLER, inheritable=True)
_SHOWN = 2_000
"""Characters of a tool's output that the trace shows."""


class _Asked(NamedTuple):
    actor: str
    provider: str
    model: str
    kind: str
    """The class of the model."""
    call: StartedCall


class _Running(NamedTuple):
    """A search, or a tool, that has begun."""

    name: str
    query: str
    start: float


class CallbackRecorder(BaseCallbackHandler):
    """Handles the events of one attempt, in whatever thread they come."""

    raise_error = True
    """An attempt's cap, reached here, must end the graph."""
    run_inline = True
    """In the context of who makes the call, which then says whose call at the wire it is."""

    def __init__(self, context: AttemptContext, recorder: AttemptRecorder, seen: Observation) -> None:
        self._context = context
        self._recorder = recorder
        self._seen = seen
        self._asked: dict[UUID, _Asked] = {}
        self._running: dict[UUID, _Running] = {}
        self._told: set[UUID] = set()
        """Tools inside which a retriever has told of its passages already."""

    @property
    def ignore_chain(self) -> bool:
        """Nothing is asked of chains."""
        return True

    @property
    def ignore_custom_event(self) -> bool:
        """Nothing is asked of events of the system's own."""
        return True

    @property
    def ignore_retry(self) -> bool:
        """The wire sees what is tried again."""
        return True

    def on_chat_model_start(
        self,
        serialized: Mapping[str, object] | None,
        messages: list[list[BaseMessage]],
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
        try:
            self._context.check_caps()
        except AttemptEnded as capped:
            self._recorder.end(capped)
        kind = str((serialized or {}).get("name") or "unknown")
        provider, model = str(known.get("ls_provider") or ""), str(known.get("ls_model_name") or kind)
        actor = f"{provider}:{model}" if provider else model
        self._asked[run_id] = _Asked(actor, provider, model, kind, self._context.begin_call(actor, "answering"))
        MODEL_CALL.set(str(run_id))

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

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """Count a call that gave a reply, and behind which nothing was seen at the wire."""
        asked = self._asked.pop(run_id, None)
        if asked is None or self._wired(run_id):
            return
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = generation.message if isinstance(generation, ChatGeneration) else None
        usage, cached, note, said = None, False, "", ""
        if isinstance(message, AIMessage):
            usage, note = read_usage(message)
            said = str(message.response_metadata.get("model_name") or "")
            cached = dict(message.usage_metadata or {}).get("total_cost") == 0  # LangChain's own cache
        price = None if usage is None else listed_price(asked.provider, asked.model, usage)
        if generation is not None and generation.text:
            self._context.last_reply = str(generation.text)
        self._context.end_call(asked.call, asked.actor, model=said, cached=cached, usage=usage, price=price)
        if note:
            self._context.note("reply", note)
        self._seen.unseen("an answer of LangChain's cache" if cached else f"a model of class {asked.kind}")

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Count a call that failed: what it cost is not known."""
        asked = self._asked.pop(run_id, None)
        if asked is None or self._wired(run_id) or self._recorder.stop is not None:
            return
        self._context.end_call(asked.call, asked.actor, usage=Usage(), error=type(error).__name__)
        self._context.add_cost(Usage(), None, False)
        self._seen.unseen(f"a model of class {asked.kind}")

    def _wired(self, run_id: UUID) -> bool:
        if MODEL_CALL.get() == str(run_id):
            MODEL_CALL.set("")
        return str(run_id) in self._recorder.wired

    def on_retriever_start(
        self, serialized: Mapping[str, object] | None, query: str, *, run_id: UUID, name: str | None = None, **_: object
    ) -> None:
        """Note that a search begins."""
        called = safe(name or str((serialized or {}).get("name") or "retriever"), 100)
        self._running[run_id] = _Running(called, str(query), time.perf_counter())

    def on_retriever_end(
        self, documents: Sequence[Document], *, run_id: UUID, parent_run_id: UUID | None = None, **_: object
    ) -> None:
        """Tell of what a retriever found."""
        begun = self._running.pop(run_id, None)
        if begun is None:
            return
        if parent_run_id is not None:
            self._told.add(parent_run_id)
        seconds = time.perf_counter() - begun.start
        self._seen.found(begun.query, of_documents(documents), begun.name, seconds=seconds)

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
        name = safe(str((serialized or {}).get("name") or "tool"), 100)
        self._running[run_id] = _Running(name, texts[0] if texts else str(input_str), time.perf_counter())

    def on_tool_end(self, output: object, *, run_id: UUID, parent_run_id: UUID | None = None, **_: object) -> None:
        """Tell of what a tool gave: passages, where it searched."""
        begun = self._running.pop(run_id, None)
        if begun is None:
            return
        given = _short(text_of(output), _SHOWN)
        self._context.note("tool", f"{begun.name}({_short(begun.query, 300)}) gave: {given}")
        passages = [] if run_id in self._told else of_tool(output, begun.name)
        if passages:
            if parent_run_id is not None:  # a tool that hands on what another found has not searched again
                self._told.add(parent_run_id)
            seconds = time.perf_counter() - begun.start
            self._seen.found(begun.query, passages, begun.name, seconds=seconds)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Note a tool that failed."""
        begun = self._running.pop(run_id, None)
        if begun is not None:
            self._context.note(
                "tool_failed", f"{begun.name}({_short(begun.query, 300)}) failed: {type(error).__name__}"
            )


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters)"
