"""What LangChain's callbacks tell of the calls of models that are not ours."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from ragrounds.evals.engine.attempt_log import StartedCall
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs.langchain import PROVIDER
from ragrounds.models.langchain import read_usage
from ragrounds.models.prices import listed_price
from ragrounds.records import Usage


class CallbackRecorder(AsyncCallbackHandler):
    """Records the calls of LangChain models that are not ours, with tokens and listed prices.

    Usage is read from the messages, where cached and reasoning tokens are told apart. Answers from LangChain's own
    cache cost nothing.
    """

    raise_error = True
    """An attempt's cap, reached here, must end the graph."""
    run_inline = True
    """No task of its own for every event: there is one for every node."""
    ignore_chain = ignore_retriever = ignore_agent = ignore_custom_event = True

    def __init__(self, context: AttemptContext) -> None:
        self._context = context
        self._begun: dict[UUID, tuple[str, str, StartedCall]] = {}
        self.seen = 0
        """Calls that were recorded."""

    async def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Note that a call begins; a call of our own model is recorded already.

        Raises:
            AttemptEnded: a cap is reached.
        """
        known = metadata or {}
        if known.get("ls_provider") == PROVIDER:
            return
        self._context.check_caps()
        model = str(known.get("ls_model_name") or (serialized or {}).get("name") or "unknown")
        self._begun[run_id] = (str(known.get("ls_provider") or ""), model, self._context.begin_call())

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Record a call that gave a reply."""
        begun = self._begun.pop(run_id, None)
        if begun is None:
            return
        provider, model, call = begun
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = generation.message if isinstance(generation, ChatGeneration) else None
        usage, cached, note, said = None, False, "", ""
        if isinstance(message, AIMessage):
            usage, note = read_usage(message)
            said = str(message.response_metadata.get("model_name") or "")
            cached = dict(message.usage_metadata or {}).get("total_cost") == 0
        price = None if usage is None else listed_price(provider, model, usage)
        self.seen += 1
        if generation is not None and generation.text:
            self._context.last_reply = str(generation.text)
        actor = f"{provider}:{model}" if provider else model
        self._context.end_call(call, actor, model=said, cached=cached, usage=usage, price=price)
        if note:
            self._context.note("reply", note)

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record a call that failed: what it cost is not known."""
        begun = self._begun.pop(run_id, None)
        if begun is not None:
            provider, model, call = begun
            self.seen += 1
            self._context.end_call(call, f"{provider}:{model}", usage=Usage(), error=type(error).__name__)
            self._context.add_cost(Usage(), None, False)
