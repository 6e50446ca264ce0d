"""`reason_in_documents`: search, read what was found in the light of the reasoning so far, keep what helps (Search-o1).

A graph of its own that any graph can take in as a node: it reads `query` and `reasoning` and writes `passages` and
`information`. Nothing here sees the options: the reader gets the reasoning, the query and the documents.

Three differences from the published code, each a switch. The marker before the information is found anywhere in a line,
in any case and with or without emphasis; the original loses what does not begin on a new line, and joins its lines
(``information=strict``). Where nothing was found the reader is not asked (``nothing_found=read``: it is). A search that
fails fails the attempt (``failed_search=empty``: it found nothing).
"""

from __future__ import annotations

import re

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.graphs.documents import beginnings, fitted, render_documents
from ragrounds.graphs.model_text import ending, without_thought, written_query
from ragrounds.graphs.state import Graph, Runtime, graph_of, int_parameter, word
from ragrounds.models.faults import CallFailed

PROMPTS = ("reason_in_documents/read", "reason_in_documents/nothing")

_MARKER = re.compile(
    # The words alone are prose. Emphasis, a colon or the end of the line makes them a heading.
    r"\**\s*(?:final\s+information|最终信息)\s*(?:\*\*\s*[:：]?|[:：]\s*(?:\*\*)?|\n|\Z)",
    re.IGNORECASE,
)


class State(TypedDict, total=False):
    query: str | None
    reasoning: str
    """Reasoning so far, for the reader."""
    passages: list[str]
    reading: str
    """Whole text of the reader."""
    information: str
    """Useful part of the reader's text."""


def build() -> Graph:
    """Build the graph START → search → read → distil → END."""
    return graph_of(State, {"search": search, "read": read, "distil": distil})


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the query."""
    context = runtime.context
    query = written_query(context, state.get("query") or "", raw=word(context, "queries", "closed") == "as_is")
    try:
        passages = await context.search(query, int_parameter(context, "top_k", 10))
    except CallFailed as failed:
        if word(context, "failed_search", "fails") != "empty":
            raise
        context.note("search_failed", f"taken as a search that found nothing: {failed.message}")
        passages = ()
    return {"passages": [passage.id for passage in passages]}


async def read(state: State, runtime: Runtime[Context]) -> State:
    """Ask the reader model to read the passages together with the reasoning so far."""
    context, language = runtime.context, runtime.context.stem.language
    passages = [context.passage(id) for id in state.get("passages", [])]
    if not passages and word(context, "nothing_found", "skipped") != "read":
        context.note("nothing_found", "the search found nothing; the reader was not asked")
        return {"reading": ""}
    query = written_query(context, state.get("query") or "").text

    def prompt(documents: str, reasoning: str) -> tuple[Message, ...]:
        """Render the prompt with these documents and this reasoning."""
        return context.prompts.render(
            "reason_in_documents/read", language, reasoning=reasoning, query=query, documents=documents
        )

    room = context.room(prompt("", ""), role="reading")
    before = (
        ending(context, state.get("reasoning", ""), None if room is None else room // 2, role="reading") or "(none)"
    )
    short = beginnings(passages, int_parameter(context, "document_characters", 3000, least=0))
    fitting = fitted(context, short, lambda documents: prompt(documents, before), role="reading")
    reply = await context.ask(prompt(render_documents(fitting), before), role="reading")
    return {"reading": reply.text}


async def distil(state: State, runtime: Runtime[Context]) -> State:
    """Keep the reader's text after its marker ``Final information``."""
    context = runtime.context
    if word(context, "information", "lenient") == "strict":
        strict = strict_information(state.get("reading", ""))
        return {"information": nothing(context) if strict is None else strict}
    text = without_thought(state.get("reading", ""))
    marked = _MARKER.split(text)[-1].strip() if _MARKER.search(text) else ""
    if not marked:
        if state.get("passages"):
            context.note("no_information", "the reader gave no final information")
        marked = nothing(context)
    return {"information": marked}


def nothing(context: Context) -> str:
    """Return the fixed text that replaces missing information."""
    return context.prompts.text("reason_in_documents/nothing", context.stem.language)


def strict_information(text: str) -> str | None:
    """Return the reader's text after its marker, as the program of Search-o1 reads it; ``None`` if there is
    no marker.

    The marker follows a line feed. Line feeds after it are deleted, so that words join. Without it, the text after the
    marker of modified steps counts, with its line feeds.
    """
    for marker, joined in (("\n**Final Information**", True), ("\n**Modified Reasoning Steps**", False)):
        if marker in text:
            information = text.rpartition(marker)[2]
            return (information.replace("\n", "") if joined else information).strip("`").strip()
    return None
