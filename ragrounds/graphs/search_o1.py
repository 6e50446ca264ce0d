r"""`search_o1`: one train of reasoning that searches whenever it is unsure (Search-o1: Li et al., 2025, Section 3).

The model writes a query between two tokens and stops; the results are put between two others and the model continues.
With ``reading=true`` the documents are first read by `reason_in_documents` and only what helps is inserted; without it
the passages themselves are. The strategy's own limits (`search_limit`, `turns`) never end an attempt: over the search
limit a notice replaces the result, after the last turn the answer is generated directly.

`reason` writes queries, so it sees the question's stem alone. `answer`, the only node that sees the options, maps the
boxed conclusion to one of them. This is the one point where the graph asks once more than the paper, whose questions
carry their options from the start. A long question's answer is the content of the last ``\boxed{}``.

Switches follow the authors' code where the paper says nothing or the code has a fault: ``queries=as_is`` (the last pair
of tags, spaces and all; no tag is closed), ``limit_first``, ``same_query=exact``, ``last_turn=inserts``,
``notices=lines``, ``steps=lines``, ``boxed=line``, and those of `reason_in_documents`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Annotated

from ragrounds.base.contracts import Context
from ragrounds.base.specs import Value
from ragrounds.graphs import reason_in_documents
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.continuation import Part, asked_within, put_back, resumed, whole_text
from ragrounds.graphs.documents import beginnings, render_documents
from ragrounds.graphs.model_text import boxed, boxed_line, last_between, repeated, shortened, shortened_lines
from ragrounds.graphs.shapes import answered, concluded
from ragrounds.graphs.state import Graph, Runtime, Ways, graph_of, int_parameter, switch, word
from ragrounds.graphs.state import State as Shared

PROMPTS = (
    *ANSWERING,
    *CONCLUDE,
    *reason_in_documents.PROMPTS,
    "continuing/go_on",
    "search_o1/reason",
    "search_o1/no_more_searches",
    "search_o1/searched_before",
)
QUERY, END_QUERY = "<|begin_search_query|>", "<|end_search_query|>"
RESULT, END_RESULT = "<|begin_search_result|>", "<|end_search_result|>"


class State(Shared, total=False):
    parts: Annotated[list[Part], operator.add]
    """Text so far."""
    turns: int
    query: str | None
    """Query of the last chunk; ``None`` if the reasoning is finished."""
    searched: Annotated[list[str], operator.add]
    reasoning: str
    """Text so far, shortened, for the reader of documents."""
    information: str


def build() -> Graph:
    """Build the graph.

    START → reason ⇄ (reason_in_documents | search → insert | remind | deny), reason → answer → END.
    """
    nodes = {
        "reason": reason,
        "reason_in_documents": reason_in_documents.build().compile(),
        "search": reason_in_documents.search,
        "insert": insert,
        "remind": remind,
        "deny": deny,
        "answer": answer,
    }
    again = _after_insertion, ["reason", "answer"]
    ways: Ways = {
        "reason": (_next, ["reason_in_documents", "search", "remind", "deny", "answer"]),
        "reason_in_documents": "insert",
        "insert": again,
        "remind": again,
        "deny": again,
    }
    return graph_of(State, nodes, ways)


def nests(parameters: Mapping[str, Value]) -> bool:
    """Return True if another graph runs inside this one: see :func:`ragrounds.graphs.catalogue.nests`."""
    return parameters.get("reading", True) is not False


def _next(state: State, runtime: Runtime[Context]) -> str:
    """Return the node after a chunk of reasoning: a search, a notice in its place, or the answer."""
    context, query, searched = runtime.context, state.get("query"), state.get("searched", [])
    if query is None or (_last_turn(state, context) and word(context, "last_turn", "answers") == "answers"):
        return "answer"
    exact = word(context, "same_query", "folded") == "exact"
    again = query in searched if exact else repeated(query, searched)
    spent = len(searched) >= int_parameter(context, "search_limit", 10, least=0)
    if spent and (not again or switch(context, "limit_first", False)):
        return "deny"
    if again:
        return "remind"
    return "reason_in_documents" if switch(context, "reading", True) else "search"


def _after_insertion(state: State, runtime: Runtime[Context]) -> str:
    """Check the limit of turns here too, since the results of the last turn may be inserted."""
    return "answer" if _last_turn(state, runtime.context) else "reason"


def _last_turn(state: State, context: Context) -> bool:
    """Return True if all turns are used."""
    return state["turns"] >= int_parameter(context, "turns", 15)


async def reason(state: State, runtime: Runtime[Context]) -> State:
    """Continue the reasoning up to the next search, or to its end."""
    context, parts = runtime.context, state.get("parts", [])
    stem, turn = context.stem, state.get("turns", 0) + 1
    limit = int_parameter(context, "search_limit", 10, least=0)
    prompt = context.prompts.render("search_o1/reason", stem.language, question=stem.text, limit=str(limit))
    messages, prefix = resumed(context, prompt, parts, lambda part: _part_text(context, part))
    reply = await asked_within(context, messages, turn, prefix=prefix, stop=(END_QUERY,))
    if reply is None:
        return {"turns": turn, "query": None}
    as_is = word(context, "queries", "closed") == "as_is"
    text = put_back(reply, {END_QUERY: QUERY}, close=not as_is)
    new: list[Part] = [{"by": "model", "text": text}]
    if as_is:
        query = last_between(text, QUERY, END_QUERY) or None
        query = query if text_so_far(context, [*parts, *new]).rstrip().endswith(END_QUERY) else None
    else:
        query = _query(context, text)
    if query is not None and turn >= int_parameter(context, "turns", 15):
        context.note("turn_limit", f"turn {turn} was the last and asked for another search")
    changes: State = {"parts": new, "turns": turn, "query": query}
    if query is not None and switch(context, "reading", True):
        changes["reasoning"] = _shorten_reasoning(context, [*parts, *new])
    return changes


def _shorten_reasoning(context: Context, parts: Sequence[Part]) -> str:
    cut = shortened_lines if word(context, "steps", "paragraphs") == "lines" else shortened
    return cut(text_so_far(context, parts), (QUERY, RESULT))


def text_so_far(context: Context, parts: Sequence[Part]) -> str:
    """Return the model's text and the insertions as one text."""
    return whole_text(parts, lambda part: _part_text(context, part))


