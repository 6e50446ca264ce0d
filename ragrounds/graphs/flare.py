"""`flare`: write on, and search where the next sentence is uncertain (FLARE: Jiang et al., 2023, Section 3).

The question is searched for (`first_search`). Then the model, given what the last search found and its answer so far,
writes on for `lookahead` tokens, of which the next sentence counts. Where a token's probability is below `theta`, that
sentence is not kept: it is made a query, what that finds is read, and the sentence is written anew and kept. Queries
(`queries`) are ``mask``: the sentence without its tokens below `beta`; ``questions``: one question for each span of
them; ``sentence``: the whole. Several lists join rank by rank. The answer ends where the model ends, or after `steps`.

``form=instruct`` is the paper's other form, in which the model asks by itself, ``[Search(query)]``; it follows by
itself, with the note `no_logprobs`, where a server gives no probabilities or refuses to. The numbers are those of the
authors' code for 2WikiMultihopQA (jzbjyb/FLARE: two passages, theta 0.8, beta 0.4, 64 tokens).

Sees the options: `answer`, which maps what was written to one of them (a long question's answer is what was written).
Differs: asked in words, not by worked examples; the answer so far stands in the prompt; a sure sentence is kept as it
is, as the paper says, where the authors' code asks for it again; by instruction, no token is made likelier or barred.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from typing_extensions import Unpack

from ragrounds.base.contracts import CallArguments, Context
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Query, Reply, TokenLogprob
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.continuation import asked_within, put_back
from ragrounds.graphs.documents import shown
from ragrounds.graphs.model_text import repeated, without_thought, written_query
from ragrounds.graphs.shapes import answered, by_rank, concluded, loop, number, sentences
from ragrounds.graphs.state import Graph, Runtime, switch, whole, word
from ragrounds.graphs.state import State as Shared
from ragrounds.models.faults import CallFailed
from ragrounds.models.request_arguments import CannotTake

PROMPTS = (*ANSWERING, *CONCLUDE, "flare/write", "flare/instruct", "flare/ask")

_CHOICES = {"form": ("direct", "instruct"), "queries": ("mask", "questions", "sentence")}
_SEARCH = re.compile(r"\[Search\(([^\n]*?)\)\]")
_GAP, _SPANS = 5, 10
"""Uncertain tokens less than five apart are one span, as in the authors' code; ten spans are asked for at most."""


class State(Shared, total=False):
    written: list[str]
    """The answer so far, in sentences."""
    queries: list[str]
    """What is searched for next; empty: the answer is finished."""
    asked: list[str]
    """Queries that the model wrote by itself."""


def build() -> Graph:
    """START → search ⇄ write → answer → END."""
    return loop(State, search, write, leave=write, over=lambda state, context: not state["queries"], answer=answer)


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for what the next sentence needs, at first for the question's stem."""
    context, queries, k = runtime.context, state.get("queries", []), whole(runtime.context, "top_k", 2)
    for name, known in _CHOICES.items():
        if (value := word(context, name, known[0])) not in known:
            raise UserError(f"Unknown {name} {value!r}. Known: {', '.join(known)}.")
    if not queries and not switch(context, "first_search", True):
        return {"passages": []}
    asked = [written_query(context, query) for query in queries] or [Query.of(context.stem)]
    found = [[passage.id for passage in await context.search(query, k)] for query in asked]
    return {"passages": by_rank(found, k)}


async def write(state: State, runtime: Runtime[Context]) -> State:
    """Write on up to what is to be searched for, or to the end."""
    context = runtime.context
    if word(context, "form", "direct") == "direct" and not state.get("asked"):
        written = await _by_probability(state, context)
        if written is not None:
            return written
        context.note("no_logprobs", "the server gave no probabilities: the model is told to ask for searches itself")
    return await _by_instruction(state, context)


