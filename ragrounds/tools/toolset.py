"""What agents' tools answer with: a passage's neighbours in its document, pages.

An answer is JSON: titles and texts of documents and pages stand inside strings, so that nothing in them — an end
marker, a tag, a template — can be taken for a part of the answer's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ragrounds.base.contracts import Library
from ragrounds.base.records import Passage, ToolAnswer

if TYPE_CHECKING:
    from ragrounds.tools.web.pages import Fetcher

PAGE = 20_000
"""Characters of a page or a document that a tool gives at once."""


async def fetched_answer(fetcher: Fetcher, url: str, looking_for: str = "") -> ToolAnswer:
    """A page's text, or the part of it around a snippet; a page that cannot be had is an answer that says why."""
    from ragrounds.tools.web.pages import FetchFailed, excerpt, extract

    try:
        page = extract(await fetcher.fetch(url))
    except FetchFailed as problem:
        return ToolAnswer(_json({"error": str(problem)}))
    text = excerpt(page.text, looking_for) if looking_for else page.text
    passage = Passage(id=page.url, document=page.url, title=page.title, text=text, corpus="web", rank=1)
    row = {"url": page.url, "title": page.title, "text": text[:PAGE], "characters": len(page.text)}
    return ToolAnswer(_json(row), (passage,))


def read_answer(library: Library, passage: str, around: int, whole: bool, document: str = "") -> ToolAnswer:
    """A passage's neighbours in its document, or the whole document; an answer says so where there is none. `document`
    is the document's id, where it is known."""
    found = _neighbours(library, passage, around, whole, document)
    if not found:
        return ToolAnswer(_json({"error": f"There is no passage {passage!r} in the corpus."}))
    # Rows until PAGE characters are full; the first is cut where it alone is longer, and what is left out is said.
    rows: list[dict[str, object]] = []
    room = PAGE
    for one in found:
        if rows and len(one.text) > room:
            rows.append({"left_out": len(found) - len(rows)})
            break
        rows.append({**_row(one), "text": one.text[:room]})
        room -= len(one.text)
    return ToolAnswer(_json(rows), tuple(found))


def _neighbours(library: Library, identity: str, around: int, whole: bool, known: str) -> Sequence[Passage]:
    """The passages around one; the document is the `known` one, what the id names before its last ``_NUMBER``, or the
    id itself."""
    for document in dict.fromkeys((known, identity, identity.rpartition("_")[0])):
        passages = library.document(document) if document else []
        places = [place for place, passage in enumerate(passages) if passage.id == identity]
        if places:
            return passages if whole else passages[max(0, places[0] - around) : places[0] + around + 1]
        if passages and document == identity:
            return passages if whole else passages[: around + 1]
    return []


def _row(passage: Passage) -> dict[str, object]:
    return {"id": passage.id, "title": passage.title, "text": passage.text}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
