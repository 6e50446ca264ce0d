"""Forms that a system may have: a LangGraph graph, a function and others, one file per form.

A file's function ``adapts(made, wiring)`` returns the system of an object, or ``None`` if the object has another form.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from .answers import Wiring
from .callbacks import observe_langchain
from .errors import Refused
from .factory import FactorySystem, describe_factory, makes_systems
from .llama_index_events import observe_llama_index
from .observer import Form, Observer

EXPECTED = (
    "a StateGraph, a compiled graph, an @entrypoint, a LangChain runnable, a function of the question, or a function "
    "without arguments that makes one of these"
)


def adapted(candidate: object, wiring: Wiring) -> Form:
    """Return the system of an object, or of the result of a function that creates one.

    Raises:
        Refused: it has no known form, the wiring does not fit it, or it could not be created.
    """
    for adapts in _forms():
        system = adapts(candidate, wiring)
        if system is not None:
            return system
    if makes_systems(candidate):
        factory_record = describe_factory(cast("Callable[..., object]", candidate), wiring.name)
        return (
            FactorySystem(factory_record, wiring, adapted)
            if factory_record.each_time
            else adapted(factory_record.now(), wiring)
        )
    from . import function

    system = function.adapts(candidate, wiring)
    if system is None:
        raise Refused(f"{wiring.name} gave {type(candidate).__name__}; expected {EXPECTED}.")
    return system


def _forms() -> Iterator[Callable[[object, Wiring], Form | None]]:
    """Yield the forms in the order in which they are tried: the most specific first. A function is tried last.

    An object of a library's form implies that the library is loaded.
    """
    if "langgraph" in sys.modules:
        from . import langgraph_graph

        yield langgraph_graph.adapts
    from . import dspy_module, llama_index

    yield llama_index.adapts
    yield dspy_module.adapts
    if "langchain_core" in sys.modules:
        from . import runnable

        yield runnable.adapts


@contextmanager
def observe_libraries(seen: Observer) -> Iterator[None]:
    """Report the events that libraries emit for a system in this context, and in tasks that start in it."""
    if seen.changes:
        importlib.import_module(".changed", __package__).listen()
    with observe_langchain(seen), observe_llama_index(seen):
        yield
