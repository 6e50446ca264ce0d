"""Draws a diagram in Mermaid's words as SVG: the nodes in a column, each arrow beside it that does not go to the next.

Only what :func:`ragrounds.graphs.diagram.mermaid` writes is read. Arrows down stand on the right, arrows back on the
left, dashed ones are taken by a condition. Colours are those of the page around the picture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

ROW, HEIGHT, LANE, LETTER = 52, 30, 16, 8.2
"""Pixels: between nodes, of a node, between arrows beside each other, of a letter."""
_NODE = re.compile(r"^\s*([\w\\:]+)[(\[]")
_EDGE = re.compile(r"^\s*([\w\\:]+) (-->|-\.->) ([\w\\:]+);")
_SHOWN = {"__start__": "start", "__end__": "end"}
Edge = tuple[str, str, bool]


def diagram_svg(text: str) -> str:
    """The picture of a diagram."""
    nodes, edges = read_diagram(text)
    order = ordered(nodes, edges)
    place = {name: at for at, name in enumerate(order)}
    wide = max(len(shown(name)) for name in order) * LETTER + 28
    lanes = lanes_of(edges, place)
    left = (1 + max([lane for (a, b, _), lane in lanes.items() if place[a] >= place[b]], default=-1)) * LANE
    right = (1 + max([lane for (a, b, _), lane in lanes.items() if place[a] < place[b]], default=-1)) * LANE
    x = left + 12.0
    width, height = x + wide + right + 12, len(order) * ROW - ROW + HEIGHT + 8
    words = ", ".join(f"{shown(a)} to {shown(b)}{' on a condition' if dashed else ''}" for a, b, dashed in edges)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(words)}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
    ]
    for edge in edges:
        parts += _arrow(edge, place, lanes, x, wide)
    for name in order:
        ends = name.endswith(("__start__", "__end__"))
        y, kind = place[name] * ROW + 4, "end" if ends else "node"
        parts.append(
            f'<rect class="{kind}" x="{x:.0f}" y="{y}" width="{wide:.0f}" height="{HEIGHT}" rx="6"/>'
            f'<text x="{x + wide / 2:.0f}" y="{y + HEIGHT / 2 + 5:.0f}">{escape(shown(name))}</text>'
        )
    return "".join([*parts, "</svg>"])


def read_diagram(text: str) -> tuple[list[str], list[Edge]]:
    """The nodes and the arrows; an arrow has its ends and whether it is taken by a condition."""
    nodes: dict[str, None] = {}
    edges: dict[Edge, None] = {}
    for line in text.split("\n"):
        if edge := _EDGE.match(line):
            edges[(edge[1], edge[3], edge[2] != "-->")] = None
            nodes |= {edge[1]: None, edge[3]: None}
        elif node := _NODE.match(line):
            nodes[node[1]] = None
    return list(nodes), list(edges)


def shown(name: str) -> str:
    """A node's name for readers; one of a subgraph begins with the subgraph's."""
    graph, _, own = name.replace("\\3a", ":").rpartition(":")
    return f"{graph}: {_SHOWN.get(own, own)}" if graph else _SHOWN.get(own, own)


def ordered(nodes: Sequence[str], edges: Sequence[Edge]) -> list[str]:
    """The nodes so that arrows go down wherever they can: a node stands after those that lead to it, loops apart."""
    ways: dict[str, list[str]] = {name: [] for name in nodes}
    for source, target, _ in edges:
        ways[source].append(target)
    done: list[str] = []
    seen: set[str] = set()

    def _visit(name: str) -> None:
        if name not in seen:
            seen.add(name)
            for target in reversed(ways[name]):
                _visit(target)
            done.append(name)

    for name in ("__start__", *nodes):
        if name in ways:
            _visit(name)
    found = done[::-1]
    return [name for name in found if name != "__end__"] + [name for name in found if name == "__end__"]


def lanes_of(edges: Sequence[Edge], place: Mapping[str, int]) -> dict[Edge, int]:
    """How far from the column each arrow stands that does not go to the next node: short ones nearest."""
    lanes: dict[Edge, int] = {}
    taken: dict[tuple[bool, int], list[tuple[int, int]]] = {}
    for edge in sorted(edges, key=lambda one: abs(place[one[1]] - place[one[0]])):
        first, last = sorted((place[edge[0]], place[edge[1]]))
        down = place[edge[0]] < place[edge[1]]
        if down and last == first + 1:
            continue
        lane = 0
        while any(
            (first < end and begin < last) or (begin == first and end == last)
            for begin, end in taken.get((down, lane), [])
        ):
            lane += 1
        taken.setdefault((down, lane), []).append((first, last))
        lanes[edge] = lane
    return lanes


def _arrow(edge: Edge, place: Mapping[str, int], lanes: Mapping[Edge, int], x: float, wide: float) -> list[str]:
    """An arrow: a line to the next node, or a line beside the column."""
    source, target, dashed = edge
    kind = ' class="dashed"' if dashed else ""
    y = place[source] * ROW + 4 + HEIGHT
    if edge not in lanes:
        middle, end = x + wide / 2, place[target] * ROW + 4
        return [
            f'<path{kind} d="M{middle:.0f} {y}V{end - 6}"/>',
            f'<path class="head" d="M{middle:.0f} {end}l-5 -8h10z"/>',
        ]
    down = place[source] < place[target]
    side, out = (x + wide, 1) if down else (x, -1)
    far = side + out * (lanes[edge] + 1) * LANE
    begin = place[source] * ROW + 4 + HEIGHT * 0.7
    end = place[target] * ROW + 4 + HEIGHT * 0.3
    turn = 6 * out
    way = 1 if end > begin else -1
    return [
        f'<path{kind} d="M{side:.0f} {begin:.0f}H{far - turn:.0f}q{turn} 0 {turn} {6 * way}'
        f'V{end - 6 * way:.0f}q0 {6 * way} {-turn} {6 * way}H{side + 7 * out:.0f}"/>',
        f'<path class="head" d="M{side:.0f} {end:.0f}l{8 * out} -5v10z"/>',
    ]
