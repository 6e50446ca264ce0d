"""`rationale_query`: search with a rationale, evenly, and read what helps (RAG²: Sohn et al., 2024, Section 3).

The model reasons about the question from what it knows, and that rationale is what is searched for. Every tool that
searches gets it, ``rationale_query[tools=[corpus,pubmed]]``, and gives as much as the others: their lists join rank by
rank, at most `top_k` passages in all (the paper: PubMed, PMC, guidelines and textbooks, by MedCPT). Those that do not
help are left out: `filter` keeps a passage whose score is above `helps`.

Sees the options: `answer`. Differs: the rationale is written without sight of the options; lists join by rank where the
authors rerank them together by MedCPT's cross-encoder (name one with `retriever=`); a model, the reader (`reader=`)
where the agent has one, is asked for all scores in one call as in `crag`, where the authors train Flan-T5 on what
lowers the perplexity of right rationales. Without any passage the question is answered from what the model knows.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.base.records import Query
from ragrounds.graphs import crag
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import without_thought, written_query
from ragrounds.graphs.shapes import answered, by_rank, number
from ragrounds.graphs.state import Graph, Runtime, graph_of, int_parameter, switch
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, "crag/grade")


class State(Shared, total=False):
    query: str
    """Rationale; empty if none was written."""


def build() -> Graph:
    """Build the graph START → reason → search → sift → answer → END."""
    return graph_of(State, {"reason": reason, "search": search, "sift": sift, "answer": answer})


async def reason(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for the rationale."""
    context, stem = runtime.context, runtime.context.stem
    reply = await context.ask(context.prompts.render("long/cot", stem.language, question=stem.text), role="querying")
    rationale = written_query(context, without_thought(reply.text)).text
    if not rationale:
        context.note("nothing_generated", "no rationale was written; the question itself is searched for")
    return {"query": rationale}


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search with the rationale in every tool, and take equally many passages from each."""
    context, k = runtime.context, int_parameter(runtime.context, "top_k", 10)
    query = Query(state["query"]) if state["query"] else Query.from_stem(context.stem)
    indices = range(max(1, len(crag.searching(context))))
    lists = [await crag.found_by(context, query, index) for index in indices]
    return {"passages": by_rank(lists, k)}


async def sift(state: State, runtime: Runtime[Context]) -> State:
    """Leave out passages that do not help."""
    context = runtime.context
    if not switch(context, "filter", True):
        return {}
    scores = await crag.graded(context, [context.passage(id) for id in state["passages"]])
    least = number(context, "helps", 0.0)
    return {"passages": [id for id, score in zip(state["passages"], scores, strict=True) if score > least]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer with the remaining passages."""
    context = runtime.context
    if not state["passages"]:
        context.note("nothing_found", "no passage helps; the question is answered without any")
    return await answered(context, [context.passage(id) for id in state["passages"]] or None)
