"""Functions that create a system: without arguments, or with a run's configuration, as a LangGraph server calls
them.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, NamedTuple, cast

from .answers import Wiring
from .errors import Refused, failure
from .observer import Form, Observer, SystemAnswer

_CONFIG = ("config", "RunnableConfig")
"""Names that the only argument of such a function, or its type, may have."""


class Factory(NamedTuple):
    """A function that creates a system."""

    make: Callable[..., object]
    name: str
    config: bool
    """True if it takes the run's configuration."""
    each_time: bool
    """True if it is called for each attempt, because it takes the configuration, is a coroutine, or returns a context
    manager.
    """

    def now(self) -> object:
        """Call it, as a part of opening the system.

        Raises:
            Refused: it raised an exception.
        """
        try:
            return self.make({}) if self.config else self.make()
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"{self.name}: making the system failed: {failure(error)}") from error


def makes_systems(candidate: object) -> bool:
    """Return True if an object is a function or a class that creates a system.

    It requires no argument, or only the run's configuration.
    """
    if not callable(candidate):
        return False
    try:
        needed = _required_parameters(candidate)
    except (TypeError, ValueError):
        return False
    return not needed or (len(needed) == 1 and _is_config(needed[0]))


def describe_factory(candidate: Callable[..., object], name: str) -> Factory:
    """Describe a function for which :func:`makes_systems` is true."""
    config = bool(_required_parameters(candidate))
    wrapped = inspect.unwrap(candidate)
    each_time = config or any(
        is_such(wrapped)
        for is_such in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    )
    return Factory(candidate, name, config, each_time)


def _required_parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Return the parameters that a call must set."""
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [
        parameter for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in stars
    ]


def _is_config(parameter: inspect.Parameter) -> bool:
    type_name = (
        parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "")
    )
    return parameter.name in _CONFIG or type_name.rpartition(".")[2] in _CONFIG


class FactorySystem:
    """A system that is created for each attempt, and closed after it (:class:`~.observer.Form`)."""

    kind = "factory"
    takes_context = False

    def __init__(self, factory: Factory, wiring: Wiring, adapted: Callable[[object, Wiring], Form]) -> None:
        self.wrapped = factory.make
        self._factory, self._wiring, self._adapt = factory, wiring, adapted

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> SystemAnswer:
        """Create the system, and let it answer."""
        config = {"configurable": {"thread_id": seen.thread, **self._wiring.config}}
        # An exception here is the attempt's failure, as if the system itself had raised it.
        output = self.wrapped(config) if self._factory.config else self.wrapped()
        async with _open_system(output) as system:
            return await self._adapt(system, self._wiring).answer(question, seen)


@contextlib.asynccontextmanager
async def _open_system(produced: object) -> AsyncIterator[object]:
    """Await a coroutine or enter a context manager, and yield the resulting system."""
    if inspect.isawaitable(produced):
        produced = await cast("Awaitable[object]", produced)
    # A compiled graph is not a context manager; a context manager may contain a graph.
    if isinstance(produced, AbstractAsyncContextManager):
        async with produced as inside:
            yield inside
    elif isinstance(produced, AbstractContextManager):
        with produced as inside:
            yield inside
    else:
        yield produced
