"""Steps know the step inside which they run: a graph inside a node is the node's child, what is parallel is not."""

from __future__ import annotations

from pathlib import Path

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import steps
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import questions

GRAPH = """
import asyncio, operator
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    question: str
    said: Annotated[list, operator.add]
    answer: str

def node(name, seconds=0.0):
    async def run(state):
        await asyncio.sleep(seconds)
        return {"said": [name]}
    return run

inner = StateGraph(State)
inner.add_node("think", node("think", 0.02))
inner.add_node("check", node("check"))
inner.add_edge(START, "think")
inner.add_edge("think", "check")

graph = StateGraph(State)
graph.add_node("research", inner.compile())
graph.add_node("left", node("left", 0.05))
graph.add_node("right", node("right", 0.05))
graph.add_node("answer", lambda state: {"answer": "A"})
graph.add_edge(START, "research")
graph.add_edge("research", "left")
graph.add_edge("research", "right")
graph.add_edge(["left", "right"], "answer")
graph.add_edge("answer", END)
"""


async def test_a_graph_inside_a_node_is_its_child_and_parallel_nodes_stand_beside(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GRAPH)
    asked, golds = questions(1)
    one = planned(store, f"{file}:graph", asked, golds)
    await replayed(store, [one], asked, golds)
    attempt = attempts(store, one.run)["t/0"]
    assert (attempt.status, attempt.text) == ("completed", "A"), attempt.reason
    made = [step for step in steps(attempt.events) if step.node]
    by_index = {step.index: step.node for step in made}
    found = {step.node: by_index.get(step.parent, "") for step in made}
    assert found == {
        "research": "", "think": "research", "check": "research", "left": "", "right": "", "answer": "",
    }  # fmt: skip
    whole = {step.node: step.seconds or 0.0 for step in made}
    assert whole["think"] + whole["check"] <= whole["research"] + 0.001
    left, right = (next(step for step in made if step.node == node) for node in ("left", "right"))
    assert abs(left.at - right.at) < (left.seconds or 0), "they ran side by side"
