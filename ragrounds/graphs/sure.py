"""`sure`: candidates for the answer, a summary that speaks for each, and a vote among them (SuRe: Kim et al., 2024).

From the passages that the question finds the model writes `candidates` answers. For each it summarises the passages as
support for it, and says whether that summary rightly supports it (1 or 0). Then every two summaries are compared with
each other, in both orders: the one that is more informative for the question gets 1, and ½ if the reply names neither.
The candidate with the highest sum is the answer, the earlier one of equals (Section 3; sums as in FlashRAG's
SuRePipeline). Ten passages and two candidates are those of the authors' code (bbuing9/ICLR24_SuRe).

Sees the options: `answer`, which maps the winner, with its summary as reasoning, to one of them (a long question's
answer is the winner itself). Differs: candidates come as JSON. A candidate that repeats another is left out; with only
one there is nothing to compare. Without any, the question is answered from the passages directly.
"""

from __future__ import annotations

import itertools
import operator
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import ending, folded, without_thought
from ragrounds.graphs.shapes import answered, concluded, read, read_object, searched, vote
from ragrounds.graphs.state import Graph, Runtime, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, *CONCLUDE, *(f"sure/{name}" for name in ("candidates", "summarise", "validate", "rank")))


class Backed(TypedDict):
    """Candidate with its support."""

    candidate: str
    summary: str
    valid: bool


class State(Shared, total=False):
    candidates: list[str]
    candidate: str
    """Candidate of one attempt."""
    backed: Annotated[list[Backed], operator.add]
    best: int


def build() -> Graph:
    """Build the graph START → search → propose → summarise, for each candidate → rank → answer → END."""

    def attempts(state: State, context: Context) -> list[State]:
        return [{"passages": state["passages"], "candidate": candidate} for candidate in state["candidates"]]

    return vote(State, search, propose, attempts=attempts, attempt=summarise, after=[rank, answer])


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the question's stem."""
    return {"passages": await searched(runtime.context, int_parameter(runtime.context, "top_k", 10))}


async def propose(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for candidates for the answer."""
    context, limit = runtime.context, int_parameter(runtime.context, "candidates", 2)
    passages = [context.passage(id) for id in state["passages"]]
    reply = await read(context, "sure/candidates", passages, number=str(limit))
    listed = read_object(reply).get("candidates")
    texts = [" ".join(text.split()) for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    # Reversed twice, so that of equal candidates the first stays, in the model's order.
    candidates = list({folded(text): text for text in reversed(texts) if text}.values())[::-1][:limit]
    if not candidates:
        context.note("no_candidates", "no candidate could be read; the question is answered directly")
    return {"candidates": candidates}


async def summarise(state: State, runtime: Runtime[Context]) -> State:
    """Ask for a summary of the passages as support for a candidate, and judge that support."""
    context, stem, candidate = runtime.context, runtime.context.stem, state["candidate"]
    passages = [context.passage(id) for id in state["passages"]]
    summary = await read(context, "sure/summarise", passages, candidate=candidate)

    def prompt(summary: str) -> tuple[Message, ...]:
        """Render the prompt with this summary."""
        values = {"question": stem.text, "candidate": candidate, "summary": summary}
        return context.prompts.render("sure/validate", stem.language, **values)

    part = ending(context, summary, context.room(prompt(""), role="reading"), role="reading")
    reply = without_thought((await context.ask(prompt(part), role="reading")).text)
    return {"backed": [{"candidate": candidate, "summary": summary, "valid": "true" in reply.casefold()}]}


async def rank(state: State, runtime: Runtime[Context]) -> State:
    """Compare every two summaries, in both orders."""
    context, stem, backed = runtime.context, runtime.context.stem, state.get("backed", [])
    sums = [float(entry["valid"]) for entry in backed]
    for left, right in itertools.permutations(range(len(backed)), 2):
        bare = context.prompts.render("sure/rank", stem.language, question=stem.text, first="", second="")
        room = context.room(bare, role="reading")
        first, second = (
            ending(context, backed[index]["summary"], None if room is None else room // 2, role="reading")
            for index in (left, right)
        )
        messages = context.prompts.render("sure/rank", stem.language, question=stem.text, first=first, second=second)
        reply = without_thought((await context.ask(messages, role="reading")).text).casefold()
        sums[left] += 1.0 if "passage 1" in reply else 0.0 if "passage 2" in reply else 0.5
    return {"best": max(range(len(sums)), key=lambda index: sums[index], default=-1)}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Return the winner, or map it to an option."""
    context = runtime.context
    if state["best"] < 0:
        return await answered(context, [context.passage(id) for id in state["passages"]])
    winner = state["backed"][state["best"]]
    return await concluded(context, winner["summary"] or "(none)", winner["candidate"])
