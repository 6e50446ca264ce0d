"""`self_rag`: a part of the answer for each passage, in parallel, and the best by its own marks (Self-RAG: Asai et al.,
2023, Section 3.3).

The model says whether a search is needed (``retrieval=adaptive``; or ``always``, ``never``). For each of `top_k`
passages, or for none, it writes the next part of the answer and marks it: whether the passage is relevant, whether it
supports what is written, how useful that is (1 to 5). The part with the highest score is kept, that is w_rel ·
relevance + w_sup · support + w_use · utility. A part that ends in ``[Retrieval]`` is followed by another search, for
the question and that part, up to `segments` parts.

With ``mode=tokens`` a model that was trained so writes its own tokens (selfrag_llama2, by prefix; its server must not
leave special tokens out). Where log probabilities come, marks are weighed by them, a search is needed above
`threshold`, and a part's own probability is added, as in the authors' code, whose numbers these are
(AkariAsai/self-rag: run_short_form.py, threshold 0.2). With ``mode=asked`` any model is asked in words for the same
marks, which then count unweighted.

Sees the options: `answer`, which maps what was written to one of them (a long question's answer is what was written).
Differs: one part is kept at a time, where the authors search by beams of two; they search once, before the first part.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message, Query, Reply
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.continuation import Part, resumed
from ragrounds.graphs.documents import fitted, render_documents
from ragrounds.graphs.model_text import without_thought, written_query
from ragrounds.graphs.shapes import answered, concluded, number, vote
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, *CONCLUDE, "continuing/go_on", "self_rag/decide", "self_rag/write")

NEEDED, RELEVANT = {"[Retrieval]": 1.0, "[No Retrieval]": 0.0}, {"[Relevant]": 1.0, "[Irrelevant]": 0.0}
SUPPORT = {"[Fully supported]": 1.0, "[Partially supported]": 0.5, "[No support / Contradictory]": 0.0}
USE = {f"[Utility:{number}]": (number - 3) / 2 for number in range(1, 6)}
_MARKS = re.compile(
    "|".join(map(re.escape, (*NEEDED, *RELEVANT, *SUPPORT, *USE, "[Continue to Use Evidence]", "</s>")))
)
_WEIGHED = {"w_rel": RELEVANT, "w_sup": SUPPORT, "w_use": USE}
_TOP = 20
_MODES = ("asked", "tokens")


class Segment(TypedDict):
    """Part of the answer, written with one passage, and its score."""

    text: str
    score: float


class State(Shared, total=False):
    passage: str
    """Passage that a part is written with; empty for none."""
    tried: Annotated[list[Segment], operator.add]
    """Parts of all rounds."""
    segments: list[str]
    """Answer so far, with its marks."""


def build() -> Graph:
    """Build the graph START → retrieve → write, for each passage → choose (→ retrieve) → answer → END."""

    def attempts(state: State, context: Context) -> list[State]:
        return [{"passage": id, "segments": state.get("segments", [])} for id in state["passages"] or [""]]

    def after_choice(state: State, runtime: Runtime[Context]) -> str:
        """Return the next node: another search if the part asks for it and parts are left, else the answer."""
        segments = state["segments"]
        more = segments[-1].endswith("[Retrieval]") and len(segments) < int_parameter(runtime.context, "segments", 1)
        return "retrieve" if more else "answer"

    back = {"choose": (after_choice, ["retrieve", "answer"])}
    return vote(State, retrieve, attempts=attempts, attempt=write, after=[choose, answer], more=back)


async def retrieve(state: State, runtime: Runtime[Context]) -> State:
    """Search for the question and the last part. Before the first part, search only if it is needed."""
    context, segments = runtime.context, state.get("segments", [])
    choice(context, "mode", _MODES)  # checked before any call is paid for
    retrieval = choice(context, "retrieval", ("adaptive", "always", "never"))
    if not segments and (retrieval == "never" or (retrieval == "adaptive" and not await _needs_search(context))):
        return {"passages": []}
    query = Query(f"{context.stem.text} {written_query(context, plain(segments[-1])).text}") if segments else None
    passages = await context.search(query or Query.from_stem(context.stem), int_parameter(context, "top_k", 5))
    return {"passages": [passage.id for passage in passages]}


async def _needs_search(context: Context) -> bool:
    """Ask the model whether the question needs a search."""
    if choice(context, "mode", _MODES) == "tokens":
        reply = await context.ask(_instruction(context), max_tokens=1, logprobs=_TOP)
    else:
        prompt = context.prompts.render("self_rag/decide", context.stem.language, question=context.stem.text)
        reply = await context.ask(prompt)
    return mark(reply, NEEDED) > number(context, "threshold", 0.2)


def _instruction(context: Context) -> tuple[Message, ...]:
    return (Message("user", context.stem.text),)


async def write(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the next part with one passage, and score it by its marks."""
    context, segments = runtime.context, state["segments"]
    passages = [context.passage(state["passage"])] if state["passage"] else []

    def prompt(documents: str) -> tuple[Message, ...]:
        values = {"question": context.stem.text, "answer": " ".join(map(plain, segments)) or "(none yet)"}
        return context.prompts.render("self_rag/write", context.stem.language, documents=documents, **values)

    passages = list(fitted(context, passages, prompt))
    if choice(context, "mode", _MODES) == "tokens":
        paragraphs = "".join(
            f"[Retrieval]<paragraph>{passage.title}\n{passage.text}</paragraph>" for passage in passages
        )
        part: Part = {
            "by": "search",
            "text": "".join(segments).removesuffix("[Retrieval]") + (paragraphs or "[No Retrieval]"),
        }
        messages, prefix = resumed(context, _instruction(context), [part], lambda part: part["text"])
        reply = await context.ask(messages, prefix=prefix, logprobs=_TOP)
    else:
        reply = await context.ask(prompt(render_documents(passages)))
    score = sum(number(context, name, 1.0) * mark(reply, family) for name, family in _WEIGHED.items())
    if reply.logprobs:
        score += math.exp(sum(token.logprob for token in reply.logprobs) / len(reply.logprobs))
    return {"tried": [{"text": without_thought(reply.text), "score": score}]}


def mark(reply: Reply, family: Mapping[str, float]) -> float:
    """Return the value of a reply's first mark of a family, weighed by their probabilities if these are known; 0 if
    there is no mark.
    """
    for entry in reply.logprobs or ():
        if entry.token.strip() in family:
            logprobs = {entry.token: entry.logprob, **dict(entry.top)}
            chances = {token.strip(): math.exp(value) for token, value in logprobs.items() if token.strip() in family}
            return sum(family[token] * chance for token, chance in chances.items()) / (sum(chances.values()) or 1.0)
    text = without_thought(reply.text)
    placed = [(text.find(token), worth) for token, worth in family.items() if token in text]
    return min(placed, default=(0, 0.0))[1]


def plain(text: str) -> str:
    """Return a text without its marks."""
    return " ".join(_MARKS.sub(" ", text).split())


async def choose(state: State, runtime: Runtime[Context]) -> State:
    """Keep the part of this round that has the highest score."""
    tried = state["tried"][-max(1, len(state["passages"])) :]
    best = max(tried, key=lambda segment: segment["score"])
    return {"segments": [*state.get("segments", []), best["text"]]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Map the written text to an option. The answer to a long question is the written text."""
    context, parts = runtime.context, [text for segment in state["segments"] if (text := plain(segment))]
    if parts:
        text = " ".join(parts)
        return await concluded(context, text, parts[-1], long=text)
    context.note("no_answer", "nothing was written; the question is answered directly")
    return await answered(context)
