"""Conversion of foreign search results to passages: documents, hits of a search engine, a text."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence

_SEARCH_NAME = re.compile(r"(?i)(?<!re)search|retriev|look_?up|wikipedia|pubmed|arxiv|tavily|web")
"""Parts of a tool's name that indicate a search. *Research* is excluded, because such a tool may write a report."""
TEXTS = ("page_content", "content", "text", "snippet", "body", "abstract", "raw_content", "summary")
TITLES = ("title", "name", "heading")
IDS = ("id", "doc_id", "url", "source", "link", "pmid")
SOURCES = ("doc_id", "document_id", "source", "file_path", "file_name")
LISTS = ("results", "hits", "documents", "items")
_MAX_PASSAGES = 1_000
"""Maximum number of passages of one search."""


def text_of(output: object) -> str:
    """Return the text of a tool's output."""
    content = getattr(output, "content", output)
    return content if isinstance(content, str) else str(content)


def passages_of(hits: object) -> list[dict[str, object]]:
    """Convert a list of hits to passages, best first. Hits without text are left out."""
    passages: list[dict[str, object]] = []
    for hit in hits[:_MAX_PASSAGES] if isinstance(hits, Sequence) and not isinstance(hits, (str, bytes)) else ():
        passage = passage_of(hit, len(passages) + 1)
        passages += [passage] if passage["text"] else []
    return passages


def searches(name: str) -> bool:
    """Return True if a tool's name indicates that it searches."""
    return _SEARCH_NAME.search(name) is not None


def of_tool(output: object, name: str) -> list[dict[str, object]]:
    """Return the passages in a tool's output.

    These are documents attached to its text, the hits of a search, or, for a tool named like a search, the text itself.
    Empty for any other tool.
    """
    artifact = getattr(output, "artifact", None)
    sequence = next((candidate for candidate in (artifact, output) if isinstance(candidate, (list, tuple))), None)
    hits = _hits(getattr(output, "content", output)) if sequence is None else sequence
    passages = passages_of([hit for hit in hits if not isinstance(hit, str)])
    text = text_of(output)
    return passages if passages or not text.strip() or not searches(name) else [passage_of(text, 1)]


def passage_of(hit: object, rank: int) -> dict[str, object]:
    """Convert a text, a mapping, a LangChain document, a LlamaIndex node or a ragrounds passage to a passage.

    The text is empty for any other object. The id is the object's own (an id, an address), or a hash of its text.
    """
    if f"{type(hit).__module__}.{type(hit).__name__}" == "ragrounds.base.records.Passage":
        return {name: getattr(hit, name) for name in type(hit).__struct_fields__}  # type: ignore[attr-defined]
    node = getattr(hit, "node", hit)  # LlamaIndex wraps a node together with its score
    about = node if isinstance(node, Mapping) else getattr(node, "metadata", None)
    fields = {str(key): value for key, value in about.items()} if isinstance(about, Mapping) else {}
    if isinstance(node, str):
        fields = {"text": node}
    elif callable(content := getattr(node, "get_content", None)):
        source = _first(fields, SOURCES) or _stable_id(getattr(node, "ref_doc_id", ""))
        id = fields.get("id") or _stable_id(getattr(node, "node_id", ""))
        fields = {"text": str(content()), "id": id, "title": fields.get("title"), "document": source}
        fields["score"] = getattr(hit, "score", None)
    elif isinstance(text := getattr(node, "page_content", None), str):
        fields |= {"page_content": text, "id": getattr(node, "id", None) or fields.get("id")}
    elif not isinstance(node, Mapping):
        fields = {}
    text = _first(fields, TEXTS)
    id = _first(fields, IDS) or f"text-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
    score = fields.get("score") or fields.get("relevance_score") or fields.get("_score")
    return {
        "id": id[:500],
        "document": (_first(fields, ("document", "source")) or id)[:500],
        "title": _first(fields, TITLES)[:1_000],
        "text": text,
        "score": float(score) if isinstance(score, (int, float)) else 0.0,
        "rank": rank,
    }


def _stable_id(id: object) -> str:
    """Return an id that is the same in every process, or an empty text.

    A random id (UUID 4) differs for each rebuilt index.
    """
    text = id if isinstance(id, str) else ""
    try:
        return "" if uuid.UUID(text).version == 4 else text
    except ValueError:
        return text


def _hits(content: object) -> Sequence[object]:
    """Return the hits in a search engine's output, which may be JSON as text."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return ()
    if isinstance(content, Mapping):
        content = next((content[key] for key in LISTS if key in content), None)
    return content if isinstance(content, list) else ()


def _first(fields: Mapping[str, object], names: Sequence[str]) -> str:
    values = (fields.get(name) for name in names)
    return next((str(value) for value in values if isinstance(value, (str, int)) and str(value).strip()), "")
