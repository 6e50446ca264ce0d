"""Passages in whatever form a search of somebody else's gives them: documents, hits of a search engine, a text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SEARCHING = re.compile(r"(?i)(?<!re)search|retriev|look_?up|wikipedia|pubmed|arxiv|tavily|web")
"""Parts of a tool's name that say that it searches; who does *research* may write a report."""
_TEXTS = ("page_content", "content", "text", "snippet", "body", "abstract", "raw_content", "summary")
_TITLES = ("title", "name", "heading")
_IDS = ("id", "doc_id", "url", "source", "link", "pmid")
_LISTS = ("results", "hits", "documents", "items")
_MOST = 1_000
"""Passages of one search that are kept."""


def text_of(output: object) -> str:
    """The text of a tool's output."""
    content = getattr(output, "content", output)
    return content if isinstance(content, str) else str(content)


def of_documents(documents: Sequence[Any]) -> list[dict[str, object]]:
    """LangChain's documents as passages, best first."""
    return [_of_document(one, rank) for rank, one in enumerate(documents[:_MOST], 1)]


def searches(name: str) -> bool:
    """Whether a tool says by its name that it searches."""
    return _SEARCHING.search(name) is not None


def of_tool(output: object, name: str) -> list[dict[str, object]]:
    """The passages in a tool's output: documents beside its text, the hits of a search, or, of a tool that searches by
    its name, the text itself. Empty: it is of no such tool."""
    artifact = getattr(output, "artifact", None)
    listed = artifact if isinstance(artifact, (list, tuple)) else output if isinstance(output, (list, tuple)) else None
    made = list(_listed(_hits(getattr(output, "content", output)) if listed is None else listed))
    text = text_of(output)
    if not made and text.strip() and searches(name):
        made = [passage_of({"text": text}, 1)]
    return made


def passage_of(given: Mapping[str, object], rank: int) -> dict[str, object]:
    """A passage from what describes one. Its id is the one that is given (an id, an address), or made of its text."""
    text = _first(given, _TEXTS)
    id = _first(given, _IDS) or f"text-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
    score = given.get("score") or given.get("relevance_score") or given.get("_score")
    return {
        "id": id[:500],
        "document": str(given.get("document") or id)[:500],
        "title": _first(given, _TITLES)[:1_000],
        "text": text,
        "score": float(score) if isinstance(score, (int, float)) else 0.0,
        "rank": rank,
    }


def _of_document(document: Any, rank: int) -> dict[str, object]:
    known = document.metadata if isinstance(document.metadata, dict) else {}
    given: dict[str, object] = {str(key): value for key, value in known.items()}
    return passage_of({**given, "page_content": document.page_content, "id": document.id or given.get("id")}, rank)


def _is_document(one: object) -> bool:
    """Whether it is LangChain's, which need not be installed."""
    return isinstance(getattr(one, "page_content", None), str) and hasattr(one, "metadata")


def _listed(given: Sequence[object]) -> Iterator[dict[str, object]]:
    rank = 0
    for one in given[:_MOST]:
        if _is_document(one):
            rank += 1
            yield _of_document(one, rank)
        elif isinstance(one, Mapping) and _first(one, _TEXTS):
            rank += 1
            yield passage_of({str(key): value for key, value in one.items()}, rank)


def _hits(content: object) -> Sequence[object]:
    """The hits in what a search engine gave, which may be JSON as text."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return ()
    if isinstance(content, Mapping):
        content = next((content[key] for key in _LISTS if key in content), None)
    return content if isinstance(content, list) else ()


def _first(given: Mapping[str, object], names: Sequence[str]) -> str:
    found = (given.get(name) for name in names)
    return next((str(value) for value in found if isinstance(value, (str, int)) and str(value).strip()), "")
