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
from ragrounds.graphs.documents import beginnings, fitted, written
from ragrounds.graphs.model_text import ending, without_thought, written_query
from ragrounds.graphs.state import Graph, Runtime, graph_of, whole, word
from ragrounds.models.faults import CallFailed

PROMPTS = ("reason_in_documents/read", "reason_in_documents/nothing")

_MARKER = re.compile(
    # The words alone are prose; emphasis, a colon or the end of the line makes them a heading.
    r"\**\s*(?:final\s+information|最终信息)\s*(?:\*\*\s*[:：]?|[:：]\s*(?:\*\*)?|\n|\Z)",
    re.IGNORECASE,
)


class State(TypedDict, total=False):
    query: str | None
    reasoning: str
    """The reasoning so far, for the reader."""
    passages: list[str]
    reading: str
    """What the reader wrote, all of it."""
    information: str
    """What is worth keeping of it."""


def build() -> Graph:
    """START → search → read → distil → END."""
    return graph_of(State, {"search": search, "read": read, "distil": distil})


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the query."""
    context = runtime.context
    query = written_query(context, state.get("query") or "", raw=word(context, "queries", "closed") == "as_is")
    try:
        found = await context.search(query, whole(context, "top_k", 10))
    except CallFailed as failed:
        if word(context, "failed_search", "fails") != "empty":
            raise
        context.note("search_failed", f"taken as a search that found nothing: {failed.message}")
        found = ()
    return {"passages": [passage.id for passage in found]}


async def read(state: State, runtime: Runtime[Context]) -> State:
    """Have the reader model read what was found, beside the reasoning so far."""
    context, language = runtime.context, runtime.context.stem.language
    found = [context.passage(id) for id in state.get("passages", [])]
    if not found and word(context, "nothing_found", "skipped") != "read":
        context.note("nothing_found", "the search found nothing; the reader was not asked")
        return {"reading": ""}
    query = written_query(context, state.get("query") or "").text

    def prompt(documents: str, reasoning: str) -> tuple[Message, ...]:
        """With these documents and this reasoning."""
        return context.prompts.render(
            "reason_in_documents/read", language, reasoning=reasoning, query=query, documents=documents
        )

    room = context.room(prompt("", ""), role="reading")
    before = (
        ending(context, state.get("reasoning", ""), None if room is None else room // 2, role="reading") or "(none)"
    )
    short = beginnings(found, whole(context, "document_characters", 3000, least=0))
    kept = fitted(context, short, lambda documents: prompt(documents, before), role="reading")
    reply = await context.ask(prompt(written(kept), before), role="reading")
    return {"reading": reply.text}


async def distil(state: State, runtime: Runtime[Context]) -> State:
    """Keep what the reader wrote after its marker ``Final information``."""
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
    """The fixed text in place of information that there is not."""
    return context.prompts.text("reason_in_documents/nothing", context.stem.language)


def strict_information(text: str) -> str | None:
    """What a reader wrote after its marker, as the program of Search-o1 reads it; ``None``: there is no marker.

    The marker follows a line feed. Line feeds after it are deleted, so that words join. Without it, what follows the
    marker of modified steps counts, with its line feeds.
    """
    for marker, joined in (("\n**Final Information**", True), ("\n**Modified Reasoning Steps**", False)):
        if marker in text:
            found = text.rpartition(marker)[2]
            return (found.replace("\n", "") if joined else found).strip("`").strip()
    return None
