"""`sure`: candidates for the answer, a summary that speaks for each, and a vote among them (SuRe: Kim et al., 2024).

From the passages that the question finds the model writes `candidates` answers. For each it summarises the passages as
support for it, and says whether that summary rightly supports it (1 or 0). Then every two summaries are compared with
each other, in both orders: the one that is more informative for the question gets 1, and ½ if the reply names neither.
The candidate with the highest sum is the answer, the earlier one of equals (Section 3; sums as in FlashRAG's
SuRePipeline). Ten passages and two candidates are those of the authors' code (bbuing9/ICLR24_SuRe).

A reply supports its candidate if its first "true" or "false" is a "true" that no "not" stands before. With
``verdicts=published`` two candidates are weighed as by the authors' program: half the ranking (a winner in both orders,
or in one where the other reply is no choice) and half the verdict, which counts only where one reply holds "True" and
the other "Cannot", "False" or "Unknown".

Sees the options: `answer`, which maps the winner, with its summary as reasoning, to one of them (a long question's
answer is the winner itself). Differs: candidates come as JSON. A candidate that repeats another is left out; with only
one there is nothing to compare. Without any, the question is answered from the passages directly.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Sequence
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import ending, folded, without_thought
from ragrounds.graphs.shapes import answered, concluded, read, read_object, searched, vote
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, *CONCLUDE, *(f"sure/{name}" for name in ("candidates", "summarise", "validate", "rank")))


_VERDICTS = ("read", "published")
_SUPPORTS = re.compile(r"(\bnot\s+(?:\w+\s+){0,3})?\b(true|false)\b", re.IGNORECASE | re.ASCII)
_REJECTS = ("Cannot", "False", "Unknown")


class Backed(TypedDict):
    """Candidate with its support."""

    candidate: str
    summary: str
    verdict: str
    """Reply that says whether the summary supports the candidate."""


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
    verdict = without_thought((await context.ask(prompt(part), role="reading")).text)
    return {"backed": [{"candidate": candidate, "summary": summary, "verdict": verdict}]}


async def rank(state: State, runtime: Runtime[Context]) -> State:
    """Compare every two summaries, in both orders."""
    context, stem, backed = runtime.context, runtime.context.stem, state.get("backed", [])
    is_published, replies = choice(context, "verdicts", _VERDICTS) == "published", list[str]()
    sums = [float(_supports(entry["verdict"])) for entry in backed]
    for left, right in itertools.permutations(range(len(backed)), 2):
        bare = context.prompts.render("sure/rank", stem.language, question=stem.text, first="", second="")
        room = context.room(bare, role="reading")
        first, second = (
            ending(context, backed[index]["summary"], None if room is None else room // 2, role="reading")
            for index in (left, right)
        )
        messages = context.prompts.render("sure/rank", stem.language, question=stem.text, first=first, second=second)
        reply = without_thought((await context.ask(messages, role="reading")).text).casefold()
        replies.append(reply.strip())
        sums[left] += 1.0 if "passage 1" in reply else 0.0 if "passage 2" in reply else 0.5
    if is_published and len(backed) == 2:
        sums = _published_sums(replies, [entry["verdict"] for entry in backed])
    return {"best": max(range(len(sums)), key=lambda index: sums[index], default=-1)}


def _supports(reply: str) -> bool:
    """Return True if a reply says that the summary supports its candidate."""
    match = _SUPPORTS.search(reply)
    return match is not None and (match[2].casefold() == "true") != bool(match[1])


def _published_sums(replies: Sequence[str], verdicts: Sequence[str]) -> list[float]:
    """Return the sums of two candidates from the choices in both orders and the verdicts, as the authors' program."""
    # In the second order the first candidate's summary is Passage 2.
    votes = [
        {first: 1.0, second: 0.0}.get(reply)
        for reply, (first, second) in zip(
            replies, (("passage 1", "passage 2"), ("passage 2", "passage 1")), strict=True
        )
    ]
    clear = [vote for vote in votes if vote is not None]
    share = sum(clear) / len(clear) if clear else 0.5
    is_true, is_rejected = (
        [any(word in verdict for word in words) for verdict in verdicts] for words in (("True",), _REJECTS)
    )
    verdict = None
    if not all(is_true) and not all("False" in verdict for verdict in verdicts):
        verdict = 1.0 if is_true[0] and is_rejected[1] else 0.0 if is_rejected[0] and is_true[1] else None
    first_sum = share if verdict is None else (share + verdict) / 2
    return [first_sum, 1.0 - first_sum]


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Return the winner, or map it to an option."""
    context = runtime.context
    if state["best"] < 0:
        return await answered(context, [context.passage(id) for id in state["passages"]])
    winner = state["backed"][state["best"]]
    return await concluded(context, winner["summary"] or "(none)", winner["candidate"])
