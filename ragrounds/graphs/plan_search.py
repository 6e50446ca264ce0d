"""`plan_search`: plan the searches, make them at the same time, write the answer: what deep-research agents do.

The model breaks the question into at most `queries` parts and writes a query for each. Every query is searched for and
what it finds is digested, all at the same time (LangGraph's `Send`). With `rounds` above 1 the next plan sees what is
known and asks for what is lacking; a plan without new queries ends that. The answer is written from the digests. No one
paper is followed.

Sees the options: `answer`. Limits: `rounds` plans of `queries` queries; nothing runs beyond them.
"""

from __future__ import annotations

import operator
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import ending, folded, written_query
from ragrounds.graphs.shapes import answered, ask_object, read, read_object, vote
from ragrounds.graphs.state import Graph, Runtime, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, "plan_search/plan", "plan_search/digest")


class Digest(TypedDict):
    """Query and digest of its documents."""

    query: str
    text: str


class State(Shared, total=False):
    planned: list[str]
    """Queries of the last plan."""
    query: str
    """Query of one search."""
    findings: Annotated[list[Digest], operator.add]
    rounds: int


def build() -> Graph:
    """Build the graph START → plan → look_up, for each query → gather (→ plan) → answer → END."""

    def after_searches(state: State, runtime: Runtime[Context]) -> str:
        over = not state["planned"] or state["rounds"] >= int_parameter(runtime.context, "rounds", 1)
        return "answer" if over else "plan"

    return vote(
        State,
        plan,
        attempts=lambda state, context: [{"query": query} for query in state["planned"]],
        attempt=look_up,
        after=[gather, answer],
        more={"gather": (after_searches, ["plan", "answer"])},
    )


async def plan(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for queries. Repeated queries are left out and noted."""
    context, stem, query_limit = runtime.context, runtime.context.stem, int_parameter(runtime.context, "queries", 4)

    def prompt(findings: str) -> tuple[Message, ...]:
        """Render the prompt with the findings so far."""
        values = {"question": stem.text, "number": str(query_limit), "known": findings}
        return context.prompts.render("plan_search/plan", stem.language, **values)

    findings = ending(context, _findings_text(state), context.room(prompt("-"), role="querying"), role="querying")
    queries = {"type": "array", "items": {"type": "string"}, "maxItems": query_limit}
    fields = {"analysis": {"type": "string"}, "queries": queries}
    listed = read_object(await ask_object(context, prompt(findings), fields, role="querying")).get("queries")
    previous = {folded(finding["query"]) for finding in state.get("findings", [])}
    planned: list[str] = []
    for text in listed if isinstance(listed, list) else []:
        query = written_query(context, text).text if isinstance(text, str) else ""
        if folded(query) in previous:
            context.note("repeated_query", query[:200])
        elif query and len(planned) < query_limit:
            planned.append(query)
            previous.add(folded(query))
    rounds = state.get("rounds", 0) + 1
    if not planned:
        context.note("no_queries", f"plan {rounds} gave no new query that could be read")
        planned = [] if previous else [stem.text]
    return {"planned": planned, "rounds": rounds}


async def look_up(state: State, runtime: Runtime[Context]) -> State:
    """Search for one query and ask the model for a digest of the passages."""
    context, query = runtime.context, state["query"]
    passages = await context.search(written_query(context, query), int_parameter(context, "top_k", 5))
    text = await read(context, "plan_search/digest", passages, query=query) if passages else ""
    return {"findings": [{"query": query, "text": text or "(nothing found)"}]}


async def gather(state: State, runtime: Runtime[Context]) -> State:
    """Wait for all searches of a plan."""
    return {}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer with the digests in place of documents."""
    return await answered(runtime.context, _findings_text(state))


def _findings_text(state: State) -> str:
    """Return the queries and digests so far as text."""
    return "\n\n".join(f"Query: {finding['query']}\nFound: {finding['text']}" for finding in state.get("findings", []))
