"""`oracle`: the gold documents as context: what a perfect retriever would bring (OGCaReBench's oracle setting).

The ids of the gold documents, never the gold answer, reach this graph through `Context.gold_passages`, which refuses
every agent whose file does not say ``oracle = true``. A gold document that the corpus lacks is noted. The options are
seen by `answer` alone.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as PROMPTS
from ragrounds.graphs.state import Graph, Runtime, State, graph_of
from ragrounds.graphs.vanilla_rag import answer


def build() -> Graph:
    """Build the graph START → gold → answer → END."""
    return graph_of(State, {"gold": gold, "answer": answer})


async def gold(state: State, runtime: Runtime[Context]) -> State:
    """Return the passages of the gold documents."""
    return {"passages": [passage.id for passage in runtime.context.gold_passages()]}
