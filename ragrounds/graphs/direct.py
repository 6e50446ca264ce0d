"""`direct`: the model answers from what it knows; with ``prompting=cot`` it reasons first (MIRAGE's CoT baseline).

The options are seen by `answer`, the only node.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as PROMPTS
from ragrounds.graphs.answer_prompts import answer_prompt
from ragrounds.graphs.model_text import answer_text
from ragrounds.graphs.state import Graph, Runtime, State, graph_of


def build() -> Graph:
    """Build the graph START → answer → END."""
    return graph_of(State, {"answer": answer})


async def answer(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the answer, without documents."""
    reply = await runtime.context.ask(answer_prompt(runtime.context))
    return {"answer": answer_text(runtime.context, reply.text)}
