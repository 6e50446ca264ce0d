"""A function of the question as a system: sync or async, of a text, of a record ``ragrounds.base.records.Question``, of
a dictionary, or of arguments with the usual names."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import types
import typing
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Literal, NamedTuple

from .answers import FIELDS, Wiring, check_fields, fed, is_class, read_answer, refuse_settings, text_of
from .errors import Refused, nearest
from .observer import Given, Observer

MOST_THREADS = 256
"""Functions that are not async and run at the same time, each in a thread: as many attempts as are in flight."""
_TAKES = (
    "A function takes the question's text with its options, or a ragrounds.base.records.Question, or a dictionary; or "
    f"arguments named like the fields: {', '.join(FIELDS)}; or the agent's file says what they get, input = {{ "
    'ARGUMENT = "prompt" }'
)


class _Takes(NamedTuple):
    """How a function is called."""

    way: Literal["prompt", "question", "messages", "mapping", "named"]
    named: Mapping[str, str] = types.MappingProxyType({})
    """Its arguments → the field of the question that each is given."""


class FunctionSystem:
    """A function (:class:`~.observer.Form`)."""

    kind = "function"
    takes_context = False

    def __init__(self, made: Callable[..., object], wiring: Wiring, takes: _Takes) -> None:
        self.made = made
        self._wiring = wiring
        self._takes = takes
        called = made if inspect.isroutine(made) else getattr(made, "__call__", made)  # noqa: B004 - of an object
        self._waits = inspect.iscoroutinefunction(inspect.unwrap(called))

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> Given:
        """Call the function, in a thread where it is not async."""
        given, named = self._arguments(question)
        if self._waits:
            said = self.made(*given, **named)
        else:
            said = await in_thread(lambda: self.made(*given, **named))
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, AsyncIterator):  # an answer that is streamed
            said = "".join([text_of(part) async for part in said])
        elif isinstance(said, Iterator):
            parts = said
            said = await in_thread(lambda: "".join(map(text_of, parts)))
        return read_answer(said, question, self._wiring, seen)

    def _arguments(self, question: Mapping[str, Any]) -> tuple[tuple[object, ...], dict[str, object]]:
        values = fed(question)
        way = self._takes.way
        if way == "named":
            return (), {name: values[given] for name, given in self._takes.named.items()}
        one: object = values if way == "mapping" else values["prompt" if way == "question" else way]
        if way == "question":
            one = question.get("item", one)
        if way == "mapping" and self._wiring.input:
            one = {key: values[given] for key, given in self._wiring.input.items()}
        return (one,), {}


def adapts(made: object, wiring: Wiring) -> FunctionSystem | None:
    """The system of a function, or of an object that can be called; ``None``: it cannot.

    Raises:
        Refused: it cannot be called with a question, or the card says what no function takes.
    """
    if not callable(made):
        return None
    refuse_settings(wiring, "function", "config", "context", "on_interrupt")
    return FunctionSystem(made, wiring, _takes(made, wiring))


def _takes(made: Callable[..., object], wiring: Wiring) -> _Takes:
    """How a function is called with a question.

    Raises:
        Refused: it takes something else.
    """
    name = wiring.name
    check_fields(name, wiring.input.values())
    try:
        parameters = inspect.signature(made).parameters
    except (TypeError, ValueError):  # one written in C does not say
        return _Takes("prompt")
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takes = {key: one for key, one in parameters.items() if one.kind not in stars}
    needed = [key for key, one in takes.items() if one.default is one.empty]
    types_of = _types(made)
    if len(needed) == 1 or (not needed and len(takes) == 1):
        one = needed[0] if needed else next(iter(takes))
        way = _way(types_of.get(one, takes[one].annotation))
        if way == "mapping" and wiring.input and one not in wiring.input:
            return _Takes("mapping")
        if not wiring.input and takes[one].kind is not inspect.Parameter.KEYWORD_ONLY:
            return _Takes(way)
        if not wiring.input:
            return _Takes("named", {one: "prompt"})
    named = dict(wiring.input) or {key: key for key in needed if key in FIELDS}
    if "question" in named and not wiring.input and "options" not in named and "options" in takes:
        named["options"] = "options"
    if not wiring.input:  # options that are wanted as a dictionary
        apart = {key for key in named if key == "options" and key in takes}
        named |= {key: "choices" for key in apart if _way(types_of.get(key, takes[key].annotation)) == "mapping"}
    for key in named:
        if key not in takes:
            raise Refused(f"{name}: it has no argument {key!r}.{nearest(key, takes)} It has: {', '.join(takes)}.")
    if unknown := [key for key in needed if key not in named]:
        raise Refused(f"{name} has the arguments {_words(unknown)}, which match no field of a question. {_TAKES}.")
    if not named:
        raise Refused(f"{name} takes no question. {_TAKES}.")
    return _Takes("named", named)


def _words(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _types(made: Callable[..., object]) -> Mapping[str, object]:
    """The types of its arguments, where they can be told."""
    called = made if inspect.isroutine(made) else getattr(made, "__call__", made)  # noqa: B004 - of an object
    try:
        return typing.get_type_hints(called)
    except Exception:  # a name of a type that is imported for type checkers alone
        return {}


def _way(annotation: object) -> Literal["prompt", "question", "messages", "mapping"]:
    origin = typing.get_origin(annotation)
    if origin is typing.Union or type(annotation).__name__ == "UnionType":  # `X | Y`, from Python 3.10 on
        inside = [one for one in typing.get_args(annotation) if one is not type(None)]
        return "prompt" if str in inside or not inside else _way(inside[0])
    held = origin or annotation
    named = isinstance(annotation, str) and annotation.rpartition(".")[2] == "Question"
    if named or is_class(held, "ragrounds.base.records.Question"):
        return "question"
    if isinstance(held, type) and issubclass(held, Mapping):
        return "mapping"
    if isinstance(held, type) and issubclass(held, (list, tuple)):
        return "messages"
    return "prompt"


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="ragrounds-system")


async def in_thread(work: Callable[[], object]) -> object:
    """Do something that blocks in a thread, which knows the attempt that it belongs to (context variables).

    As :func:`asyncio.to_thread`, whose threads are four more than the processors: fewer than attempts in flight.
    """
    context = contextvars.copy_context()

    def done() -> object:
        """Do it. A `StopIteration` cannot end what a loop waits for: it would wait for ever."""
        try:
            return context.run(work)
        except StopIteration as error:
            raise RuntimeError("the function raised StopIteration") from error

    return await asyncio.get_running_loop().run_in_executor(_threads(), done)
