"""`cot_refine`: answer by chain of thought, then refine that answer (MRAG, Appendix C.4, after Self-Refine).

`reason` makes exactly the call of `direct` with ``prompting=cot``, so both share one entry of the journal. `refine`
reads the question, that first answer and, with ``retrieval=true``, documents. The options are seen by `reason` and
`refine`; `retrieve` searches for the question's stem and runs before them, so that nothing of the first answer, which
knows the options, can reach a search.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message, Query
from ragrounds.graphs.answer_prompts import KINDS, answer_prompt, refine_prompt
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.documents import render_documents_for
from ragrounds.graphs.model_text import ending
from ragrounds.graphs.state import START, Graph, Runtime, graph_of, int_parameter, switch
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, *(f"{kind}/{form}" for kind in KINDS for form in ("refine", "refine_rag")))


class State(Shared, total=False):
    first: str
    """Answer by chain of thought, R0 of the paper."""


def build() -> Graph:
    """Build the graph START → (retrieve →) reason → refine → END."""
    nodes = {"retrieve": retrieve, "reason": reason, "refine": refine}
    return graph_of(State, nodes, {START: (_first, ["retrieve", "reason"])})


def _first(state: State, runtime: Runtime[Context]) -> str:
    return "retrieve" if switch(runtime.context, "retrieval", False) else "reason"


async def retrieve(state: State, runtime: Runtime[Context]) -> State:
    """Search for the question's stem."""
    context = runtime.context
    passages = await context.search(Query.from_stem(context.stem), int_parameter(context, "top_k", 8))
    return {"passages": [passage.id for passage in passages]}


async def reason(state: State, runtime: Runtime[Context]) -> State:
    """Ask for an answer by chain of thought."""
    reply = await runtime.context.ask(answer_prompt(runtime.context))
    return {"first": reply.text}


async def refine(state: State, runtime: Runtime[Context]) -> State:
    """Ask for a revision of the first answer, with the documents that fit the window, if any were retrieved."""
    context = runtime.context
    room = context.room(refine_prompt(context, "", None if "passages" not in state else ""))
    # At most half of the free tokens, so that documents have room too.
    first = ending(context, state.get("first", ""), None if room is None else room // 2) or "(empty)"
    documents = None
    if "passages" in state:
        passages = [context.passage(id) for id in state["passages"]]

        def prompt(documents: str) -> tuple[Message, ...]:
            """Render the prompt with these documents."""
            return refine_prompt(context, first, documents)

        documents = render_documents_for(context, passages, prompt)
    reply = await context.ask(refine_prompt(context, first, documents))
    return {"answer": reply.text}
