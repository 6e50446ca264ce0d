"""The built-in graphs for LangGraph's dev server and Studio (``langgraph.json``): to look at, not to run.

A graph's context is the attempt that runs it, which a server cannot make; so the schema of it is left out here, and
`ragrounds run` is what runs them. ``studio.NAME`` is a function that gives the graph NAME.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragrounds.graphs import catalogue


def __getattr__(name: str) -> Callable[[], Any]:
    """Give the function that compiles the graph `name`."""
    if name not in catalogue.names():
        raise AttributeError(name)

    def open_graph() -> Any:
        """Compile the graph, without the schema of its context."""
        graph = catalogue.build(name).compile(name=name)
        graph.context_schema = None
        return graph

    return open_graph
