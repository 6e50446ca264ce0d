"""`cot_refine`: answer by chain of thought, then refine that answer (MRAG, Appendix C.4, after Self-Refine).

`reason` makes exactly the call of `direct` with ``prompting=cot``, so both share one entry of the journal. `refine`
reads the question, that first answer and, with ``retrieval=true``, documents. The options are seen by `reason` and
`refine`; `retrieve` searches for the question's stem and runs before them, so that nothing of the first answer, which
knows the options, can reach a search.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import KINDS, refine_prompt
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.documents import render_documents_for
from ragrounds.graphs.model_text import ending
from ragrounds.graphs.shapes import answered, searched
from ragrounds.graphs.state import START, Graph, Runtime, graph_of, int_parameter, switch
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, *(f"{kind}/{form}" for kind in KINDS for form in ("refine", "refine_rag")))


class State(Shared, total=False):
    first: str
    """Answer by chain of thought, R0 of the paper."""


def build() -> Graph:
    """Build the graph START → (retrieve →) reason → refine → END."""
    nodes = {"retrieve": retrieve, "reason": reason, "refine": refine}

    def first(state: State, runtime: Runtime[Context]) -> str:
        return "retrieve" if switch(runtime.context, "retrieval", False) else "reason"

    return graph_of(State, nodes, {START: (first, ["retrieve", "reason"])})


async def retrieve(state: State, runtime: Runtime[Context]) -> State:
    """Search for the question's stem."""
    return {"passages": await searched(runtime.context, int_parameter(runtime.context, "top_k", 8))}


async def reason(state: State, runtime: Runtime[Context]) -> State:
    """Ask for an answer by chain of thought."""
    return {"first": (await answered(runtime.context))["answer"]}


async def refine(state: State, runtime: Runtime[Context]) -> State:
    """Ask for a revision of the first answer, with the documents that fit the window, if any were retrieved."""
    context = runtime.context
    room = context.room(refine_prompt(context, "", "" if "passages" in state else None))
    # At most half of the free tokens, so that documents have room too.
    first = ending(context, state.get("first", ""), None if room is None else room // 2) or "(empty)"
    documents = None
    if "passages" in state:
        passages = [context.passage(id) for id in state["passages"]]
        documents = render_documents_for(context, passages, lambda documents: refine_prompt(context, first, documents))
    return {"answer": (await context.ask(refine_prompt(context, first, documents))).text}
