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

The authors' program divides the logarithms of the probabilities in place of these, so that it searches where no search
is likelier; ``decision=published`` does the same.

With ``options=shown`` the options are shown while parts are written, each part names one of them, and the scores of
all passages that lead to the same one are summed; the one with the highest sum is the answer. This is the authors'
`closed` form, for sets of choices (run_short_form.py); it has one part and needs no further call. Whether a search is
needed is decided without the options, which no query may see.

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
from ragrounds.graphs.answer_prompts import CONCLUDE, options_block
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.continuation import Part, resumed
from ragrounds.graphs.documents import fitted, render_documents
from ragrounds.graphs.model_text import without_thought, written_query
from ragrounds.graphs.shapes import answered, concluded, number, vote
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter
from ragrounds.graphs.state import State as Shared

_OWN = ("decide", "write", "choose", "write_choice")
PROMPTS = (*ANSWERING, *CONCLUDE, "continuing/go_on", *(f"self_rag/{name}" for name in _OWN))

NEEDED, RELEVANT = {"[Retrieval]": 1.0, "[No Retrieval]": 0.0}, {"[Relevant]": 1.0, "[Irrelevant]": 0.0}
SUPPORT = {"[Fully supported]": 1.0, "[Partially supported]": 0.5, "[No support / Contradictory]": 0.0}
USE = {f"[Utility:{number}]": (number - 3) / 2 for number in range(1, 6)}
_MARKS = re.compile(
    "|".join(map(re.escape, (*NEEDED, *RELEVANT, *SUPPORT, *USE, "[Continue to Use Evidence]", "</s>")))
)
_WEIGHED = {"w_rel": RELEVANT, "w_sup": SUPPORT, "w_use": USE}
_TOP = 20
_MODES = ("asked", "tokens")
_MISSING = -100.0
"""Log probability of a token that the server does not list."""
_LETTER = re.compile(r"\W*([A-Z])\b", re.ASCII)


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
        limit = 1 if _shows_options(runtime.context) else int_parameter(runtime.context, "segments", 1)
        return "retrieve" if segments[-1].endswith("[Retrieval]") and len(segments) < limit else "answer"

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
    chance = mark(reply, NEEDED)
    if choice(context, "decision", ("chance", "published")) == "published" and reply.logprobs:
        first = reply.logprobs[0]
        logprobs = {first.token: first.logprob, **dict(first.top)}
        if total := sum(logprobs.get(token, _MISSING) for token in NEEDED):
            chance = logprobs.get("[Retrieval]", _MISSING) / total
    return chance > number(context, "threshold", 0.2)


def _shows_options(context: Context) -> bool:
    """Return True if the parts of the answer are written with the options in sight."""
    # The first test alone decides for most agents: reading the question ends an attempt's searches.
    return choice(context, "options", ("hidden", "shown")) == "shown" and bool(context.question.options)


def _instruction(context: Context) -> tuple[Message, ...]:
    return (Message("user", context.stem.text),)


def _closed_instruction(context: Context) -> tuple[Message, ...]:
    """Return the question with its options, in the form of the training data."""
    options = "\n".join(map(": ".join, context.question.options.items()))
    return context.prompts.render("self_rag/choose", context.stem.language, question=context.stem.text, options=options)


async def write(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the next part with one passage, and score it by its marks."""
    context, segments, closed = runtime.context, state["segments"], _shows_options(runtime.context)
    passages = [context.passage(state["passage"])] if state["passage"] else []

    def prompt(documents: str) -> tuple[Message, ...]:
        values = {"question": context.stem.text, "documents": documents}
        if closed:
            values["options"] = options_block(context.question.options)
            return context.prompts.render("self_rag/write_choice", context.stem.language, **values)
        so_far = " ".join(map(plain, segments)) or "(none yet)"
        return context.prompts.render("self_rag/write", context.stem.language, answer=so_far, **values)

    passages = list(fitted(context, passages, prompt))
    if choice(context, "mode", _MODES) == "tokens":
        paragraphs = "".join(
            f"[Retrieval]<paragraph>{passage.title}\n{passage.text}</paragraph>" for passage in passages
        )
        part: Part = {
            "by": "search",
            "text": "".join(segments).removesuffix("[Retrieval]") + (paragraphs or "[No Retrieval]"),
        }
        instruction = (_closed_instruction if closed else _instruction)(context)
        messages, prefix = resumed(context, instruction, [part], lambda part: part["text"])
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
    """Keep the part of this round that has the highest score; with options shown, the option with the highest sum."""
    context, tried = runtime.context, state["tried"][-max(1, len(state["passages"])) :]
    if not _shows_options(context):
        best = max(tried, key=lambda segment: segment["score"])
        return {"segments": [*state.get("segments", []), best["text"]]}
    sums: dict[str, float] = {}
    for segment in tried:
        text = plain(segment["text"])
        # Trained models write the option alone, and the authors sum by text; other models may add words to its letter.
        letter = _LETTER.match(text) if choice(context, "mode", _MODES) == "asked" else None
        option = letter[1] if letter and letter[1] in context.question.options else text
        sums[option] = sums.get(option, 0.0) + segment["score"]
    return {"segments": [max(sums, key=lambda option: sums[option])]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Map the written text to an option. The answer to a long question is the written text."""
    context, parts = runtime.context, [text for segment in state["segments"] if (text := plain(segment))]
    if parts:
        text = " ".join(parts)
        if _shows_options(context):
            return {"answer": text}
        return await concluded(context, text, parts[-1], long=text)
    context.note("no_answer", "nothing was written; the question is answered directly")
    return await answered(context)
