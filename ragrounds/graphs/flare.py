"""`flare`: write on, and search where the next sentence is uncertain (FLARE: Jiang et al., 2023, Section 3).

The question is searched for (`first_search`). Then the model, given what the last search found and its answer so far,
writes on for `lookahead` tokens, of which the next sentence counts. Where a token's probability is below `theta`, that
sentence is not kept: it is made a query, the results are read, and the sentence is written again and kept. Queries
(`queries`) are ``mask``: the sentence without its tokens below `beta`; ``questions``: one question for each span of
them; ``sentence``: the whole. Several lists join rank by rank. A sentence whose tokens are all below `beta` leaves an
empty masked query: as in the authors' program it is kept without a search, with the note `empty_query`. The answer
ends where the model ends, or after `steps`.

``form=instruct`` is the paper's other form, in which the model asks by itself, ``[Search(query)]``; it follows by
itself, with the note `no_logprobs`, where a server gives no probabilities or refuses to. The numbers are those of the
authors' code for 2WikiMultihopQA (jzbjyb/FLARE: two passages, theta 0.8, beta 0.4, 64 tokens).

Sees the options: `answer`, which maps what was written to one of them (a long question's answer is what was written).
Differs: asked in words, not by worked examples; the answer so far is in the prompt; a sure sentence is kept as it
is, as the paper says, where the authors' code asks for it again; by instruction, no token is made likelier or barred.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from typing_extensions import Unpack

from ragrounds.base.contracts import CallArguments, Context
from ragrounds.base.records import Message, Query, Reply, TokenLogprob
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.continuation import asked_within, put_back
from ragrounds.graphs.documents import render_documents_for
from ragrounds.graphs.model_text import repeated, without_thought, written_query
from ragrounds.graphs.shapes import answered, by_rank, concluded, loop, number, sentences
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter, switch
from ragrounds.graphs.state import State as Shared
from ragrounds.models.faults import CallFailed
from ragrounds.models.request_arguments import CannotTake

PROMPTS = (*ANSWERING, *CONCLUDE, "flare/write", "flare/instruct", "flare/ask")

_FORMS, _QUERIES = ("direct", "instruct"), ("mask", "questions", "sentence")
_SEARCH = re.compile(r"\[Search\(([^\n]*?)\)\]")
_GAP, _SPANS = 5, 10
"""Distance and number of spans. Uncertain tokens less than five apart are one span, as in the authors' code."""


class State(Shared, total=False):
    sentences: list[str]
    """The answer so far, in sentences."""
    queries: list[str]
    """Queries of the next search; empty if the answer is finished."""
    own_queries: list[str]
    """Queries that the model wrote by itself."""


