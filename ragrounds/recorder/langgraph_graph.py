"""A LangGraph graph as a system: a `StateGraph`, a compiled graph, or an ``@entrypoint`` of the functional API.

Its question is mapped in, its answer out, its steps are told. It runs on a thread of its own for each attempt, kept in
memory: where the graph was compiled with a checkpointer, that one is left alone, so that an evaluation writes nothing
into anybody's database.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .answers import (
    ANSWERS,
    SHOWING,
    Wiring,
    at_path,
    check_fields,
    fed,
    guessed,
    is_class,
    plain,
    read_answer,
)
from .callbacks import handlers
from .errors import AskedPerson, Refused, failure, nearest
from .observer import Given, Observer

MOST_ANSWERS = 50
"""Times that one attempt is answered where it asks a person: a graph that asks for ever is ended."""
_STARTED, _ENDED = "__start__", "__end__"
_UNNAMED = "?"
"""The id of a question that has none: before LangGraph 0.4 a graph asks one at a time."""
_STOPPED = "it stops there to be looked at"
"""What a graph asks that was compiled to stop before or after a node."""


class GraphSystem:
    """A compiled graph, ready to run (:class:`~.observer.Form`)."""

    kind = "LangGraph graph"

    def __init__(self, graph: Any, wiring: Wiring) -> None:
        """Settle the graph's keys.

        Raises:
            Refused: a key is not in the graph's state, no key can be guessed, or what the wiring sets has no effect.
        """
        from langgraph.channels import LastValue

        self.made = graph
        self._graph, self._wiring = graph, wiring
        builder = getattr(graph, "builder", None)
        channels: Mapping[str, object] = getattr(builder, "channels", {})
        schema = getattr(builder, "context_schema", None) or getattr(graph, "context_schema", None)
        self.takes_context = is_class(schema, "ragrounds.base.contracts.Context")
        self.input: Mapping[str, str] = wiring.input
        self._outputs: list[str] = [wiring.output] if wiring.output else []
        """The keys that hold the answer: the first that holds anything does."""
        self._whole = ""
        """What the input is where it is no mapping: a field of the question."""
        if builder is None:
            self._settle_function(getattr(graph, "channels", {}).get(_STARTED))
        else:
            self._settle_state(builder, [key for key in channels if not key.startswith(("__", "branch:"))])
        check_fields(wiring.name, self.input.values())
        self._check_settings(schema)
        # The last write is the answer: no reducer adds to what stood there.
        read = [*self._outputs, *([wiring.choice.partition(".")[0]] if wiring.choice else [])]
        self._settled = bool(read) and all(isinstance(channels.get(key), LastValue) for key in read)
        # Reading the options through the context ends an attempt's searching: see there.
        self._shows_options = bool(SHOWING & set(self.input.values()))
        self._stops = any(getattr(graph, name, ()) for name in ("interrupt_before_nodes", "interrupt_after_nodes"))
        self._tasks = _tasks_mode()
        self._keeps = bool(getattr(graph, "checkpointer", None)) or bool(wiring.on_interrupt) or wiring.served
        self._answer_person = _person(wiring)
        self._contexts = "context" in inspect.signature(graph.astream).parameters  # from LangGraph 0.6 on

    def _settle_state(self, builder: object, keys: list[str]) -> None:
        """The keys of a graph with a state."""
        name, own = self._wiring.name, self._wiring
        # Before LangGraph 0.5 the schemas are called by the second names.
        taken = _keys_of(getattr(builder, "input_schema", None) or getattr(builder, "input", None)) or keys
        given = _keys_of(getattr(builder, "output_schema", None) or getattr(builder, "output", None)) or keys
        self.input = own.input or guessed([key for key in taken if key in keys or not keys], self.takes_context)
        if not self.input and len(taken) == 1 and not self.takes_context:
            self.input = {taken[0]: "prompt"}
        if not self.input and not self.takes_context:
            raise Refused(
                f"{name}: which key takes the question? Set it in the decorator or the agent's file: input = {{ "
                f'{taken[0] if taken else "KEY"} = "prompt" }}. The state has: {", ".join(keys)}.'
            )
        if not self._outputs:
            self._outputs = [key for key in ANSWERS if key in given] or (given if len(given) == 1 else [])
            self._outputs = self._outputs or ([own.choice] if own.choice else [])
        if not self._outputs:
            raise Refused(
                f'{name}: which key holds the answer? Set output = "KEY" in the decorator or the agent\'s file. The '
                f"state has: {', '.join(given)}."
            )
        for path in filter(None, (*self.input, *self._outputs, own.choice)):
            key = path.partition(".")[0]
            if keys and key not in keys:
                raise Refused(f"{name}: the state has no key {key!r}.{nearest(key, keys)} It has: {', '.join(keys)}.")

    def _settle_function(self, started: object) -> None:
        """What a function of the functional API takes, by its type."""
        held = getattr(started, "typ", None)
        keys = _keys_of(held)
        if self.input or (keys and (guess := guessed(keys))):
            self.input = self.input or guess
            return
        if keys:
            raise Refused(
                f"{self._wiring.name}: which key takes the question? Set it in the agent's file: input = {{ "
                f'{keys[0]} = "prompt" }}. It takes: {", ".join(keys)}.'
            )
        held = typing.get_origin(held) or held
        if is_class(held, "ragrounds.base.records.Question"):
            self._whole = "item"
        elif isinstance(held, type) and issubclass(held, dict):
            self.input = {"question": "prompt"}
        else:
            self._whole = "messages" if isinstance(held, type) and issubclass(held, (list, tuple)) else "prompt"

    def _check_settings(self, schema: object) -> None:
        """Hold what is set to what the graph takes.

        Raises:
            Refused: something is set that has no effect.
        """
        name, context = self._wiring.name, self._wiring.context
        if self.takes_context and (context or self._wiring.config):
            raise Refused(f"{name} takes ragrounds' own context: context and config have no effect.")
        if schema is None and context:
            raise Refused(f"{name} has no context_schema: context has no effect on it. Is it meant as config?")
        known = _keys_of(schema)
        for key in context:
            if known and key not in known:
                there = ", ".join(known)
                raise Refused(f"{name}: its context has no {key!r}.{nearest(key, known)} It has: {there}.")
        if isinstance(schema, type) and not self.takes_context and not issubclass(schema, dict):
            try:
                schema(**context)
            except Exception as error:
                said = f"{name}: its context cannot be made: {failure(error)}."
                raise Refused(f"{said} Set it with --context KEY=VALUE, or [context] in its file.") from error

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> Given:
        """Run the graph on a question.

        Raises:
            AskedPerson: it was interrupted, and nobody was named to answer; or it asks for ever.
        """
        graph, config = self._graph, self._config(seen)
        if self._keeps:
            from langgraph.checkpoint import memory

            saver = getattr(memory, "InMemorySaver", None) or memory.MemorySaver
            kept: dict[str, object] = {"checkpointer": saver()}
            if self._wiring.served and getattr(graph, "store", None) is None:
                from langgraph.store.memory import InMemoryStore

                kept["store"] = InMemoryStore()
            graph = graph.copy(kept)
        if self.takes_context and self._shows_options:  # reading it there ends the attempt's searching
            question = {**question, "item": seen.context.question}
        given = self._given(question)
        for turn in range(MOST_ANSWERS + 1):
            state, asked = await self._streamed(graph, given, config, seen)
            if not asked:
                held = [key for key in self._outputs if at_path(state, key)] or self._outputs or [""]
                return read_answer(state, question, self._wiring, seen, held[0])
            if self._answer_person is None or turn == MOST_ANSWERS:
                raise AskedPerson(_shown(asked[0][1]))
            given = self._resumed(asked, self._answer_person, seen)
        raise AssertionError("unreachable")

    def _config(self, seen: Observer) -> dict[str, object]:
        own = getattr(self._graph, "config", None) or {}
        steps = self._wiring.config.get("recursion_limit", own.get("recursion_limit", seen.max_steps))
        configurable = {key: value for key, value in self._wiring.config.items() if key != "recursion_limit"}
        return {
            "recursion_limit": steps,
            "callbacks": [] if self.takes_context else handlers(),
            "configurable": {**configurable, "thread_id": seen.thread},
        }

    def _given(self, question: Mapping[str, Any]) -> object:
        """The graph's input for a question."""
        if self._whole == "item":
            return question["item"]
        values = {key: as_messages(value) for key, value in fed(question).items()}
        return values[self._whole] if self._whole else {key: values[given] for key, given in self.input.items()}

    def _resumed(
        self, asked: Sequence[tuple[str, object]], answer: Callable[[object], object], seen: Observer
    ) -> object:
        """What goes on with the graph: an answer to each thing that was asked; nothing where it only stopped."""
        from langgraph.types import Command

        answers = {}
        for id, value in asked:
            if id:
                answers[id] = answer(value)
                seen.note("person", f"asked: {_shown(value)}\nanswered: {_shown(answers[id])}")
        return Command(resume=answers.get(_UNNAMED, answers)) if answers else None

    async def _streamed(
        self, graph: Any, given: object, config: object, seen: Observer
    ) -> tuple[object, list[tuple[str, object]]]:
        """Run until the graph ends or asks; give its last state, and what it asked a person, each with its id."""
        modes = [self._tasks, *([] if self._settled else ["values"]), *(["updates"] if self._stops else [])]
        state: object = {}
        written: dict[str, object] = {}
        asked: dict[str, object] = {}
        nests = self._wiring.nests
        # Fields that have defaults get them, as on a LangGraph server: without a context they would not.
        options = {"context": seen.context if self.takes_context else self._wiring.context} if self._contexts else {}
        stream = graph.astream(given, config, stream_mode=modes, subgraphs=nests, **options)
        async for streamed in stream:
            space, mode, event = streamed if nests else ((), *streamed)
            if mode == "updates":  # asked for only where the graph may stop at a node
                if event.get("__interrupt__") == ():
                    asked.setdefault("", _STOPPED)
            elif mode == "values":
                state = event if not space else state
            elif mode == "debug" and event["type"] not in ("task", "task_result"):
                continue
            elif "result" in (event := event["payload"] if mode == "debug" else event):
                # A question of a graph inside is told by each graph around it too, with the same id.
                asked |= {str(one.get("id", _UNNAMED)): one.get("value") for one in event.get("interrupts") or ()}
                result = held if isinstance(held := event["result"], dict) else _written(held)
                # What a graph of our context writes holds our records, and goes no further than this process.
                wrote = result if self.takes_context else plain(result)
                seen.left(event["id"], event["name"], cast("Mapping[str, object]", wrote), str(event["error"] or ""))
                if not space:
                    written |= result
            else:
                seen.entered(event["id"], event["name"], space[-1].rpartition(":")[2] if space else "")
        return written if self._settled else state, list(asked.items())


