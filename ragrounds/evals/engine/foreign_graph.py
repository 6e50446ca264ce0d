"""Running a user's own graph: mapped in and out, and, where it does not take our context, watched through callbacks."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs.langchain import PROVIDER
from ragrounds.graphs.user_graph import OwnGraph
from ragrounds.models.langchain import read_usage
from ragrounds.models.prices import listed_price
from ragrounds.records import Usage


class CallbackRecorder(AsyncCallbackHandler):
    """Writes down the model calls of LangChain models that are not ours, with tokens and listed prices.

    Usage is read from the messages, where cached and reasoning tokens are told apart. Answers from LangChain's own
    cache cost nothing.
    """

    raise_error = True
    """An attempt's cap, reached here, must end the graph."""
    run_inline = True
    """No task of its own for every event: there is one for every node."""
    ignore_chain = ignore_retriever = ignore_agent = ignore_custom_event = True

    def __init__(self, session: AttemptContext) -> None:
        self._session = session
        self._begun: dict[UUID, tuple[str, str, float]] = {}
        self.seen = 0

    async def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        known = metadata or {}
        if known.get("ls_provider") == PROVIDER:
            return
        self._session.check_caps()
        model = str(known.get("ls_model_name") or (serialized or {}).get("name") or "unknown")
        self._begun[run_id] = (str(known.get("ls_provider") or ""), model, time.perf_counter())

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        begun = self._begun.pop(run_id, None)
        if begun is None:
            return
        provider, model, start = begun
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = generation.message if isinstance(generation, ChatGeneration) else None
        usage, cached = None, False
        if isinstance(message, AIMessage):
            usage = read_usage(message)
            cached = dict(message.usage_metadata or {}).get("total_cost") == 0
        price = None if usage is None else listed_price(provider, model, usage)
        self.seen += 1
        self._session.observed(
            f"{provider}:{model}" if provider else model,
            time.perf_counter() - start,
            usage,
            price,
            cached=cached,
            text=str(generation.text) if generation else "",
        )

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        begun = self._begun.pop(run_id, None)
        if begun is not None:
            provider, model, start = begun
            self.seen += 1
            self._session.observed(
                f"{provider}:{model}", time.perf_counter() - start, Usage(), None, error=type(error).__name__
            )


async def run_own(own: OwnGraph, session: AttemptContext, longest: int) -> str:
    """Run a user's graph on the session's question and give its answer.

    Raises:
        AttemptEnded: a cap is reached.
    """
    seconds = session.limits.seconds
    observer = CallbackRecorder(session)
    config = {"recursion_limit": longest, "callbacks": [observer]}
    context = session if own.tier == "journaled" else None
    state: Any = {}
    try:
        async with asyncio.timeout(seconds) as clock:
            stream = own.graph.astream(
                own.feed(session.question if own.shows_options else session.item),
                config,
                context=context,
                stream_mode=["tasks"] if own.settled else ["tasks", "values"],
                subgraphs=own.nests,
            )
            async for told in stream:
                space, mode, event = told if own.nests else ((), *told)
                if mode == "values":
                    state = event if not space else state
                elif "result" in event:
                    session.left(event["id"], event["name"], plain(event["result"]), str(event["error"] or ""))
                    if own.settled and not space and isinstance(event["result"], dict):
                        state |= event["result"]
                else:
                    session.entered(event["id"], event["name"])
    except TimeoutError as error:
        if not clock.expired():  # a time-out of the graph's own
            raise
        raise AttemptEnded("capped", f"the attempt's cap of {seconds or 0:g} seconds is reached") from error
    finally:
        if own.tier == "own":
            session.note("tier", "observed through callbacks" if observer.seen else "timed only: no call was seen")
            if not observer.seen:
                session.usage = session.cost_paid = session.cost_uncached = None
    return own.read(state)


def plain(value: Any) -> dict[str, Any]:
    """A node's changes as JSON-able values: messages as role and content, anything else unknown as its text."""
    import msgspec

    if not isinstance(value, dict):
        return {}

    def told(item: Any) -> Any:
        if isinstance(item, BaseMessage):
            return {"role": item.type, "content": item.content, "calls": getattr(item, "tool_calls", [])}
        return repr(item)

    return {str(key): msgspec.to_builtins(item, enc_hook=told) for key, item in value.items()}
