"""Shared parts of the built-in graphs: joining of nodes, the nodes' state, the reading of an agent's parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError, nearest

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

Graph: TypeAlias = "StateGraph[Any, Any, Any, Any]"
ContextT = TypeVar("ContextT", covariant=True)
START, END = "__start__", "__end__"
"""LangGraph's names of a graph's beginning and end."""
Ways = Mapping[str, str | tuple[Callable[..., Any], list[str]]]
"""Targets by the name of the node that they leave: another node, or a function with the names of the possible targets.

The function returns a name, or LangGraph's `Send` once for each attempt.
"""


class Runtime(Protocol[ContextT]):
    """Argument that LangGraph passes to a node.

    Its own class takes half a second to import, and planning a run reads the modules of graphs. So they import
    LangGraph only when they are built.
    """

    @property
    def context(self) -> ContextT:
        """Return the context with which a node asks, searches and reads its parameters."""


def graph_of(
    state: type,
    nodes: Mapping[str, Any],
    ways: Ways = MappingProxyType({}),
    output: type | None = None,
) -> Graph:
    """Join nodes to a graph: each leads to the next, the last to the end, unless `ways` names another target.

    Args:
        state: type of the state between the nodes.
        nodes: functions of state and runtime, or compiled graphs, by name.
        ways: targets by the name of the node that they leave, or ``START``.
        output: part of the state that the graph returns; ``None`` for all.
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
    """State between nodes. It holds ids, not passages, which stay with the context."""

    passages: list[str]
    """Ids of passages, best first."""
    answer: str
    """Final text, exactly as the model wrote it. Every graph ends with it."""
    choice: str
    """Letter of the option in a final text of the strategy's own form. Every scorer of choices uses it."""


def int_parameter(context: Context, name: str, default: int, least: int = 1) -> int:
    """Return a parameter that is a whole number of at least `least`.

    Raises:
        UserError: it is not such a number.
    """
    value = context.parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, not {str(value)!r}.")
    return value


def switch(context: Context, name: str, default: bool) -> bool:
    """Return a parameter that is true or false.

    Raises:
        UserError: it is neither true nor false.
    """
    value = context.parameters.get(name, default)
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false, not {str(value)!r}.")
    return value


def word(context: Context, name: str, default: str) -> str:
    """Return a parameter that is a word, or a spec as its text."""
    return str(context.parameters.get(name, default))


def choice(context: Context, name: str, options: Collection[str]) -> str:
    """Return a parameter that is one of some words, by default the first of them.

    Raises:
        UserError: it is none of these words.
    """
    value = word(context, name, next(iter(options)))
    if value not in options:
        raise UserError(f"Unknown {name} {value!r}.{nearest(value, options)} Known: {', '.join(options)}.")
    return value
