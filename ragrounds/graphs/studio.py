"""The built-in graphs for LangGraph's dev server and Studio (``langgraph.json``): to look at, not to run.

A graph's context is the attempt that runs it, which a server cannot make; so the schema of it is left out here, and
`ragrounds run` is what runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragrounds.graphs import catalogue


def _opening(name: str) -> Callable[[], Any]:
    def open_graph() -> Any:
        graph = catalogue.build(name).compile(name=name)
        graph.context_schema = None
        return graph

    return open_graph


cot_refine = _opening("cot_refine")
direct = _opening("direct")
i_medrag = _opening("i_medrag")
native_search = _opening("native_search")
oracle = _opening("oracle")
query_generation = _opening("query_generation")
reason_in_documents = _opening("reason_in_documents")
search_o1 = _opening("search_o1")
search_r1 = _opening("search_r1")
tool_agent = _opening("tool_agent")
vanilla_rag = _opening("vanilla_rag")
