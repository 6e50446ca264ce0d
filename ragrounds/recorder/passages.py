"""Passages in whatever form a search of somebody else's gives them: documents, hits of a search engine, a text."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence

_SEARCHING = re.compile(r"(?i)(?<!re)search|retriev|look_?up|wikipedia|pubmed|arxiv|tavily|web")
"""Parts of a tool's name that say that it searches; who does *research* may write a report."""
TEXTS = ("page_content", "content", "text", "snippet", "body", "abstract", "raw_content", "summary")
TITLES = ("title", "name", "heading")
IDS = ("id", "doc_id", "url", "source", "link", "pmid")
SOURCES = ("doc_id", "document_id", "source", "file_path", "file_name")
LISTS = ("results", "hits", "documents", "items")
_MOST = 1_000
"""Passages of one search that are kept."""


def text_of(output: object) -> str:
    """The text of a tool's output."""
    content = getattr(output, "content", output)
    return content if isinstance(content, str) else str(content)


def passages_of(given: object) -> list[dict[str, object]]:
    """A list of what holds passages, best first, without what holds none."""
    found: list[dict[str, object]] = []
    for one in given[:_MOST] if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else ():
        made = passage_of(one, len(found) + 1)
        found += [made] if made["text"] else []
    return found


def searches(name: str) -> bool:
    """Whether a tool says by its name that it searches."""
    return _SEARCHING.search(name) is not None


def of_tool(output: object, name: str) -> list[dict[str, object]]:
    """The passages in a tool's output: documents beside its text, the hits of a search, or, of a tool that searches by
    its name, the text itself. Empty: it is of no such tool."""
    artifact = getattr(output, "artifact", None)
    given = next((one for one in (artifact, output) if isinstance(one, (list, tuple))), None)
    listed = _hits(getattr(output, "content", output)) if given is None else given
    made = passages_of([one for one in listed if not isinstance(one, str)])
    text = text_of(output)
    return made if made or not text.strip() or not searches(name) else [passage_of(text, 1)]


def passage_of(held: object, rank: int) -> dict[str, object]:
    """A passage of what describes one: a text, a mapping, a document of LangChain's, a node of LlamaIndex', a passage
    of ours; without text, where it is nothing of these.

    Its id is the one that is given (an id, an address), or made of its text.
    """
    if f"{type(held).__module__}.{type(held).__name__}" == "ragrounds.base.records.Passage":
        return {name: getattr(held, name) for name in type(held).__struct_fields__}  # type: ignore[attr-defined]
    one = getattr(held, "node", held)  # LlamaIndex has a score beside it
    about = one if isinstance(one, Mapping) else getattr(one, "metadata", None)
    given = {str(key): value for key, value in about.items()} if isinstance(about, Mapping) else {}
    if isinstance(one, str):
        given = {"text": one}
    elif callable(content := getattr(one, "get_content", None)):
        source = _first(given, SOURCES) or _lasting(getattr(one, "ref_doc_id", ""))
        id = given.get("id") or _lasting(getattr(one, "node_id", ""))
        given = {"text": str(content()), "id": id, "title": given.get("title"), "document": source}
        given["score"] = getattr(held, "score", None)
    elif isinstance(text := getattr(one, "page_content", None), str):
        given |= {"page_content": text, "id": getattr(one, "id", None) or given.get("id")}
    elif not isinstance(one, Mapping):
        given = {}
    text = _first(given, TEXTS)
    id = _first(given, IDS) or f"text-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
    score = given.get("score") or given.get("relevance_score") or given.get("_score")
    return {
        "id": id[:500],
        "document": (_first(given, ("document", "source")) or id)[:500],
        "title": _first(given, TITLES)[:1_000],
        "text": text,
        "score": float(score) if isinstance(score, (int, float)) else 0.0,
        "rank": rank,
    }


def _lasting(id: object) -> str:
    """An id that is the same in every process; empty: it was drawn by chance, as for an index that is made anew."""
    text = id if isinstance(id, str) else ""
    try:
        return "" if uuid.UUID(text).version == 4 else text
    except ValueError:
        return text


def _hits(content: object) -> Sequence[object]:
    """The hits in what a search engine gave, which may be JSON as text."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return ()
    if isinstance(content, Mapping):
        content = next((content[key] for key in LISTS if key in content), None)
    return content if isinstance(content, list) else ()


def _first(given: Mapping[str, object], names: Sequence[str]) -> str:
    found = (given.get(name) for name in names)
    return next((str(value) for value in found if isinstance(value, (str, int)) and str(value).strip()), "")
