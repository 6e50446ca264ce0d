"""`critique`: answer, have the answer criticised, revise it, until the critic accepts it or `rounds` (3) are used.

Self-Refine (Madaan et al., 2023), with Reflexion's memory (Shinn et al., 2023, Section 3): a revision sees the last
`memory` (3) critiques. Where Reflexion tests an attempt against the world, the critic here judges by the question
alone: no gold answer is seen. A critique that cannot be read accepts.

Sees the options: `write` and `review`; nothing is searched. Differs: one model writes and criticises, as in
Self-Refine; critiques come as JSON.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.base.text import wellformed
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.shapes import loop, read_object
from ragrounds.graphs.state import Graph, Runtime, int_parameter
from ragrounds.graphs.state import State as Shared
from ragrounds.graphs.voices import numbered, say

PROMPTS = (*ANSWERING, "critique/review", "critique/revise")
_REVIEW = {"critique": {"type": "string"}, "accept": {"type": "boolean"}}


class State(Shared, total=False):
    draft: str
    critiques: list[str]
    revised: int
    """Number of revisions."""
    accepted: bool


def build() -> Graph:
    """Build the graph START → write ⇄ review → answer → END."""

    def over(state: State, context: Context) -> bool:
        return state.get("accepted", False) or state["revised"] >= int_parameter(context, "rounds", 3)

    return loop(State, write, review, leave=(write, review), over=over, answer=answer)


async def write(state: State, runtime: Runtime[Context]) -> State:
    """Ask for an answer, or for a revision by the critic's findings."""
    context, critiques = runtime.context, state.get("critiques", [])
    if not critiques:
        return {"draft": await say(context, "", "answer"), "revised": 0}
    remembered = numbered(critiques[-int_parameter(context, "memory", 3) :])
    sections = {"First answer": state["draft"], "Critiques": remembered}
    return {"draft": await say(context, "critique/revise", "answer", sections), "revised": state["revised"] + 1}


async def review(state: State, runtime: Runtime[Context]) -> State:
    """Ask the critic to judge the answer."""
    context = runtime.context
    reply = await say(context, "critique/review", "question", {"Answer": state["draft"]}, fields=_REVIEW)
    read = read_object(reply)
    if not isinstance(read.get("accept"), bool):
        context.note("unreadable_critique", "the critic's reply says neither yes nor no; the answer is kept")
    if read.get("accept") is not False:
        return {"accepted": True}
    return {"critiques": [*state.get("critiques", []), wellformed(str(read.get("critique") or reply))]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Return the last draft."""
    return {"answer": state["draft"]}
