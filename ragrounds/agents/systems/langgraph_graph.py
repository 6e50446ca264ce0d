"""A LangGraph graph as a system: its question is mapped in, its answer out, its steps are told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, cast

from ragrounds.agents.systems.answers import ANSWERS, SHOWING, Wiring, check_fields, fed, read_answer
from ragrounds.contracts import Context, Observation
from ragrounds.errors import AskedPerson, UserError, nearest
from ragrounds.records import Answer, Question


class Streaming(Protocol):
    """A compiled graph, as far as it is used here."""

    def astream(self, given: object, config: object, **options: object) -> AsyncIterator[Any]:
        """Run on an input; give what happens in each of the stream modes asked for."""


class GraphSystem:
    """A compiled graph, ready to run (contract: :class:`ragrounds.contracts.System`)."""

    kind = "LangGraph graph"

    def __init__(self, graph: Streaming, wiring: Wiring) -> None:
        """Settle the graph's keys.

        Raises:
            UserError: a key is not in the graph's state, or no key can be guessed.
        """
        from langgraph.channels import LastValue

        name = wiring.name
        builder = getattr(graph, "builder", graph)
        channels: Mapping[str, object] = getattr(builder, "channels", {})
        keys = [key for key in channels if not key.startswith(("__", "branch:"))]
        self.takes_context = getattr(builder, "context_schema", None) is Context
        self.input = wiring.input or _guessed(keys, self.takes_context)
        self.output = wiring.output or next((key for key in ANSWERS if key in keys), "")
        if not self.output:
            raise UserError(f"{name}: which key holds the answer? Say output=… in the decorator or the agent's file.")
        for key in (*self.input, self.output):
            if keys and key not in keys:
                raise UserError(f"{name}: the state has no key {key!r}.{nearest(key, keys)} It has: {', '.join(keys)}.")
        check_fields(name, self.input.values())
        self._graph = graph
        self._nests = wiring.nests
        # The last write of `output` is the answer: no reducer adds to what stood there.
        self._settled = isinstance(channels.get(self.output), LastValue)
        # Reading the options through the context ends an attempt's searching: see there.
        self._shows_options = bool(SHOWING & set(self.input.values()))

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Run the graph on a question.

        Raises:
            AskedPerson: it was interrupted.
        """
        if self.takes_context and self._shows_options:
            question = seen.context.question
        values = fed(question)
        config: dict[str, object] = {"recursion_limit": seen.max_steps, "callbacks": list(seen.callbacks)}
        if getattr(self._graph, "checkpointer", None):
            config["configurable"] = {"thread_id": seen.thread}
        stops = any(getattr(self._graph, name, ()) for name in ("interrupt_before_nodes", "interrupt_after_nodes"))
        modes = ["tasks", *([] if self._settled else ["values"]), *(["updates"] if stops else [])]
        state: dict[str, object] = {}
        asked: list[str] = []
        stream = self._graph.astream(
            {key: values[given] for key, given in self.input.items()},
            config,
            context=seen.context if self.takes_context else None,
            stream_mode=modes,
            subgraphs=self._nests,
        )
        async for streamed in stream:
            space, mode, event = streamed if self._nests else ((), *streamed)
            if mode == "updates":  # asked for only where the graph may stop at a node
                asked += ["it stops there to be looked at"] if "__interrupt__" in event else []
            elif mode == "values":
                state = event if not space else state
            elif "result" in event:
                asked += [str(one.get("value", "")) for one in event.get("interrupts") or ()]
                seen.left(event["id"], event["name"], event["result"], str(event["error"] or ""))
                if self._settled and not space and isinstance(event["result"], dict):
                    state |= event["result"]
            else:
                seen.entered(event["id"], event["name"])
        if asked:
            raise AskedPerson(asked[0])
        return read_answer(state, self.output)


def adapts(made: object, wiring: Wiring) -> GraphSystem | None:
    """The system of a `StateGraph` or of a compiled graph.

    Raises:
        UserError: what the wiring says does not fit it.
    """
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    if isinstance(made, StateGraph):
        made = made.compile()
    return GraphSystem(cast("Streaming", made), wiring) if isinstance(made, Pregel) else None


def _guessed(keys: list[str], takes_context: bool) -> dict[str, str]:
    """By the usual names. A graph that takes the context finds the options there."""
    if "question" in keys:
        usual = ("question", "language") if takes_context else ("question", "options", "language")
        return {key: key for key in usual if key in keys}
    return {"messages": "stem" if takes_context else "messages"} if "messages" in keys else {}
