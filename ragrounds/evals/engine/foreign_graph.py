"""Running a user's own graph: its question is mapped in, its answer out.

Where the graph does not take our context, its model calls are recorded through LangChain's callbacks.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from ragrounds.evals.engine.attempt_log import AttemptEnded, StartedCall
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs.langchain import PROVIDER
from ragrounds.graphs.user_graph import UserGraph
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


async def run_user_graph(graph: UserGraph, context: AttemptContext, max_steps: int) -> str:
    """Run a user's graph on the attempt's question and give its answer.

    Where no call of a graph with models of its own was seen, the attempt's tokens and cost become unknown.

    Raises:
        AttemptEnded: a cap is reached, or the graph asked a person (LangGraph's interrupts): nobody is there.
    """
    seconds = context.limits.seconds
    recorder = CallbackRecorder(context)
    state: Any = {}
    modes = ["tasks", *([] if graph.settled else ["values"]), *(["updates"] if _stops_for_a_person(graph) else [])]
    questions: list[str] = []
    """What the graph asked a person."""
    try:
        async with asyncio.timeout(seconds) as clock:
            stream = graph.graph.astream(
                graph.feed(context.question if graph.shows_options else context.item),
                {"recursion_limit": max_steps, "callbacks": [recorder], **_thread(graph)},
                context=context if graph.tier == "journaled" else None,
                stream_mode=modes,
                subgraphs=graph.nests,
            )
            async for streamed in stream:
                space, mode, event = streamed if graph.nests else ((), *streamed)
                if mode == "updates":  # asked for only where the graph may stop at a node
                    questions += ["it stops there to be looked at"] if "__interrupt__" in event else []
                elif mode == "values":
                    state = event if not space else state
                elif "result" in event:
                    questions += [str(asked.get("value", "")) for asked in event.get("interrupts") or ()]
                    context.left(event["id"], event["name"], event["result"], str(event["error"] or ""))
                    if graph.settled and not space and isinstance(event["result"], dict):
                        state |= event["result"]
                else:
                    context.entered(event["id"], event["name"])
    except TimeoutError as error:
        if not clock.expired():  # a time-out of the graph's own
            raise
        raise AttemptEnded("capped", f"the attempt's cap of {seconds or 0:g} seconds is reached") from error
    finally:
        if graph.tier == "own":
            context.note("tier", "observed through callbacks" if recorder.seen else "timed only: no call was seen")
            if not recorder.seen:
                context.usage = context.cost_paid = context.cost_uncached = None
    if questions:
        raise AttemptEnded("paused", f"the system asked a person: {' '.join(questions[0].split())[:300]}")
    return graph.read(state)


def _thread(graph: UserGraph) -> dict[str, Any]:
    """A thread of its own for each attempt, where the graph was compiled with a place to keep threads: LangGraph
    demands one there."""
    return {"configurable": {"thread_id": uuid4().hex}} if getattr(graph.graph, "checkpointer", None) else {}


def _stops_for_a_person(graph: UserGraph) -> bool:
    """Whether the graph was compiled to stop before or after a node, so that somebody may look."""
    return any(getattr(graph.graph, name, ()) for name in ("interrupt_before_nodes", "interrupt_after_nodes"))
