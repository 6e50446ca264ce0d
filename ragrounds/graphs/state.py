"""What the built-in graphs share: how they are joined, their nodes' state, the reading of an agent's parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

Graph: TypeAlias = "StateGraph[Any, Any, Any, Any]"
ContextT = TypeVar("ContextT", covariant=True)
START, END = "__start__", "__end__"
"""LangGraph's names of where a graph begins and ends."""
Ways = Mapping[str, str | tuple[Callable[..., Any], list[str]]]
"""Where nodes lead, by their names: to another one, or to what a function gives of those listed: a name, or LangGraph's
`Send` once for each attempt."""


class Runtime(Protocol[ContextT]):
    """What LangGraph hands to a node. Its own class takes half a second to import, and a run is planned by what graphs
    say of themselves: they import LangGraph when they are built."""

    @property
    def context(self) -> ContextT:
        """By which a node asks, searches and reads its parameters."""


def graph_of(
    state: type,
    nodes: Mapping[str, Any],
    ways: Ways = MappingProxyType({}),
    output: type | None = None,
) -> Graph:
    """Join nodes to a graph: each leads to the one that follows it, the last to the end, but where `ways` says another.

    Args:
        state: what travels between the nodes.
        nodes: functions of state and runtime, or compiled graphs, by name.
        ways: by the name of the node that they leave, or ``START``.
        output: what of the state the graph gives; ``None``: all.
    """
    from langgraph.graph import StateGraph

    graph: Graph = StateGraph(state, context_schema=Context, output_schema=output)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for name, following in itertools.pairwise((START, *nodes, END)):
        way = ways.get(name, following)
        if isinstance(way, str):
            graph.add_edge(name, way)
        else:
            graph.add_conditional_edges(name, *way)
    return graph


class State(TypedDict, total=False):
    """What travels between nodes. It holds ids, not passages: those stay with the context."""

    passages: list[str]
    """Ids of passages, best first."""
    answer: str
    """The final text, exactly as the model gave it. Every graph ends with it."""
    choice: str
    """The letter of the option in a final text of the strategy's own form; every scorer of choices takes it."""


def whole(context: Context, name: str, default: int, least: int = 1) -> int:
    """A whole number of at least `least`.

    Raises:
        UserError: it is something else.
    """
    value = context.parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, not {str(value)!r}.")
    return value


def switch(context: Context, name: str, default: bool) -> bool:
    """True or false.

    Raises:
        UserError: it is something else.
    """
    value = context.parameters.get(name, default)
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false, not {str(value)!r}.")
    return value


def word(context: Context, name: str, default: str) -> str:
    """A word, or a spec as its text."""
    return str(context.parameters.get(name, default))