def _query(context: Context, text: str) -> str | None:
    """Return the last query of a chunk, which must end the chunk."""
    body = text.rstrip()
    if not body.endswith(END_QUERY):
        return None
    before, opened, query = body[: -len(END_QUERY)].rpartition(QUERY)
    if not opened or END_QUERY in query:
        context.note("malformed_query", "the chunk ended a query that it had not begun; the reasoning ends here")
        return None
    if QUERY in before:
        context.note("extra_query", "the chunk held more than one query; the last one counts")
    return query.strip()


async def insert(state: State, runtime: Runtime[Context]) -> State:
    """Insert the found passages, or the reader's information from them, into the text."""
    part: Part = {"by": "search"}
    if switch(runtime.context, "reading", True):
        part["text"] = state.get("information", "")
    else:
        part["passages"] = state.get("passages", [])
    return {"parts": [part], "searched": [state.get("query") or ""]}


async def remind(state: State, runtime: Runtime[Context]) -> State:
    """Insert a notice in place of a repeated query.

    It is not searched for again and does not count against the limit.
    """
    context = runtime.context
    context.note("repeated_query", state.get("query") or "")
    return {"parts": [_notice(context, "searched_before")]}


async def deny(state: State, runtime: Runtime[Context]) -> State:
    """Insert a notice that no search is left."""
    context = runtime.context
    context.note("search_limit", f"all {len(state.get('searched', []))} searches were used: {state.get('query')}")
    return {"parts": [_notice(context, "no_more_searches")]}


def _notice(context: Context, prompt: str) -> Part:
    text = context.prompts.text(f"search_o1/{prompt}", context.stem.language)
    return {"by": "search", "text": text, "notice": True}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Map the boxed conclusion to an option. Without one, ask for the answer directly."""
    context, parts = runtime.context, state.get("parts", [])
    if word(context, "boxed", "braces") == "line":
        conclusion = boxed_line(text_so_far(context, parts))
    else:
        conclusion = boxed("".join(part["text"] for part in parts if part["by"] == "model"))
    if conclusion is None:
        context.note("no_answer", "the reasoning reached no boxed answer; it is generated directly instead")
        return await answered(context)
    return await concluded(context, _shorten_reasoning(context, parts), conclusion)


def _part_text(context: Context, part: Part) -> str:
    """Return a part as it is written into the reasoning, search results between their tokens."""
    if part["by"] == "model":
        return part["text"]
    if "passages" in part:
        passages = [context.passage(id) for id in part["passages"]]
        text = render_documents(beginnings(passages, int_parameter(context, "document_characters", 3000, least=0)))
    else:
        text = part["text"]
    if part.get("notice") and word(context, "notices", "paragraphs") == "lines":
        return f"\n{RESULT}\n{text}\n{END_RESULT}\n"
    return f"\n\n{RESULT}{text}{END_RESULT}\n\n"
