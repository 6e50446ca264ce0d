"""`vanilla_rag`: retrieve k passages for the question, cut them to the window, answer (MedRAG, MIRAGE Section 3.2).

The options are seen by `answer` alone; `retrieve` searches for the question's stem (question-only retrieval).
"""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.contracts import Context
from ragrounds.graphs.answering import PROMPTS as PROMPTS
from ragrounds.graphs.answering import answer_prompt
from ragrounds.graphs.documents import fitted, ordered, written
from ragrounds.graphs.parameters import whole
from ragrounds.graphs.state import State
from ragrounds.records import Query


def build() -> StateGraph[State, Context, State, State]:
    """START → retrieve → answer → END."""
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("retrieve", retrieve)
    graph.add_node("answer", answer)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "answer")
    graph.add_edge("answer", END)
    return graph


async def retrieve(state: State, runtime: Runtime[Context]) -> State:
    context = runtime.context
    found = await context.search(Query.of(context.stem), whole(context, "top_k", 32))
    return {"passages": [passage.id for passage in found]}


async def answer(state: State, runtime: Runtime[Context]) -> State:
    context = runtime.context
    found = [context.passage(id) for id in state.get("passages", [])]
    kept = fitted(context, found, lambda documents: answer_prompt(context, documents))
    shown = ordered(kept, str(context.parameters.get("order", "best_first")), context.seed)
    reply = await context.ask(answer_prompt(context, written(shown)))
    return {"answer": reply.text}
