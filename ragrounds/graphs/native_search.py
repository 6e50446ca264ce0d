"""`native_search`: the provider searches the web by its own means (OGCaReBench's GPT-4o-search baseline).

What it searched for and read is the provider's secret: one call, no passages, not repeatable from a corpus. The
provider sees the options together with the question, so on multiple choice this is not question-only retrieval; the
agent's file says so.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as PROMPTS
from ragrounds.graphs.answer_prompts import answer_prompt
from ragrounds.graphs.state import Graph, Runtime, State, graph_of


def build() -> Graph:
    """Build the graph START → answer → END."""
    return graph_of(State, {"answer": answer})


async def answer(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the answer, and let the provider search the web."""
    reply = await runtime.context.ask(answer_prompt(runtime.context), web_search=True)
    return {"answer": reply.text}
