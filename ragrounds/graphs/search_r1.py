"""`search_r1`: reason, search and answer in tags (Search-R1: Jin et al., 2025, Section 3).

The model thinks in ``<think>``, searches in ``<search>``, reads what was found in ``<information>`` and ends in
``<answer>``. After `turns` turns one more follows in which nothing is searched. What is neither a search nor an answer
gets a fixed correction, which costs a turn. ``stops=false`` lets the model write on and cuts its text afterwards, and
``observation_cut=all`` counts the tags among an observation's tokens, as the authors' code does.

``format=`` has it speak as models of two other papers were trained to: ``r1_searcher`` (Song et al., 2025: queries and
documents in tokens of their own) and ``research`` (ReSearch: Chen et al., 2025: ``<result>``, and the answer in
a box of LaTeX), each with an agent of its name. There a chunk that neither searches nor answers ends the reasoning,
without a correction. Their programs do not cut what was found; R1-Searcher's gives up at the tenth chunk, ReSearch's at
the end of the window; here the chunk after the last turn may still answer.

`act` writes queries, so it sees the question's stem alone; `answer`, the only node that sees the options, maps the
content of ``<answer>`` to one of them (one call more than the paper, whose questions have no options). A long
question's answer is the content of the tag, or the last chunk if the tag is missing.
"""

from __future__ import annotations

import operator
import re
from typing import Annotated, NamedTuple

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.continuation import Part, asked_within, put_back, resumed, whole_text
from ragrounds.graphs.documents import render_documents
from ragrounds.graphs.model_text import boxed, written_query
from ragrounds.graphs.shapes import concluded
from ragrounds.graphs.state import Graph, Runtime, choice, graph_of, int_parameter, switch, word
from ragrounds.graphs.state import State as Shared


class Format(NamedTuple):
    """Form in which models of one paper write and are shown text."""

    prompt: str
    query: tuple[str, str]
    found: tuple[str, str]
    document: str = ""
    """Template of a document if `document_format` is plain; empty for our own form."""


FORMATS = {
    "search_r1": Format("search_r1/act", ("<search>", "</search>"), ("\n\n<information>", "</information>\n\n")),
    "r1_searcher": Format(
        "search_r1/r1_searcher",
        ("<|begin_of_query|>", "<|end_of_query|>"),
        ("\n\n<|begin_of_documents|>\n", "\n<|end_of_documents|>\n\n"),
        "({number}){title} {text}\n",
    ),
    "research": Format(
        "search_r1/research", ("<search>", "</search>"), (" <result>\n", "\n</result>"), "{title}\n{text}\n\n"
    ),
}
PROMPTS = (*CONCLUDE, "continuing/go_on", "search_r1/correction", *(form.prompt for form in FORMATS.values()))


class State(Shared, total=False):
    parts: Annotated[list[Part], operator.add]
    turns: int
    action: str
    """``search``, ``answer``, ``invalid``, or ``none`` if the window is full."""
    content: str
    """Content of the action's tag."""


def build() -> Graph:
    """Build the graph START → act ⇄ (search | correct), act → answer → END."""
    nodes = {"act": act, "search": search, "correct": correct, "answer": answer}
    ways = _next, ["search", "correct", "answer"]
    return graph_of(State, nodes, {"act": ways, "search": "act", "correct": "act"})


def _next(state: State, runtime: Runtime[Context]) -> str:
    """Return the node after a chunk: a search, a correction, or the answer."""
    # The turn after the last one has search off: whatever it wrote, the answer follows.
    if state["action"] in ("answer", "none") or state["turns"] > int_parameter(runtime.context, "turns", 4):
        return "answer"
    if state["action"] == "search":
        return "search"
    return "correct" if _format(runtime.context) is FORMATS["search_r1"] else "answer"


def _format(context: Context) -> Format:
    return FORMATS[choice(context, "format", FORMATS)]


