"""Searches of one attempt, each counted once: reported by a framework's own events, or read in the recorded calls.

A result that is sent to a model is also in every later request of the conversation, and a search that a callback has
reported is sent to the model like any other. So searches in recorded calls are counted by call, and reported searches
are matched by their query or by the texts that they found, whichever comes first.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from ragrounds.base.contracts import Request
from ragrounds.base.http import BadReply
from ragrounds.base.records import ToolCall
from ragrounds.evals.trace.hops import PROVIDERS_OWN, SYSTEMS_OWN, plain_query
from ragrounds.models.reply_parts import as_json
from ragrounds.models.wire_forms import RecordedReply
from ragrounds.models.wire_parts import objects_in, shown_text
from ragrounds.models.wire_requests import Body
from ragrounds.models.wire_tools import ToolUse, provider_searches, tool_uses
from ragrounds.recorder.passages import of_tool, passage_of, searches

Passages = Sequence[Mapping[str, object]]
Record = Callable[[str, Passages, str, str], None]
"""Function that records a search: its query, its passages, the tool, and the owner of the corpus."""
_BEGINNING = 80
"""Number of characters by which a passage is recognized: a tool may truncate its results."""
_QUERIES = ("query", "search_query", "q", "question", "queries", "keywords", "text", "input")
"""Names of tool arguments that contain a query, the likeliest first."""


class _SeenSearch:
    """Search that is recorded, or use of a tool that its framework has reported."""

    def __init__(self, query: str, texts: Iterable[str], read: bool) -> None:
        self.query = plain_query(query)
        self.texts = [plain_query(text) for text in texts if text.strip()]
        self.read = read
        """True if it was read in a recorded call; False if it was reported."""
        self.matched = False
        """True if the other source has seen it too."""


class AttemptSearches:
    """Searches of an attempt, which may be reported from any thread."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._seen_searches: list[_SeenSearch] = []
        self._uses: Counter[tuple[str, str, str]] = Counter()
        self._replied: dict[str, ToolCall] = {}
        """Calls that replies requested, by their ids."""
        self._lock = threading.Lock()

    def is_new(self, query: str, texts: Iterable[str]) -> bool:
        """Return True if a reported search is new: it was not read in a recorded call before."""
        return self._is_new(_SeenSearch(query, texts, False), (query,))

    def used(self, query: str) -> None:
        """Record the use of a tool whose searches are reported separately."""
        self._is_new(_SeenSearch(query, (), False), (query,))

    def read_request(self, request: Request, body: Body) -> None:
        """Record the searches whose results are in a request, and in none before it."""
        n_in_request: Counter[tuple[str, str, str]] = Counter()
        with self._lock:
            replied = dict(self._replied)
        for use in tool_uses(request.messages, body, replied):
            call = use.call
            # A result with an id may be truncated or summarised later on; without an id, only its text distinguishes
            # it.
            use_key = (call.id, call.name, call.arguments + ("" if call.id else str(use.given)))
            n_in_request[use_key] += 1
            with self._lock:
                is_known = n_in_request[use_key] <= self._uses[use_key]
                self._uses[use_key] = max(n_in_request[use_key], self._uses[use_key])
            if not is_known:
                self._read_use(use)

    def read_reply(self, reply: RecordedReply) -> None:
        """Remember the calls that a reply requests, and record the searches that the provider made itself."""
        with self._lock:
            self._replied.update({call.id: call for call in reply.calls if call.id})
        try:
            provider_results = provider_searches(reply.body, reply.content_type)
        except (ValueError, BadReply, RecursionError):
            return
        for search in provider_results:
            query, _ = _query(search.query)
            if self._is_new(_SeenSearch(query, (), True), (query,)):
                passages = [passage_of(hit, rank) for rank, hit in enumerate(search.hits, 1)]
                self._record(query, passages, search.tool, PROVIDERS_OWN)

    def _read_use(self, use: ToolUse) -> None:
        passages = _passages(use.given, use.call.name)
        texts = [str(passage["text"]) for passage in passages]
        query, possible_queries = _query(use.call.arguments)
        with self._lock:
            seen_texts = {text for search in self._seen_searches for text in search.texts}
        handed_on = not searches(use.call.name) and all(plain_query(text) in seen_texts for text in texts)
        if not passages or handed_on:
            return
        if self._is_new(_SeenSearch(query, texts, True), possible_queries):
            self._record(query, passages, use.call.name or "tool", SYSTEMS_OWN)

    def _is_new(self, search: _SeenSearch, queries: Iterable[str]) -> bool:
        """Return True if no search of the other source equals this one; it is then remembered."""
        plain_queries = {plain_query(query) for query in queries} - {""}
        with self._lock:
            for seen in self._seen_searches:
                if (
                    seen.read != search.read
                    and not seen.matched
                    and (seen.query in plain_queries or _alike(seen.texts, search.texts))
                ):
                    seen.matched = True
                    return False
            self._seen_searches.append(search)
        return True


def _alike(texts_1: Sequence[str], texts_2: Sequence[str]) -> bool:
    """Return True if one side's texts are all contained in the other's, up to truncation."""
    joined_2, joined_1 = "\n".join(texts_2), "\n".join(texts_1)
    return bool(texts_1 and texts_2) and (
        all(text[:_BEGINNING] in joined_2 for text in texts_1) or all(text[:_BEGINNING] in joined_1 for text in texts_2)
    )


def _query(arguments: str) -> tuple[str, list[str]]:
    """Return the query among a call's arguments, and all texts that may be the query."""
    try:
        read = json.loads(arguments)
    except (ValueError, RecursionError):
        read = arguments
    if not isinstance(read, Mapping):
        return str(read), [str(read)]
    texts = {
        name: value if isinstance(value, str) else " · ".join(map(str, value))
        for name, value in read.items()
        if isinstance(value, str | list)
    }
    likeliest = next((texts[name] for name in _QUERIES if name in texts), next(iter(texts.values()), ""))
    return likeliest or arguments, list(texts.values())


def _passages(answer: object, name: str) -> list[dict[str, object]]:
    """Return the passages in a tool's answer in a request: a text, an object, or several of them."""
    while isinstance(answer, Mapping) and len(answer) == 1:  # Gemini's answers are objects: {"result": …}
        answer = next(iter(answer.values()))
    blocks = objects_in(answer)
    parts = [block for block in blocks if "type" in block]  # of a message; a hit has no such key
    texts = [text for part in parts if isinstance(text := part.get("text"), str)]
    if results := [part for part in parts if part["type"] == "search_result"]:
        return of_tool([{**hit, "text": shown_text(hit.get("content"))} for hit in results], name)
    if answer is None or (parts and not texts):
        return []
    if not texts:
        return of_tool(answer if blocks or isinstance(answer, str) else as_json(answer), name)
    read = [_object(text) for text in texts]
    if len(texts) == 1 and not (read[0] and searches(name)):
        return of_tool(texts[0], name)
    if not (all(read) or searches(name)):
        return []
    return of_tool([hit or {"text": text} for hit, text in zip(read, texts, strict=True)], name)


def _object(text: str) -> dict[str, object]:
    """Return a text that is a JSON object without a list of hits, because some frameworks send each hit that way; empty
    otherwise.
    """
    try:
        read = json.loads(text) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) and not any(isinstance(value, list) for value in read.values()) else {}
