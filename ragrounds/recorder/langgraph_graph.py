"""A LangGraph graph as a system: a `StateGraph`, a compiled graph, or an ``@entrypoint`` of the functional API.

The question is mapped to its input, the answer is read from its output, and its steps are reported. Each attempt runs
on a separate thread (in LangGraph's sense), kept in memory. A checkpointer with which the graph was compiled is not
used, so that an evaluation writes nothing into a user's database.
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
    guess_fields,
    is_class,
    plain,
    read_answer,
)
from .callbacks import handlers
from .errors import AskedPerson, Refused, failure, nearest
from .function import options_in_form
from .observer import Observer, SystemAnswer

MOST_ANSWERS = 50
"""Maximum number of answers to a graph that asks a person in one attempt. A graph that asks endlessly is ended."""
_STARTED = "__start__"
_UNNAMED = "?"
"""Id of a request without an id: before LangGraph 0.4, a graph makes one request at a time."""
_STOPPED = "it stops there to be looked at"
"""Request of a graph that was compiled to stop before or after a node."""


class GraphSystem:
    """A compiled graph as a system (:class:`~.observer.Form`)."""

    kind = "LangGraph graph"

    def __init__(self, graph: Any, wiring: Wiring) -> None:
        """Determine the graph's keys.

        Raises:
            Refused: a key is not in the graph's state, no key can be guessed, or a setting of the wiring has no effect.
        """
        from langgraph.channels import LastValue

        self.wrapped = graph
        self._graph, self._wiring = graph, wiring
        builder = getattr(graph, "builder", None)
        channels: Mapping[str, object] = getattr(builder, "channels", {})
        schema = getattr(builder, "context_schema", None) or getattr(graph, "context_schema", None)
        self.takes_context = is_class(schema, "ragrounds.base.contracts.Context")
        self.input: Mapping[str, str] = wiring.input
        self._outputs: list[str] = [wiring.output] if wiring.output else []
        """Keys that may contain the answer. The first non-empty one is used."""
        self._input_field = ""
        """Field of the question that is the whole input, if the input is not a mapping."""
        if builder is None:
            self._resolve_function_keys(getattr(graph, "channels", {}).get(_STARTED))
        else:
            self._resolve_state_keys(builder, [key for key in channels if not key.startswith(("__", "branch:"))])
        check_fields(wiring.name, self.input.values())
        self._check_settings(schema)
        # For these keys the last write is the answer, because no reducer combines it with earlier values.
        read = [*self._outputs, *([wiring.choice.partition(".")[0]] if wiring.choice else [])]
        self._reads_updates = bool(read) and all(isinstance(channels.get(key), LastValue) for key in read)
        # Reading the options through the context ends the searches of an attempt: see `Context.question`.
        self._shows_options = bool(SHOWING & set(self.input.values()))
        self._stops = any(getattr(graph, name, ()) for name in ("interrupt_before_nodes", "interrupt_after_nodes"))
        self._tasks = _tasks_mode()
        self._needs_checkpointer = bool(getattr(graph, "checkpointer", None) or wiring.on_interrupt or wiring.served)
        self._answer_person = _person_function(wiring)
        self._takes_context_argument = "context" in inspect.signature(graph.astream).parameters  # from LangGraph 0.6 on

    def _resolve_state_keys(self, builder: object, keys: list[str]) -> None:
        """Determine the keys of a graph with a state."""
        name, wiring = self._wiring.name, self._wiring
        # Before LangGraph 0.5, the schemas have the second names.
        input_types = _types_of(getattr(builder, "input_schema", None) or getattr(builder, "input", None))
        input_keys = list(input_types) or keys
        output_schema = getattr(builder, "output_schema", None) or getattr(builder, "output", None)
        output_keys = list(_types_of(output_schema)) or keys
        guessed = guess_fields([key for key in input_keys if key in keys or not keys], self.takes_context)
        self.input = wiring.input or options_in_form(guessed, input_types.get("options"))
        if not self.input and len(input_keys) == 1 and not self.takes_context:
            self.input = {input_keys[0]: "prompt"}
        if not self.input and not self.takes_context:
            raise Refused(
                f"{name}: which key takes the question? Set it in the decorator or the agent's file: input = {{ "
                f'{input_keys[0] if input_keys else "KEY"} = "prompt" }}. The state has: {", ".join(keys)}.'
            )
        if not self._outputs:
            only_key = output_keys if len(output_keys) == 1 else []
            self._outputs = [key for key in ANSWERS if key in output_keys] or only_key
            self._outputs = self._outputs or ([wiring.choice] if wiring.choice else [])
        if not self._outputs:
            raise Refused(
                f'{name}: which key holds the answer? Set output = "KEY" in the decorator or the agent\'s file. The '
                f"state has: {', '.join(output_keys)}."
            )
        for path in filter(None, (*self.input, *self._outputs, wiring.choice)):
            key = path.partition(".")[0]
            if keys and key not in keys:
                raise Refused(f"{name}: the state has no key {key!r}.{nearest(key, keys)} It has: {', '.join(keys)}.")

    def _resolve_function_keys(self, start_channel: object) -> None:
        """Determine the input of a function of the functional API, by its type."""
        kind = getattr(start_channel, "typ", None)
        keys = list(_types_of(kind))
        if self.input or (keys and (guess := guess_fields(keys))):
            self.input = self.input or guess
            return
        if keys:
            raise Refused(
                f"{self._wiring.name}: which key takes the question? Set it in the agent's file: input = {{ "
                f'{keys[0]} = "prompt" }}. It takes: {", ".join(keys)}.'
            )
        kind = typing.get_origin(kind) or kind
        if is_class(kind, "ragrounds.base.records.Question"):
            self._input_field = "item"
        elif isinstance(kind, type) and issubclass(kind, dict):
            self.input = {"question": "prompt"}
        else:
            self._input_field = "messages" if isinstance(kind, type) and issubclass(kind, (list, tuple)) else "prompt"

    def _check_settings(self, schema: object) -> None:
        """Check that the graph takes all settings.

        Raises:
            Refused: a setting has no effect.
        """
        name, context = self._wiring.name, self._wiring.context
        if self.takes_context and (context or self._wiring.config):
            raise Refused(f"{name} takes ragrounds' own context: context and config have no effect.")
        if schema is None and context:
            raise Refused(f"{name} has no context_schema: context has no effect on it. Is it meant as config?")
        fields = list(_types_of(schema))
        for key in context:
            if fields and key not in fields:
                listing = ", ".join(fields)
                raise Refused(f"{name}: its context has no {key!r}.{nearest(key, fields)} It has: {listing}.")
        if isinstance(schema, type) and not self.takes_context and not issubclass(schema, dict):
            try:
                schema(**context)
            except Exception as error:
                message = f"{name}: its context cannot be made: {failure(error)}."
                raise Refused(f"{message} Set it with --context KEY=VALUE, or [context] in its file.") from error

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> SystemAnswer:
        """Run the graph on a question.

        Raises:
            AskedPerson: it was interrupted, and no answer is configured; or it asks endlessly.
        """
        graph, config = self._graph, self._config(seen)
        if self._needs_checkpointer:
            from langgraph.checkpoint import memory

            saver = getattr(memory, "InMemorySaver", None) or memory.MemorySaver
            overrides: dict[str, object] = {"checkpointer": saver()}
            if self._wiring.served and getattr(graph, "store", None) is None:
                from langgraph.store.memory import InMemoryStore

                overrides["store"] = InMemoryStore()
            graph = graph.copy(overrides)
        if self.takes_context and self._shows_options:  # reading it there ends the attempt's searches
            question = {**question, "item": seen.context.question}
        graph_input = self._graph_input(question)
        for turn in range(MOST_ANSWERS + 1):
            state, requests = await self._stream(graph, graph_input, config, seen)
            if not requests:
                answer_keys = [key for key in self._outputs if at_path(state, key)] or self._outputs or [""]
                return read_answer(state, question, self._wiring, seen, answer_keys[0])
            if self._answer_person is None or turn == MOST_ANSWERS:
                raise AskedPerson(_as_text(requests[0][1]))
            graph_input = self._resume_command(requests, self._answer_person, seen)
        raise AssertionError("unreachable")

    def _config(self, seen: Observer) -> dict[str, object]:
        graph_config = getattr(self._graph, "config", None) or {}
        configurable = {**self._wiring.config, "thread_id": seen.thread}
        steps = configurable.pop("recursion_limit", graph_config.get("recursion_limit", seen.max_steps))
        if self.takes_context and not self._needs_checkpointer:
            # LangGraph copies these values into the metadata of every node, and nothing reads them.
            return {"recursion_limit": steps, "callbacks": []}
        callbacks = [] if self.takes_context else handlers()
        return {"recursion_limit": steps, "callbacks": callbacks, "configurable": configurable}

    def _graph_input(self, question: Mapping[str, Any]) -> object:
        """Return the graph's input for a question."""
        if self._input_field == "item":
            return question["item"]
        return langchain_input(question, self.input, self._input_field)

    def _resume_command(
        self, requests: Sequence[tuple[str, object]], answer: Callable[[object], object], seen: Observer
    ) -> object:
        """Return the input that resumes the graph: an answer to each request. ``None`` if the graph only stopped."""
        from langgraph.types import Command

        answers = {}
        for id, value in requests:
            if id:
                answers[id] = answer(value)
                seen.note("person", f"asked: {_as_text(value)}\nanswered: {_as_text(answers[id])}")
        return Command(resume=answers.get(_UNNAMED, answers)) if answers else None

    async def _stream(
        self, graph: Any, graph_input: object, config: object, seen: Observer
    ) -> tuple[object, list[tuple[str, object]]]:
        """Run until the graph ends or asks. Return its last state, and its requests to a person, each with its id."""
        modes = [self._tasks, *([] if self._reads_updates else ["values"]), *(["updates"] if self._stops else [])]
        state: object = {}
        updates: dict[str, object] = {}
        requests: dict[str, object] = {}
        nests = self._wiring.nests
        # With a context, fields that have defaults get them, as on a LangGraph server.
        options = {}
        if self._takes_context_argument:
            options["context"] = seen.context if self.takes_context else self._wiring.context
        stream = graph.astream(graph_input, config, stream_mode=modes, subgraphs=nests, **options)
        async for streamed in stream:
            space, mode, event = streamed if nests else ((), *streamed)
            if mode == "updates":  # requested only if the graph may stop at a node
                if event.get("__interrupt__") == ():
                    requests.setdefault("", _STOPPED)
            elif mode == "values":
                state = event if not space else state
            elif mode == "debug" and event["type"] not in ("task", "task_result"):
                continue
            elif "result" in (event := event["payload"] if mode == "debug" else event):
                # A request of a nested graph is reported by each enclosing graph too, with the same id.
                requests |= {
                    str(request.get("id", _UNNAMED)): request.get("value") for request in event.get("interrupts") or ()
                }
                result = event["result"]
                if not isinstance(result, dict):  # before LangGraph 0.6, a list of pairs
                    pairs = result if isinstance(result, (list, tuple)) else ()
                    result = {
                        str(pair[0]): pair[1] for pair in pairs if isinstance(pair, (list, tuple)) and len(pair) == 2
                    }
                # The result of a graph with ragrounds' context contains ragrounds' records, and stays in this process.
                wrote = result if self.takes_context else plain(result)
                seen.left(event["id"], event["name"], cast("Mapping[str, object]", wrote), str(event["error"] or ""))
                if not space:
                    updates |= result
            else:
                seen.entered(event["id"], event["name"], space[-1].rpartition(":")[2] if space else "")
        return updates if self._reads_updates else state, list(requests.items())


