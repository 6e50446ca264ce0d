"""`iter_retgen`: search, write, search with what was written, write anew (Iter-RetGen: Shao et al., 2023).

Round 1 searches for the question, every later one for the text of the round before, followed by the question. Each
round writes its text from the passages of its own search alone. After `rounds` searches the text is the answer; with
``rounds=1`` this is `vanilla_rag`. Two rounds of five passages are what FlexRAG's reproduction takes; FlashRAG's takes
three rounds.

Sees the options: `answer`, the last round's text. Differs: the texts of earlier rounds are searched for, so they are
written without sight of the options; at most 2,000 characters of a text are searched for. The retriever that the paper
adapts to its generations is a retriever here, not a strategy: name one with `retriever=`.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.base.records import Query
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import written_query
from ragrounds.graphs.shapes import answered, loop, read
from ragrounds.graphs.state import Graph, Runtime, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = ANSWERING


class State(Shared, total=False):
    text: str
    """Text of the last round."""
    rounds: int
    """Number of searches."""


def build() -> Graph:
    """Build the graph START → search ⇄ write, search → answer → END."""

    def over(state: State, context: Context) -> bool:
        return state["rounds"] >= int_parameter(context, "rounds", 2)

    return loop(State, search, write, leave=search, over=over, answer=answer)


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the last text and the question, at first for the question alone."""
    context, text = runtime.context, state.get("text", "")
    query = Query(f"{written_query(context, text).text} {context.stem.text}") if text else Query.from_stem(context.stem)
    passages = await context.search(query, int_parameter(context, "top_k", 5))
    return {"passages": [passage.id for passage in passages], "rounds": state.get("rounds", 0) + 1}


async def write(state: State, runtime: Runtime[Context]) -> State:
    """Write a text for the question from this round's passages."""
    context = runtime.context
    text = await read(context, "long/rag", [context.passage(id) for id in state["passages"]], role="answering")
    if not text:
        context.note("nothing_generated", "the question itself is searched for again")
    return {"text": text}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer with the last round's passages."""
    return await answered(runtime.context, [runtime.context.passage(id) for id in state["passages"]])
