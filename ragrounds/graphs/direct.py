"""`direct`: the model answers from what it knows; with ``prompting=cot`` it reasons first (MIRAGE's CoT baseline).

The options are seen by `answer`, the only node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragrounds.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as PROMPTS
from ragrounds.graphs.answer_prompts import answer_prompt
from ragrounds.graphs.model_text import answer_text
from ragrounds.graphs.state import Runtime, State

if TYPE_CHECKING:
    from langgraph.graph import StateGraph


def build() -> StateGraph[State, Context, State, State]:
    """START → answer → END."""
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph


async def answer(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the answer, without documents."""
    reply = await runtime.context.ask(answer_prompt(runtime.context))
    return {"answer": answer_text(runtime.context, reply.text)}