def adapts(candidate: object, wiring: Wiring) -> GraphSystem | None:
    """Return the system of a `StateGraph`, a compiled graph or an ``@entrypoint``, or ``None`` for any other object.

    Raises:
        Refused: the wiring does not fit it, or it cannot be compiled.
    """
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    if isinstance(candidate, StateGraph):
        try:
            candidate = candidate.compile()
        except Exception as error:
            raise Refused(f"{wiring.name}: the graph cannot be compiled: {failure(error)}") from error
    return GraphSystem(candidate, wiring) if isinstance(candidate, Pregel) else None


def langchain_input(question: Mapping[str, Any], keys: Mapping[str, str], field: str) -> object:
    """Return a question's `field` as an input, or if that is empty, a mapping of `keys` to fields."""
    values = fed(question)
    return _as_messages(values[field]) if field else {key: _as_messages(values[name]) for key, name in keys.items()}


def _as_messages(value: object) -> object:
    """Convert a list of messages to LangChain's classes, and return anything else unchanged.

    Reducers accept both forms, but code that reads a message's content needs these classes.
    """
    if not isinstance(value, list):
        return value
    from langchain_core.messages import HumanMessage

    return [HumanMessage(str(message["content"])) for message in value]


def _types_of(schema: object) -> Mapping[str, object]:
    """Return the types of a schema's fields, as far as they can be resolved.

    Args:
        schema: a typed dictionary, a dataclass or a pydantic model; anything else has no fields.
    """
    fields = getattr(schema, "model_fields", None) or getattr(schema, "__annotations__", None)
    if not isinstance(schema, type) or not fields or schema.__module__ == "builtins":
        return {}
    if hasattr(schema, "model_fields"):
        return {name: field.annotation for name, field in fields.items()}
    try:
        return typing.get_type_hints(schema)
    except Exception:  # a type that is imported for type checkers only
        return dict.fromkeys(fields)


def _tasks_mode() -> str:
    """Return the stream mode that reports tasks. Before LangGraph 0.6, this is the mode for debuggers."""
    from langgraph import types

    return "tasks" if "tasks" in typing.get_args(getattr(types, "StreamMode", None)) else "debug"


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _person_function(wiring: Wiring) -> Callable[[object], object] | None:
    """Return the function that answers for a person, or ``None``.

    It returns the same value each time (JSON, or else a text), or is a function of the request.
    """
    setting = wiring.on_interrupt
    if not setting:
        return None
    if wiring.person is None:
        try:
            value = json.loads(setting)
        except ValueError:
            value = setting
        return lambda request: value
    if not callable(wiring.person):
        raise Refused(f"{setting} is {type(wiring.person).__name__}; expected a function.")
    if not _takes_one_argument(wiring.person):
        raise Refused(f"{setting}: expected a function of one argument, which is what the graph asked.")
    return wiring.person


def _takes_one_argument(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function written in C has no signature
        return True
    return True
