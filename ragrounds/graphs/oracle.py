"""`oracle`: the gold documents as context: what a perfect retriever would bring (OGCaReBench's oracle setting).

The ids of the gold documents, never the gold answer, reach this graph through `Context.gold_passages`, which refuses
every agent whose file does not say ``oracle = true``. A gold document that the corpus lacks is noted. The options are
seen by `answer` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragrounds.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as PROMPTS
from ragrounds.graphs.state import Runtime, State
from ragrounds.graphs.vanilla_rag import answer

if TYPE_CHECKING:
    from langgraph.graph import StateGraph


def build() -> StateGraph[State, Context, State, State]:
    """START → gold → answer → END."""
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("gold", gold)
    graph.add_node("answer", answer)
    graph.add_edge(START, "gold")
    graph.add_edge("gold", "answer")
    graph.add_edge("answer", END)
    return graph


async def gold(state: State, runtime: Runtime[Context]) -> State:
    """Take the passages of the gold documents."""
    return {"passages": [passage.id for passage in runtime.context.gold_passages()]}
