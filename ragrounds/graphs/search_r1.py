"""`search_r1`: reason, search and answer in tags (Search-R1: Jin et al., 2025, Section 3).

The model thinks in ``<think>``, searches in ``<search>``, reads what was found in ``<information>`` and ends in
``<answer>``. After `turns` turns one more follows in which nothing is searched. What is neither a search nor an answer
gets a fixed correction, which costs a turn. ``stops=false`` lets the model write on and cuts its text afterwards, and
``observation_cut=all`` counts the tags among an observation's tokens, as the authors' code does.

`act` writes queries, so it sees the question's stem alone; `answer`, the only node that sees the options, maps what
stands in ``<answer>`` to one of them (one call more than the paper, whose questions have no options). A long question's
answer is what stands in the tag, or the last chunk where there is none.
"""

from __future__ import annotations

import operator
import re
from typing import Annotated

from ragrounds.contracts import Context
from ragrounds.graphs.answer_prompts import CONCLUDE, conclude_prompt
from ragrounds.graphs.continuation import Part, asked_within, put_back, resumed, whole_text
from ragrounds.graphs.documents import written
from ragrounds.graphs.model_text import written_query
from ragrounds.graphs.state import Graph, Runtime, graph_of, switch, whole, word
from ragrounds.graphs.state import State as Shared

PROMPTS = (*CONCLUDE, "continuing/go_on", "search_r1/act", "search_r1/correction")

_ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_STOPS = {"</search>": "<search>", "</answer>": "<answer>"}


class State(Shared, total=False):
    parts: Annotated[list[Part], operator.add]
    turns: int
    action: str
    """``search``, ``answer``, ``invalid``, or ``none`` where the window is full."""
    content: str
    """What stands in the action's tag."""


def build() -> Graph:
    """START → act ⇄ (search | correct), act → answer → END."""
    nodes = {"act": act, "search": search, "correct": correct, "answer": answer}
    ways = _next, ["search", "correct", "answer"]
    return graph_of(State, nodes, {"act": ways, "search": "act", "correct": "act"})


def _next(state: State, runtime: Runtime[Context]) -> str:
    # The turn after the last one has search off: whatever it wrote, the answer follows.
    if state["action"] in ("answer", "none") or state["turns"] > whole(runtime.context, "turns", 4):
        return "answer"
    return "search" if state["action"] == "search" else "correct"


async def act(state: State, runtime: Runtime[Context]) -> State:
    """Have the text continued up to the next action: a search or an answer."""
    context, turn = runtime.context, state.get("turns", 0) + 1
    prompt = context.prompts.render("search_r1/act", context.stem.language, question=context.stem.text)
    messages, prefix = resumed(context, prompt, state.get("parts", []), lambda part: _written(context, part))
    stops = tuple(_STOPS) if switch(context, "stops", True) else ()
    reply = await asked_within(context, messages, turn, prefix=prefix, stop=stops)
    if reply is None:
        return {"turns": turn, "action": "none", "content": ""}
    text = put_back(reply, _STOPS) if stops else _cut_back(reply.text)
    found = _ACTION.search(text)
    action, content = first_action(text)
    if found and stops and text[found.end() :].strip():
        context.note("extra_text", "what followed the first action was left out")
    if action != "answer" and turn > whole(context, "turns", 4):
        context.note("turn_limit", f"turn {turn}, the last one, gave no answer")
    return {
        "parts": [{"by": "model", "text": text[: found.end()] if found and stops else text}],
        "turns": turn,
        "action": action,
        "content": content,
    }


def first_action(text: str) -> tuple[str, str]:
    """The first complete action of a chunk, and what stands in its tag: ``search``, ``answer``, or ``invalid``."""
    found = _ACTION.search(text)
    return (found[1], found[2].strip()) if found else ("invalid", "")


def _cut_back(text: str) -> str:
    """The text up to the first end of a search, wherever it stands, else up to the first end of an answer."""
    end = next((end for end in _STOPS if end in text), None)
    return text[: text.index(end) + len(end)] if end else text


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for what stands in the tag, and put the passages into the text."""
    context = runtime.context
    raw = word(context, "query_text", "plain") == "raw"
    query = written_query(context, state["content"], raw=raw)
    found = await context.search(query, whole(context, "top_k", 3), empty=raw)
    return {"parts": [{"by": "search", "passages": [passage.id for passage in found]}]}


async def correct(state: State, runtime: Runtime[Context]) -> State:
    """Put the fixed correction into the text."""
    context = runtime.context
    context.note("invalid_action", "the chunk neither searched nor answered")
    return {"parts": [{"by": "search", "text": context.prompts.text("search_r1/correction", context.stem.language)}]}


async def answer(state: State, runtime: Runtime[Context]) -> State:
    """Map what stands in the answer's tag to an option; a long answer is given as it is."""
    context, parts = runtime.context, state.get("parts", [])
    given = state["content"] if state["action"] == "answer" else ""
    if not given:
        context.note("no_answer", "no answer stands in its tag")
    if not context.question.options:
        last = next((part["text"] for part in reversed(parts) if part["by"] == "model"), "")
        return {"answer": given or last}
    # Where the window was full, only what the model wrote itself: with the observations it would not fit again.
    kept = [part for part in parts if part["by"] == "model"] if state["action"] == "none" else parts
    text = whole_text(kept, lambda part: _written(context, part))
    reply = await context.ask(conclude_prompt(context, text or "(none)", given or "(none)"))
    return {"answer": reply.text}


def _written(context: Context, part: Part) -> str:
    if part["by"] == "model":
        return part["text"]
    if "passages" not in part:
        return f"\n{part['text']}\n"
    form, room = word(context, "document_format", "plain"), whole(context, "observation_tokens", 500)
    documents = written([context.passage(id) for id in part["passages"]], form)
    if word(context, "observation_cut", "documents") == "documents":
        return f"\n\n<information>{context.cut(documents, room)}</information>\n\n"
    # As the authors' code: the tags count too, and the closing one may be what is cut off.
    return context.cut(f"\n\n<information>{documents.strip()}</information>\n\n", room)
