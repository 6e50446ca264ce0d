"""Diagrams of a graph: Mermaid for documents, a tree of text for terminals.

They are rendered from the compiled graph itself.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from langchain_core.runnables.graph import Graph as DrawableGraph

from ragrounds.graphs.catalogue import Graph

START, END = "__start__", "__end__"
_STYLE = re.compile(r"^---\n.*?^---\n|^\t(?:classDef .*|(\w+)\(\1\))\n|:::\w+", re.S | re.M)
"""Pattern of LangGraph's colours and curves, and of nodes whose label is their name.

Mermaid knows these nodes by their arrows.
"""


def mermaid(graph: Graph) -> str:
    """Return the state machine in Mermaid. Dotted arrows are taken by a condition, and subgraphs are framed."""
    diagram = str(_drawable(graph).draw_mermaid()).strip() + "\n"
    return re.sub(r"<p>__(\w+)__</p>", lambda end: end[1].capitalize(), _STYLE.sub("", diagram))


def tree(graph: Graph) -> str:
    """Return the state machine as a tree from its start.

    ``─`` always follows, ``┄`` follows by a condition; a node that is already in the tree is marked ``↺`` and not
    followed again. Nodes of a subgraph are named ``graph:node``.
    """
    ways: dict[str, list[tuple[str, bool]]] = {}
    drawable = _drawable(graph)
    for edge in drawable.edges:
        ways.setdefault(edge.source, []).append((edge.target, edge.conditional))
    first = drawable.first_node()
    start = START if START in ways or first is None else first.id
    lines = [_label(start)]
    _add_branches(start, ways, {start}, "", lines)
    return "\n".join(lines) + "\n"


def _drawable(graph: Any) -> DrawableGraph:
    """Return LangGraph's drawable form of a graph or of a chain."""
    compiled = graph if hasattr(graph, "get_graph") else graph.compile()
    if "xray" in inspect.signature(compiled.get_graph).parameters:
        drawable: DrawableGraph = compiled.get_graph(xray=True)
        return drawable
    chain: DrawableGraph = compiled.get_graph()
    return chain.reid()  # its parts by their names, which are random otherwise


def _add_branches(
    node: str, ways: dict[str, list[tuple[str, bool]]], seen: set[str], indent: str, lines: list[str]
) -> None:
    """Add the lines of a node's targets, and of their targets in turn."""
    # Ways back come first and the way to the end last, so that a loop is next to the node that it returns to.
    targets = sorted(ways.get(node, []), key=lambda way: (way[0] not in seen, way[0] == END, way[0] == "answer"))
    for index, (target, conditional) in enumerate(targets):
        last = index == len(targets) - 1
        arrow = ("└" if last else "├") + ("┄┄ " if conditional else "── ")
        again = target in seen and target != END
        lines.append(f"{indent}{arrow}{_label(target)}{' ↺' if again else ''}")
        if not again:
            seen.add(target)
            _add_branches(target, ways, seen, indent + ("    " if last else "│   "), lines)


def _label(node: str) -> str:
    return node.replace(f":{START}", "").replace(START, "start").replace(END, "end")
