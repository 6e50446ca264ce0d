"""The forms that a system may have: a LangGraph graph, a function and others, one file a form.

A file's function ``adapts(made, wiring)`` gives the system that an object is, or ``None`` where it is of another form.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from .answers import Wiring
from .callbacks import told_by_langchain
from .errors import Refused
from .factory import FactorySystem, made_by, makes_systems
from .llama_index_events import told_by_llama_index
from .observer import Form, Observer

EXPECTED = (
    "a StateGraph, a compiled graph, an @entrypoint, a LangChain runnable, a function of the question, or a function "
    "without arguments that makes one of these"
)


def adapted(found: object, wiring: Wiring) -> Form:
    """The system that an object is, or that the function makes which it is.

    Raises:
        Refused: it is of no known form, or what the wiring says does not fit it; or it could not be made.
    """
    for adapts in _forms():
        system = adapts(found, wiring)
        if system is not None:
            return system
    if makes_systems(found):
        made = made_by(cast("Callable[..., object]", found), wiring.name)
        return FactorySystem(made, wiring, adapted) if made.each_time else adapted(made.now(), wiring)
    from . import function

    system = function.adapts(found, wiring)
    if system is None:
        raise Refused(f"{wiring.name} gave {type(found).__name__}; expected {EXPECTED}.")
    return system


def _forms() -> Iterator[Callable[[object, Wiring], Form | None]]:
    """The forms, in the order in which they are tried: the most particular first. A function is the last of all.

    What is of a library's form has loaded that library.
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
def heard(seen: Observer) -> Iterator[None]:
    """Tell of what the libraries say that a system does in this context, and in what is begun here."""
    if seen.changes:
        importlib.import_module(".changed", __package__).listen()
    with told_by_langchain(seen), told_by_llama_index(seen):
        yield
