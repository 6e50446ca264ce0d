"""The searches of one attempt, each once: told of by a framework's own events, or read in the calls that were recorded.

A result that a model is sent stands in every later request of the conversation too, and a search that a callback has
told of is sent to the model as any other. So what is read is counted by call, and what was told of is matched by its
query or by the texts that it found, whichever comes first.
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
"""Records a search: its query, its passages, the tool, whose corpus it searched."""
_BEGINNING = 80
"""Characters by which a passage is known again: a tool may cut what it hands on."""
_QUERIES = ("query", "search_query", "q", "question", "queries", "keywords", "text", "input")
"""Arguments of tools that hold a query, the likeliest first."""


class _Made:
    """A search that is recorded, or a use of a tool that its framework has told of."""

    def __init__(self, query: str, texts: Iterable[str], read: bool) -> None:
        self.query = plain_query(query)
        self.texts = [plain_query(text) for text in texts if text.strip()]
        self.read = read
        """In a recorded call; else it was told of."""
        self.matched = False
        """The other side has told of it too."""


class AttemptSearches:
    """Which searches an attempt has made, from whatever thread they are told of."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._made: list[_Made] = []
        self._uses: Counter[tuple[str, str, str]] = Counter()
        self._replied: dict[str, ToolCall] = {}
        """Calls that replies asked for, by their ids."""
        self._lock = threading.Lock()

    def told(self, query: str, texts: Iterable[str]) -> bool:
        """Whether a search that is told of is news: it was not read in a recorded call before."""
        return self._is_new(_Made(query, texts, False), (query,))

    def used(self, query: str) -> None:
        """Note the use of a tool whose searches are told of."""
        self._is_new(_Made(query, (), False), (query,))

    def read_request(self, asked: Request, body: Body) -> None:
        """Record the searches whose results stand in a request, and in none before it."""
        here: Counter[tuple[str, str, str]] = Counter()
        with self._lock:
            replied = dict(self._replied)
        for use in tool_uses(asked.messages, body, replied):
            call = use.call
            # One with an id may be cut or summarised later on; without, only what it gave tells it from another.
            one = (call.id, call.name, call.arguments + ("" if call.id else str(use.given)))
            here[one] += 1
            with self._lock:
                known = here[one] <= self._uses[one]
                self._uses[one] = max(here[one], self._uses[one])
            if not known:
                self._read_use(use)

    def read_reply(self, reply: RecordedReply) -> None:
        """Keep what a reply asks for, and record the searches that the provider made itself."""
        with self._lock:
            self._replied.update({call.id: call for call in reply.calls if call.id})
        try:
            made = provider_searches(reply.body, reply.content_type)
        except (ValueError, BadReply, RecursionError):
            return
        for one in made:
            query, _ = _query(one.query)
            if self._is_new(_Made(query, (), True), (query,)):
                passages = [passage_of(hit, rank) for rank, hit in enumerate(one.hits, 1)]
                self._record(query, passages, one.tool, PROVIDERS_OWN)

    def _read_use(self, use: ToolUse) -> None:
        found = _passages(use.given, use.call.name)
        texts = [str(one["text"]) for one in found]
        query, others = _query(use.call.arguments)
        with self._lock:
            known = {text for one in self._made for text in one.texts}
        handed_on = not searches(use.call.name) and all(plain_query(text) in known for text in texts)
        if not found or handed_on:
            return
        if self._is_new(_Made(query, texts, True), others):
            self._record(query, found, use.call.name or "tool", SYSTEMS_OWN)

    def _is_new(self, made: _Made, queries: Iterable[str]) -> bool:
        """Whether no search that the other side has brought is this one; it is kept."""
        asked = {plain_query(query) for query in queries} - {""}
        with self._lock:
            for one in self._made:
                if one.read != made.read and not one.matched and (one.query in asked or _alike(one.texts, made.texts)):
                    one.matched = True
                    return False
            self._made.append(made)
        return True


def _alike(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether all that one side found stands in what the other found, as far as it was not cut."""
    whole, rest = "\n".join(others), "\n".join(some)
    return bool(some and others) and (
        all(text[:_BEGINNING] in whole for text in some) or all(text[:_BEGINNING] in rest for text in others)
    )


def _query(arguments: str) -> tuple[str, list[str]]:
    """The query among a call's arguments, and all texts that may be it."""
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


def _passages(given: object, name: str) -> list[dict[str, object]]:
    """The passages in what a tool gave, as it stands in a request: a text, an object, or several of them."""
    while isinstance(given, Mapping) and len(given) == 1:  # Gemini's answers are objects: {"result": …}
        given = next(iter(given.values()))
    blocks = objects_in(given)
    parts = [one for one in blocks if "type" in one]  # of a message; a hit has no such key
    texts = [text for one in parts if isinstance(text := one.get("text"), str)]
    if results := [one for one in parts if one["type"] == "search_result"]:
        return of_tool([{**one, "text": shown_text(one.get("content"))} for one in results], name)
    if given is None or (parts and not texts):
        return []
    if not texts:
        return of_tool(given if blocks or isinstance(given, str) else as_json(given), name)
    read = [_object(text) for text in texts]
    if len(texts) == 1 and not (read[0] and searches(name)):
        return of_tool(texts[0], name)
    if not (all(read) or searches(name)):
        return []
    return of_tool([one or {"text": text} for one, text in zip(read, texts, strict=True)], name)


def _object(text: str) -> dict[str, object]:
    """A text that is a JSON object without a list of hits, as some frameworks send each hit; empty: it is none."""
    try:
        read = json.loads(text) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) and not any(isinstance(one, list) for one in read.values()) else {}
