"""Systems that are not ours, each opened in the form it has: a LangGraph graph, a function and others, one file a form.

A file's function ``adapts(made, wiring)`` gives the system that an object is, or ``None`` where it is of another form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from ragrounds.agents.systems import langgraph_graph, place
from ragrounds.agents.systems.answers import Wiring
from ragrounds.contracts import System
from ragrounds.errors import UserError
from ragrounds.graphs import catalogue

if TYPE_CHECKING:
    from ragrounds.agents.agent import Card
    from ragrounds.graphs.catalogue import Graph

EXPECTED = "a StateGraph or a compiled graph, or a function that makes one"


def is_foreign(card: Card) -> bool:
    """Whether an agent is a system of somebody's own, and no graph of ours."""
    return place.is_place(card.graph)


def code_of(card: Card) -> str:
    """The digest of what an agent does: of its graph, or of its system's code."""
    return place.digest(card.graph) if is_foreign(card) else catalogue.digest(card.graph)


def codes_of(card: Card) -> tuple[str, ...]:
    """The digests of code that does what an agent's does now, its own first."""
    return (code_of(card),) if is_foreign(card) else catalogue.same_digests(card.graph)


def prompts_of(card: Card) -> tuple[str, ...]:
    """Name the prompts that an agent's graph may render through the context."""
    return place.prompts(card.graph) if is_foreign(card) else catalogue.prompts_of(card.graph)


def takes_context(card: Card) -> bool:
    """Whether everything that an agent asks goes through the attempt's context: of every built-in graph, and of a
    system of one's own that takes it.

    Raises:
        UserError: the system cannot be opened.
    """
    return not is_foreign(card) or open_system(card).takes_context


def open_system(card: Card) -> System:
    """Open the system of an agent.

    Raises:
        UserError: it does not load, building it fails, it is of no known form, or what the card says does not fit it.
    """
    wiring = Wiring(name=card.graph, input=card.input, output=card.output, nests=card.nests)
    return adapted(made_at(card.graph), wiring)


def made_at(name: str) -> object:
    """What stands at a place, or what the function there makes.

    Raises:
        UserError: no such file or name, the file does not load, or the function fails.
    """
    found = place.named_object(name)
    if any(hasattr(found, method) for method in ("compile", "astream")) or not callable(found):
        return found
    try:
        return found()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name}: building the graph failed: {type(error).__name__}: {error}") from error


def drawable(name: str) -> Graph:
    """The graph that stands at a place, to be drawn.

    Raises:
        UserError: it does not load, or what is there is no graph.
    """
    made = made_at(name)
    if not hasattr(made, "get_graph") and not hasattr(made, "compile"):
        raise UserError(f"{name} gave {type(made).__name__}, which has no graph to draw.")
    return cast("Graph", made)


def adapted(made: object, wiring: Wiring) -> System:
    """The system that an object is.

    Raises:
        UserError: it is of no known form, or what the wiring says does not fit it.
    """
    if isinstance(made, System):
        return made
    for adapts in _forms():
        system = adapts(made, wiring)
        if system is not None:
            return system
    raise UserError(f"{wiring.name} gave {type(made).__name__}; expected {EXPECTED}.")


def _forms() -> Iterator[Callable[[object, Wiring], System | None]]:
    """The forms, in the order in which they are tried: the most particular first."""
    yield langgraph_graph.adapts