def adapts(made: object, wiring: Wiring) -> GraphSystem | None:
    """The system of a `StateGraph`, a compiled graph or an ``@entrypoint``.

    Raises:
        Refused: what the wiring says does not fit it, or it cannot be compiled.
    """
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    if isinstance(made, StateGraph):
        try:
            made = made.compile()
        except Exception as error:
            raise Refused(f"{wiring.name}: the graph cannot be compiled: {failure(error)}") from error
    return GraphSystem(made, wiring) if isinstance(made, Pregel) else None


def as_messages(value: object) -> object:
    """A list of messages as LangChain's own; anything else as it is. Reducers take both, code that reads a message's
    content takes these."""
    if not isinstance(value, list):
        return value
    from langchain_core.messages import HumanMessage

    return [HumanMessage(str(each["content"])) for each in value]


def _keys_of(schema: object) -> list[str]:
    """The fields of a schema: a typed dictionary, a dataclass, a pydantic model."""
    fields = getattr(schema, "model_fields", None) or getattr(schema, "__annotations__", None)
    if not isinstance(schema, type) or not fields or schema.__module__ == "builtins":
        return []
    if hasattr(schema, "model_fields"):
        return list(fields)
    try:
        return list(typing.get_type_hints(schema))
    except Exception:  # a name of a type that is imported for type checkers alone
        return list(fields)


def _tasks_mode() -> str:
    """The stream mode that tells of tasks: before LangGraph 0.6, what a debugger is told."""
    from langgraph import types

    return "tasks" if "tasks" in typing.get_args(getattr(types, "StreamMode", None)) else "debug"


def _written(result: object) -> dict[str, object]:
    """What a task wrote, before LangGraph 0.6: it is told as pairs."""
    pairs = result if isinstance(result, (list, tuple)) else ()
    return {str(one[0]): one[1] for one in pairs if isinstance(one, (list, tuple)) and len(one) == 2}


def _shown(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _person(wiring: Wiring) -> Callable[[object], object] | None:
    """Who answers for a person: the same value each time (JSON, or else a text), or a function of what was asked;
    ``None``: nobody."""
    said = wiring.on_interrupt
    if not said:
        return None
    if wiring.person is None:
        try:
            value = json.loads(said)
        except ValueError:
            value = said
        return lambda asked: value
    if not callable(wiring.person):
        raise Refused(f"{said} is {type(wiring.person).__name__}; expected a function.")
    if not _takes_one(wiring.person):
        raise Refused(f"{said}: expected a function of one argument, which is what the graph asked.")
    return wiring.person


def _takes_one(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # one written in C does not say
        return True
    return True
