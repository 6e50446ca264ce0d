"""Answers of agents' tools: a passage's neighbours in its document, and pages.

An answer is JSON: titles and texts of documents and pages are inside strings, so that nothing in them — an end
marker, a tag, a template — can be taken for a part of the answer's form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ragrounds.base.contracts import Library
from ragrounds.base.records import Passage, ToolAnswer

if TYPE_CHECKING:
    from ragrounds.tools.web_pages import Fetcher

PAGE = 20_000
"""Number of characters of a page or a document that a tool returns at once."""


async def fetched_answer(fetcher: Fetcher, url: str, looking_for: str = "") -> ToolAnswer:
    """Return a page's text, or the part of it around a snippet.

    If a page cannot be fetched, the answer states the reason.
    """
    from ragrounds.tools.web_pages import FetchFailed, excerpt, extract

    try:
        page = extract(await fetcher.fetch(url))
    except FetchFailed as problem:
        return ToolAnswer(_json({"error": str(problem)}))
    text = excerpt(page.text, looking_for) if looking_for else page.text
    passage = Passage(id=page.url, document=page.url, title=page.title, text=text, corpus="web", rank=1)
    row = {"url": page.url, "title": page.title, "text": text[:PAGE], "characters": len(page.text)}
    return ToolAnswer(_json(row), (passage,))


def read_answer(library: Library, passage: str, around: int, whole_document: bool, document: str = "") -> ToolAnswer:
    """Return a passage's neighbours in its document, or the whole document.

    If the passage does not exist, the answer says so. `document` is the document's id, if known.
    """
    passages = _neighbours(library, passage, around, whole_document, document)
    if not passages:
        return ToolAnswer(_json({"error": f"There is no passage {passage!r} in the corpus."}))
    # Rows until PAGE characters are full; the first is cut if it alone is longer. The number of
    # rows left out is reported.
    rows: list[dict[str, object]] = []
    room = PAGE
    for neighbour in passages:
        if rows and len(neighbour.text) > room:
            rows.append({"left_out": len(passages) - len(rows)})
            break
        rows.append({"id": neighbour.id, "title": neighbour.title, "text": neighbour.text[:room]})
        room -= len(neighbour.text)
    return ToolAnswer(_json(rows), tuple(passages))


def _neighbours(
    library: Library, identity: str, around: int, whole_document: bool, known_document: str
) -> Sequence[Passage]:
    """Return the passages around a passage.

    The document is `known_document`, the part of the id before its last ``_NUMBER``, or the id itself.
    """
    for document in dict.fromkeys((known_document, identity, identity.rpartition("_")[0])):
        passages = library.document(document) if document else []
        indices = [index for index, passage in enumerate(passages) if passage.id == identity]
        if indices:
            return passages if whole_document else passages[max(0, indices[0] - around) : indices[0] + around + 1]
        if passages and document == identity:
            return passages if whole_document else passages[: around + 1]
    return []


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
