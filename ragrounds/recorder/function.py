"""A function of the question as a system: sync or async, with a text, a record ``ragrounds.base.records.Question``, a
dictionary, or arguments with the usual names.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import types
import typing
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from .answers import FIELDS, AnswerParts, Wiring, check_fields, fed, is_class, read_answer, refuse_settings, text_of
from .errors import Refused, nearest
from .observer import Observer, SystemAnswer

MOST_THREADS = 256
"""Maximum number of synchronous functions that run at the same time, each in a thread: as many as attempts in
flight.
"""
_EXPECTED = (
    "A function takes the question's text with its options, or a ragrounds.base.records.Question, or a dictionary; or "
    f"arguments named like the fields: {', '.join(FIELDS)}; or the agent's file says what they get, input = {{ "
    'ARGUMENT = "prompt" }'
)


class _CallPlan(NamedTuple):
    """Plan of how to call a function."""

    way: Literal["prompt", "question", "messages", "mapping", "named"]
    argument_fields: Mapping[str, str] = types.MappingProxyType({})
    """Mapping from arguments to the question's fields."""


class FunctionSystem:
    """A function as a system (:class:`~.observer.Form`)."""

    kind = "function"
    takes_context = False

    def __init__(self, wrapped: Callable[..., object], wiring: Wiring, takes: _CallPlan) -> None:
        self.wrapped = wrapped
        self._wiring = wiring
        self._call_plan = takes
        called = wrapped if inspect.isroutine(wrapped) else getattr(wrapped, "__call__", wrapped)  # noqa: B004
        self._waits = inspect.iscoroutinefunction(inspect.unwrap(called))

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> SystemAnswer:
        """Call the function, in a thread if it is not async."""
        arguments, keywords = self._arguments(question)
        if self._waits:
            output = self.wrapped(*arguments, **keywords)
        else:
            output = await in_thread(lambda: self.wrapped(*arguments, **keywords))
        if inspect.isawaitable(output):
            output = await output
        if isinstance(output, AsyncIterator):  # an answer that is streamed
            parts = AnswerParts()
            async for part in output:
                parts.add(text_of(part))
            output = parts.text()
        elif isinstance(output, Iterator):
            output = await in_thread(partial(_joined, output))
        return read_answer(output, question, self._wiring, seen)

    def _arguments(self, question: Mapping[str, Any]) -> tuple[tuple[object, ...], dict[str, object]]:
        values = fed(question)
        way = self._call_plan.way
        if way == "named":
            return (), {name: values[field] for name, field in self._call_plan.argument_fields.items()}
        argument: object = values if way == "mapping" else values["prompt" if way == "question" else way]
        if way == "question":
            argument = question.get("item", argument)
        if way == "mapping" and self._wiring.input:
            argument = {key: values[field] for key, field in self._wiring.input.items()}
        return (argument,), {}


def _joined(stream: Iterator[object]) -> str:
    parts = AnswerParts()
    for part in stream:
        parts.add(text_of(part))
    return parts.text()


def adapts(candidate: object, wiring: Wiring) -> FunctionSystem | None:
    """Return the system of a function, or of a callable object. ``None`` if the object is not callable.

    Raises:
        Refused: it cannot be called with a question, or the card sets something that functions do not take.
    """
    if not callable(candidate):
        return None
    refuse_settings(wiring, "function", "config", "context", "on_interrupt")
    return FunctionSystem(candidate, wiring, _call_plan(candidate, wiring))


def _call_plan(function: Callable[..., object], wiring: Wiring) -> _CallPlan:
    """Plan how to call a function with a question.

    Raises:
        Refused: the function takes something else.
    """
    name = wiring.name
    check_fields(name, wiring.input.values())
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function written in C has no signature
        return _CallPlan("prompt")
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takes = {key: parameter for key, parameter in parameters.items() if parameter.kind not in stars}
    needed = [key for key, parameter in takes.items() if parameter.default is parameter.empty]
    types_of = _types(function)
    if len(needed) == 1 or (not needed and len(takes) == 1):
        only_argument = needed[0] if needed else next(iter(takes))
        way = given_form(types_of.get(only_argument, takes[only_argument].annotation))
        if way == "mapping" and wiring.input and only_argument not in wiring.input:
            return _CallPlan("mapping")
        if not wiring.input and takes[only_argument].kind is not inspect.Parameter.KEYWORD_ONLY:
            return _CallPlan(way)
        if not wiring.input:
            return _CallPlan("named", {only_argument: "prompt"})
    fields = dict(wiring.input) or {key: key for key in needed if key in FIELDS}
    if "question" in fields and not wiring.input and "options" not in fields and "options" in takes:
        fields["options"] = "options"
    if not wiring.input and "options" in takes:
        fields = options_in_form(fields, types_of.get("options", takes["options"].annotation))
    for key in fields:
        if key not in takes:
            raise Refused(f"{name}: it has no argument {key!r}.{nearest(key, takes)} It has: {', '.join(takes)}.")
    if unknown := [key for key in needed if key not in fields]:
        arguments = " and ".join(filter(None, [", ".join(unknown[:-1]), unknown[-1]]))
        raise Refused(f"{name} has the arguments {arguments}, which match no field of a question. {_EXPECTED}.")
    if not fields:
        raise Refused(f"{name} takes no question. {_EXPECTED}.")
    return _CallPlan("named", fields)


def _types(function: Callable[..., object]) -> Mapping[str, object]:
    """Return the types of its arguments, as far as they can be resolved."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(called)
    except Exception:  # a type that is imported for type checkers only
        return {}


def options_in_form(fields: dict[str, str], annotation: object) -> dict[str, str]:
    """Return guessed fields with the options as a dictionary if they are annotated so."""
    is_dictionary = "options" in fields and given_form(annotation) == "mapping"
    return {**fields, "options": "choices"} if is_dictionary else fields


def given_form(annotation: object) -> Literal["prompt", "question", "messages", "mapping"]:
    """Return the form in which an argument or a key of a state takes a question, by its type."""
    origin = typing.get_origin(annotation)
    if origin is typing.Union or type(annotation).__name__ == "UnionType":  # `X | Y`, from Python 3.10 on
        inside = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        return "prompt" if str in inside or not inside else given_form(inside[0])
    base = origin or annotation
    is_question_name = isinstance(annotation, str) and annotation.rpartition(".")[2] == "Question"
    if is_question_name or is_class(base, "ragrounds.base.records.Question"):
        return "question"
    if isinstance(base, type) and issubclass(base, Mapping):
        return "mapping"
    if isinstance(base, type) and issubclass(base, (list, tuple)):
        return "messages"
    return "prompt"


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="ragrounds-system")


async def in_thread(work: Callable[[], object]) -> object:
    """Run a blocking function in a thread that keeps the context variables, and so belongs to the same attempt.

    :func:`asyncio.to_thread` would not do: it has four threads more than processors, fewer than attempts in flight.
    """
    context = contextvars.copy_context()

    def done() -> object:
        """Run the function. A `StopIteration` is converted, because an event loop would wait for such a future
        forever.
        """
        try:
            return context.run(work)
        except StopIteration as error:
            raise RuntimeError("the function raised StopIteration") from error

    return await asyncio.get_running_loop().run_in_executor(_threads(), done)