def build() -> Graph:
    """Build the graph START → search ⇄ write → answer → END."""
    return loop(State, search, write, leave=write, over=lambda state, context: not state["queries"], answer=answer)


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the next sentence's queries, at first for the question's stem."""
    context, queries, k = runtime.context, state.get("queries", []), int_parameter(runtime.context, "top_k", 2)
    # Both are checked before any call is paid for.
    choice(context, "form", _FORMS)
    choice(context, "queries", _QUERIES)
    if not queries and not switch(context, "first_search", True):
        return {"passages": []}
    search_queries = [written_query(context, query) for query in queries] or [Query.from_stem(context.stem)]
    lists = [[passage.id for passage in await context.search(query, k)] for query in search_queries]
    return {"passages": by_rank(lists, k)}


async def write(state: State, runtime: Runtime[Context]) -> State:
    """Continue the text up to the next search, or to the end."""
    context = runtime.context
    if choice(context, "form", _FORMS) == "direct" and not state.get("own_queries"):
        next_state = await _by_probability(state, context)
        if next_state is not None:
            return next_state
        context.note("no_logprobs", "the server gave no probabilities: the model is asked to request searches itself")
    return await _by_instruction(state, context)


async def _by_probability(state: State, context: Context) -> State | None:
    """Continue sentence by sentence up to an uncertain one; ``None`` if the server gives no probabilities."""
    so_far, rewriting = state.get("sentences", []), bool(state.get("queries"))
    while len(so_far) < int_parameter(context, "steps", 10):
        lookahead = int_parameter(context, "lookahead", 64)
        try:
            reply = await _continue_text(context, state, so_far, max_tokens=lookahead, logprobs=0)
        except (CallFailed, CannotTake) as refused:
            if isinstance(refused, CallFailed) and refused.kind != "bad_request":
                raise
            return None
        following = sentences(without_thought(reply.text)) if reply else []
        if not reply or not following:
            return {"sentences": so_far, "queries": []}
        if not rewriting and reply.logprobs is None:
            return None
        if not rewriting and (queries := await _queries(context, reply.logprobs or (), so_far, following[0])):
            return {"sentences": so_far, "queries": queries}
        so_far, rewriting = [*so_far, following[0]], False
        if len(following) == 1 and reply.finish != "length":
            return {"sentences": so_far, "queries": []}
    context.note("step_limit", f"all {len(so_far)} sentences were written without an end")
    return {"sentences": so_far, "queries": []}


async def _by_instruction(state: State, context: Context) -> State:
    """Continue up to a search that the model requests by itself, or to the end."""
    so_far, previous_queries = state.get("sentences", []), state.get("own_queries", [])
    manner = f" {context.prompts.text('flare/instruct', context.stem.language)}"
    reply = await _continue_text(context, state, so_far, manner, stop=(")]",))
    text = without_thought(put_back(reply, {")]": "[Search("})) if reply else ""
    match = _SEARCH.search(text)
    sentence, query = text[: match.start()].strip() if match else text, match[1].strip() if match else ""
    if query and repeated(query, previous_queries):
        context.note("repeated_query", query[:200])
        query = ""
    elif query and len(previous_queries) >= int_parameter(context, "steps", 10):
        context.note("step_limit", f"all {len(previous_queries)} searches were made: {query[:200]}")
        query = ""
    queries = [query] if query else []
    return {
        "sentences": [*so_far, sentence] if sentence else so_far,
        "queries": queries,
        "own_queries": [*previous_queries, *queries],
    }


async def _continue_text(
    context: Context, state: State, so_far: Sequence[str], manner: str = "", **arguments: Unpack[CallArguments]
) -> Reply | None:
    """Ask the model for the next text after the sentences so far; ``None`` if the window is full."""
    values = {"question": context.stem.text, "answer": " ".join(so_far) or "(none yet)", "manner": manner}

    def prompt(documents: str) -> tuple[Message, ...]:
        return context.prompts.render("flare/write", context.stem.language, documents=documents, **values)

    documents = render_documents_for(context, [context.passage(id) for id in state["passages"]], prompt)
    return await asked_within(context, prompt(documents), len(so_far) + 1, **arguments)


async def _queries(context: Context, tokens: Sequence[TokenLogprob], before: Sequence[str], sentence: str) -> list[str]:
    """Return the queries in place of an uncertain sentence; empty if the sentence is certain."""
    tokens, how = tokens_of(tokens, sentence), choice(context, "queries", _QUERIES)
    probabilities = [math.exp(token.logprob) for token in tokens]
    # A sentence without tokens is certain. It is searched for too if `theta` is above 1, which requests every search.
    lowest = min(probabilities, default=1.0)
    if lowest >= number(context, "theta", 0.8):
        return []
    beta = number(context, "beta", 0.4)
    if how == "sentence" or lowest >= beta:
        return [sentence]
    if how == "mask":
        masked = "".join(
            token.token if probability >= beta else " "
            for token, probability in zip(tokens, probabilities, strict=True)
        )
        if not masked.strip():
            context.note("empty_query", f"every token is below beta; kept without a search: {sentence[:200]}")
        return [masked] if masked.strip() else []
    spans: list[list[int]] = []
    for index in (index for index, probability in enumerate(probabilities) if probability < beta):
        if spans and index - spans[-1][-1] < _GAP:
            spans[-1].append(index)
        else:
            spans.append([index])
    questions = []
    for span in spans[:_SPANS]:
        term = "".join(token.token for token in tokens[span[0] : span[-1] + 1]).strip()
        values = {"answer": " ".join([*before, sentence]), "term": term}
        prompt = context.prompts.render("flare/ask", context.stem.language, **values)
        questions.append(without_thought((await context.ask(prompt, role="querying")).text))
    return [question for question in questions if question] or [sentence]


def tokens_of(tokens: Sequence[TokenLogprob], sentence: str) -> list[TokenLogprob]:
    """Return the tokens of a reply that belong to a sentence of it; all of them if the sentence is not found."""
    ends = list(itertools.accumulate(len(token.token) for token in tokens))
    start = "".join(token.token for token in tokens).find(sentence)
    inside = zip(tokens, [0, *ends], ends, strict=False)
    return [token for token, begin, end in inside if start < 0 or (end > start and begin < start + len(sentence))]


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Map the written text to an option. The answer to a long question is the written text."""
    context, parts = runtime.context, state["sentences"]
    if parts:
        text = " ".join(parts)
        return await concluded(context, text, parts[-1], long=text)
    context.note("no_answer", "nothing was written; the answer is generated from what was found")
    return await answered(context, [context.passage(id) for id in state["passages"]])