async def act(state: State, runtime: Runtime[Context]) -> State:
    """Continue the text up to the next action: a search or an answer."""
    context, turn, form = runtime.context, state.get("turns", 0) + 1, _format(runtime.context)
    tags = {form.query[1]: form.query[0], "</answer>": "<answer>"}
    prompt = context.prompts.render(form.prompt, context.stem.language, question=context.stem.text)
    messages, prefix = resumed(context, prompt, state.get("parts", []), lambda part: _part_text(context, part))
    stops = tuple(tags) if switch(context, "stops", True) else ()
    reply = await asked_within(context, messages, turn, prefix=prefix, stop=stops)
    if reply is None:
        return {"turns": turn, "action": "none", "content": ""}
    if stops:
        text = put_back(reply, tags)
    else:  # up to the first end of a search, anywhere in the text, else up to the first end of an answer
        end = next((end for end in tags if end in reply.text), None)
        text = reply.text[: reply.text.index(end) + len(end)] if end else reply.text
    match = _action(text, form)
    action, content = first_action(text, form)
    if match and stops and text[match.end() :].strip():
        context.note("extra_text", "what followed the first action was left out")
    if action != "answer" and turn > int_parameter(context, "turns", 4):
        context.note("turn_limit", f"turn {turn}, the last one, gave no answer")
    return {
        "parts": [{"by": "model", "text": text[: match.end()] if match and stops else text}],
        "turns": turn,
        "action": action,
        "content": content,
    }


def _action(text: str, form: Format) -> re.Match[str] | None:
    """Match the first complete action of a chunk."""
    begin, end = map(re.escape, form.query)
    return re.search(rf"{begin}(?P<search>.*?){end}|<answer>(?P<answer>.*?)</answer>", text, re.DOTALL)


def first_action(text: str, form: Format = FORMATS["search_r1"]) -> tuple[str, str]:
    """Return the first complete action of a chunk, ``search``, ``answer`` or ``invalid``, and the content
    of its tag.
    """
    match = _action(text, form)
    if not match:
        return "invalid", ""
    action = str(match.lastgroup)
    content = match[action]
    # The programs of the other papers take the text after the last opening tag, and the content of the box.
    if form is not FORMATS["search_r1"]:
        content = content.rpartition(form.query[0])[2] if action == "search" else boxed(content) or content
    return action, content.strip()


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the content of the tag, and put the passages into the text."""
    context = runtime.context
    raw = word(context, "query_text", "plain") == "raw"
    query = written_query(context, state["content"], raw=raw)
    passages = await context.search(query, int_parameter(context, "top_k", 3), empty=raw)
    return {"parts": [{"by": "search", "passages": [passage.id for passage in passages]}]}


async def correct(state: State, runtime: Runtime[Context]) -> State:
    """Put the fixed correction into the text."""
    context = runtime.context
    context.note("invalid_action", "the chunk neither searched nor answered")
    return {"parts": [{"by": "search", "text": context.prompts.text("search_r1/correction", context.stem.language)}]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Map the content of the answer's tag to an option. A long answer is returned unchanged."""
    context, parts = runtime.context, state.get("parts", [])
    stated = state["content"] if state["action"] == "answer" else ""
    if not stated:
        context.note("no_answer", "its tag contains no answer")
    last = next((part["text"] for part in reversed(parts) if part["by"] == "model"), "")
    # If the window was full, only the model's own text is used: with the observations it would not fit again.
    visible_parts = [part for part in parts if part["by"] == "model"] if state["action"] == "none" else parts
    text = whole_text(visible_parts, lambda part: _part_text(context, part))
    return await concluded(context, text or "(none)", stated or "(none)", long=stated or last)


def _part_text(context: Context, part: Part) -> str:
    """Return a part as it is written into the text, search results between their tags and cut to their tokens."""
    if part["by"] == "model":
        return part["text"]
    if "passages" not in part:
        return f"\n{part['text']}\n"
    form, room = word(context, "document_format", "plain"), int_parameter(context, "observation_tokens", 500)
    (begin, end), template = _format(context).found, _format(context).document
    passages = [context.passage(id) for id in part["passages"]]
    documents = render_documents(passages, form)
    if template and passages and form == "plain":
        numbered = enumerate(passages, 1)
        documents = "".join(
            template.format(number=n, title=passage.title, text=passage.text) for n, passage in numbered
        ).strip()
    if word(context, "observation_cut", "documents") == "documents":
        return f"{begin}{context.cut(documents, room)}{end}"
    # As in the authors' code, the tags count too, and the closing tag may be cut off.
    return context.cut(f"{begin}{documents.strip()}{end}", room)
