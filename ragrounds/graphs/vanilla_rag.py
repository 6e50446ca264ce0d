"""`vanilla_rag`: retrieve k passages for the question, cut them to the window, answer (MedRAG, MIRAGE Section 3.2).

With ``query_generation=hyde`` (or another way) the graph of that name runs before the retriever. The options are seen
by `answer` alone; `retrieve` searches for the question's stem, or for what was generated from it (question-only
retrieval).
"""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.base.contracts import Context
from ragrounds.base.records import Query
from ragrounds.base.specs import Value
from ragrounds.graphs import query_generation
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import answer_text
from ragrounds.graphs.shapes import answered
from ragrounds.graphs.state import START, Graph, Runtime, graph_of, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, *query_generation.PROMPTS)


class State(Shared, total=False):
    query: str | None
    """Generated query, if any."""
    dense: list[str]


def build() -> Graph:
    """Build the graph START → (query_generation →) retrieve → answer → END."""
    nodes = {"query_generation": query_generation.build().compile(), "retrieve": retrieve, "answer": answer}

    def first(state: State, runtime: Runtime[Context]) -> str:
        return "query_generation" if nests(runtime.context.parameters) else "retrieve"

    return graph_of(State, nodes, {START: (first, ["query_generation", "retrieve"])})


def nests(parameters: Mapping[str, Value]) -> bool:
    """Return True if another graph runs inside this one: see :func:`ragrounds.graphs.catalogue.nests`."""
    return parameters.get("query_generation", "none") != "none"


async def retrieve(state: State, runtime: Runtime[Context]) -> State:
    """Search for the question's stem, or for the generated query."""
    context = runtime.context
    generated = state.get("query")
    # `query_generation` may have run before. Without it the state has no query.
    query = Query.from_stem(context.stem) if generated is None else Query(generated, tuple(state.get("dense", [])))
    k = int_parameter(context, "top_k", 32, least=0)
    passages = await context.search(query, k) if k else ()
    return {"passages": [passage.id for passage in passages]}


async def answer(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the answer with the passages that fit the window."""
    context = runtime.context
    passages = [context.passage(id) for id in state.get("passages", [])]
    return {"answer": answer_text(context, (await answered(context, passages))["answer"])}