async def _by_probability(state: State, context: Context) -> State | None:
    written, anew = state.get("written", []), bool(state.get("queries"))
    while len(written) < whole(context, "steps", 10):
        lookahead = whole(context, "lookahead", 64)
        try:
            reply = await _continued(context, state, written, max_tokens=lookahead, logprobs=0)
        except (CallFailed, CannotTake) as refused:
            if isinstance(refused, CallFailed) and refused.kind != "bad_request":
                raise
            return None
        following = sentences(without_thought(reply.text)) if reply else []
        if not reply or not following:
            return {"written": written, "queries": []}
        if not anew and reply.logprobs is None:
            return None
        if not anew and (queries := await _queries(context, reply.logprobs or (), written, following[0])):
            return {"written": written, "queries": queries}
        written, anew = [*written, following[0]], False
        if len(following) == 1 and reply.finish != "length":
            return {"written": written, "queries": []}
    context.note("step_limit", f"all {len(written)} sentences were written without an end")
    return {"written": written, "queries": []}


async def _by_instruction(state: State, context: Context) -> State:
    written, asked = state.get("written", []), state.get("asked", [])
    manner = f" {context.prompts.text('flare/instruct', context.stem.language)}"
    reply = await _continued(context, state, written, manner, stop=(")]",))
    text = without_thought(put_back(reply, {")]": "[Search("})) if reply else ""
    found = _SEARCH.search(text)
    kept, query = text[: found.start()].strip() if found else text, found[1].strip() if found else ""
    if query and repeated(query, asked):
        context.note("repeated_query", query[:200])
        query = ""
    elif query and len(asked) >= whole(context, "steps", 10):
        context.note("step_limit", f"all {len(asked)} searches were made: {query[:200]}")
        query = ""
    queries = [query] if query else []
    return {"written": [*written, kept] if kept else written, "queries": queries, "asked": [*asked, *queries]}


async def _continued(
    context: Context, state: State, written: Sequence[str], manner: str = "", **arguments: Unpack[CallArguments]
) -> Reply | None:
    given = {"question": context.stem.text, "answer": " ".join(written) or "(none yet)", "manner": manner}

    def prompt(documents: str) -> tuple[Message, ...]:
        return context.prompts.render("flare/write", context.stem.language, documents=documents, **given)

    documents = shown(context, [context.passage(id) for id in state["passages"]], prompt)
    return await asked_within(context, prompt(documents), len(written) + 1, **arguments)


async def _queries(context: Context, tokens: Sequence[TokenLogprob], before: Sequence[str], sentence: str) -> list[str]:
    """What is searched for in place of an uncertain sentence; nothing: it is sure."""
    tokens, how = tokens_of(tokens, sentence), word(context, "queries", "mask")
    likely = [math.exp(one.logprob) for one in tokens]
    if min(likely, default=1.0) >= number(context, "theta", 0.8):
        return []
    beta = number(context, "beta", 0.4)
    if how == "sentence" or min(likely) >= beta:
        return [sentence]
    if how == "mask":
        kept = "".join(one.token if chance >= beta else " " for one, chance in zip(tokens, likely, strict=True))
        return [kept] if kept.strip() else []
    spans: list[list[int]] = []
    for place in (place for place, chance in enumerate(likely) if chance < beta):
        if spans and place - spans[-1][-1] < _GAP:
            spans[-1].append(place)
        else:
            spans.append([place])
    made = []
    for span in spans[:_SPANS]:
        term = "".join(one.token for one in tokens[span[0] : span[-1] + 1]).strip()
        values = {"answer": " ".join([*before, sentence]), "term": term}
        prompt = context.prompts.render("flare/ask", context.stem.language, **values)
        made.append(without_thought((await context.ask(prompt, role="querying")).text))
    return [one for one in made if one] or [sentence]


def tokens_of(tokens: Sequence[TokenLogprob], sentence: str) -> list[TokenLogprob]:
    """The tokens of a reply that a sentence of it is made of; all of them where it cannot be found in them."""
    ends = list(itertools.accumulate(len(one.token) for one in tokens))
    start = "".join(one.token for one in tokens).find(sentence)
    inside = zip(tokens, [0, *ends], ends, strict=False)
    return [one for one, begin, end in inside if start < 0 or (end > start and begin < start + len(sentence))]


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Map what was written to an option; a long question's answer is what was written."""
    context, written = runtime.context, state["written"]
    if written:
        return await concluded(context, written)
    context.note("no_answer", "nothing was written; the answer is generated from what was found")
    return await answered(context, [context.passage(id) for id in state["passages"]])
