"""Functions that make a system: without arguments, or with a run's configuration, as a LangGraph server calls them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, NamedTuple, cast

from .answers import Wiring
from .errors import Refused, failure
from .observer import Form, Given, Observer

_CONFIG = ("config", "RunnableConfig")
"""How the one argument of such a function is called, or its type."""


class Made(NamedTuple):
    """A function that makes a system."""

    make: Callable[..., object]
    name: str
    config: bool
    """It takes the run's configuration."""
    each_time: bool
    """It is called for each attempt: it takes the configuration, is a coroutine, or gives a context manager."""

    def now(self) -> object:
        """Call it, as a part of opening the system.

        Raises:
            Refused: it raised something.
        """
        try:
            return self.make({}) if self.config else self.make()
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"{self.name}: making the system failed: {failure(error)}") from error


def makes_systems(found: object) -> bool:
    """Whether an object is a function or a class that makes a system: it needs no argument, or the run's configuration
    alone."""
    if not callable(found):
        return False
    try:
        needed = _needed(found)
    except (TypeError, ValueError):
        return False
    return not needed or (len(needed) == 1 and _is_config(needed[0]))


def made_by(found: Callable[..., object], name: str) -> Made:
    """What is known of a function that :func:`makes_systems`."""
    config = bool(_needed(found))
    wrapped = inspect.unwrap(found)
    each_time = config or any(
        is_such(wrapped)
        for is_such in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    )
    return Made(found, name, config, each_time)


def _needed(found: Callable[..., object]) -> list[inspect.Parameter]:
    """The arguments that a call must give."""
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(found).parameters.values()
    return [one for one in given if one.default is one.empty and one.kind not in stars]


def _is_config(one: inspect.Parameter) -> bool:
    said = one.annotation if isinstance(one.annotation, str) else getattr(one.annotation, "__name__", "")
    return one.name in _CONFIG or said.rpartition(".")[2] in _CONFIG


class FactorySystem:
    """A system that is made anew for each attempt, and closed after it (:class:`~.observer.Form`)."""

    kind = "factory"
    takes_context = False

    def __init__(self, made: Made, wiring: Wiring, adapted: Callable[[object, Wiring], Form]) -> None:
        self.made = made.make
        self._made, self._wiring, self._adapted = made, wiring, adapted

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> Given:
        """Make the system, and have it answer."""
        config = {"configurable": {"thread_id": seen.thread, **self._wiring.config}}
        # What it raises is the attempt's failure, as if the system itself had raised it.
        made = self.made(config) if self._made.config else self.made()
        async with _entered(made) as system:
            return await self._adapted(system, self._wiring).answer(question, seen)


@contextlib.asynccontextmanager
async def _entered(made: object) -> AsyncIterator[object]:
    """What a function made, once a coroutine is done or a context is entered."""
    if inspect.isawaitable(made):
        made = await cast("Awaitable[object]", made)
    # A compiled graph is none of these; a graph of a context manager is inside it.
    if isinstance(made, AbstractAsyncContextManager):
        async with made as inside:
            yield inside
    elif isinstance(made, AbstractContextManager):
        with made as inside:
            yield inside
    else:
        yield made
