"""What tools were used for and gave, as it stands in recorded calls: in requests the results of the system's own tools,
in answers what a provider's search tool found.

A result is tied to its call by an id, by the tool's name, or by its place. Where the form has no turn for it, it stands
in a text behind ``Observation:``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.records import Message, ToolCall
from ragrounds.models.reply_parts import as_json, words
from ragrounds.models.wire_parts import object_in, objects_in
from ragrounds.models.wire_replies import answer_events
from ragrounds.models.wire_requests import ToolResult, items_of, results_in


class ToolUse(Struct, frozen=True):
    """A tool that was used."""

    call: ToolCall
    given: object
    """What it gave, as it stands there: a text, a list of parts, an object."""


class ProviderSearch(Struct, frozen=True):
    """A search that a provider's own tool made inside a model call."""

    tool: str
    query: str
    """Or a call's arguments, as JSON."""
    hits: Sequence[Mapping[str, object]]


_LONGEST = 100_000
"""Characters of a query that are read."""
_OBSERVED = "Observation:"
_ACTION, _INPUT = "Action:", "Action Input:"
"""How a model that has no turns for tools writes that it uses one."""


def tool_uses(
    messages: Sequence[Message], body: Mapping[str, object], replied: Mapping[str, ToolCall]
) -> Iterator[ToolUse]:
    """The uses of tools whose results stand in a request, in their order.

    Args:
        messages: of the request, as :func:`ragrounds.models.wire_requests.asked` reads them.
        body: of the request.
        replied: calls that replies of the same attempt asked for, by their ids: a request may hold results alone.
    """
    results = (result for item in items_of(body) for result in results_in(item))
    waiting: list[ToolCall] = []
    written: list[ToolCall] = []
    for message in messages:
        waiting += message.calls
        if message.role == "tool" and (result := next(results, None)) is not None:
            yield ToolUse(_answered(result, waiting, replied), result.given)
        elif message.role == "assistant" and not message.calls:
            written = [call for id, call in replied.items() if f"'{id}'" in message.content]
            acted, begins, rest = message.content.rpartition(_ACTION)[2].partition(_INPUT)
            arguments, observed, given = rest.partition(_OBSERVED)
            if begins:
                written = [ToolCall("", acted.strip(), arguments.strip())]
            if begins and observed:
                yield ToolUse(written.pop(), given.strip())
        elif message.role == "user" and message.content.startswith(_OBSERVED):
            # Of several calls in one turn it is not said which gave what: each found some of it.
            yield from (ToolUse(call, message.content.removeprefix(_OBSERVED).strip()) for call in written)
            written = []


def _answered(result: ToolResult, waiting: list[ToolCall], replied: Mapping[str, ToolCall]) -> ToolCall:
    """The call that a result answers; it waits no longer."""
    for call in waiting:
        if call.id == result.id if result.id and call.id else result.name in ("", call.name):
            waiting.remove(call)
            return call
    return replied.get(result.id) or ToolCall(result.id, result.name, "")


_MARKS = ("web_search_call", "file_search_call", "web_search_tool_result", "groundingMetadata")


def provider_searches(body: str, content_type: str) -> list[ProviderSearch]:
    """The searches that a provider made by itself while it answered.

    Args:
        body: of an answer of a known form, whole or streamed.
        content_type: of it.
    """
    made: dict[str, ProviderSearch] = {}  # a stream may bring one more than once
    cited: dict[str, Mapping[str, object]] = {}
    asked: dict[str, str] = {}
    last = ""
    events = answer_events(body.encode(), content_type) if any(mark in body for mark in _MARKS) else ()
    for one in (one for event in events for one in _objects(event)):
        kind, id, action = one.get("type"), words(one.get("id"), 200), object_in(one, "action")
        if kind == "url_citation":
            cited[words(one.get("url"), _LONGEST)] = one
        elif kind == "web_search_call" and action.get("type", "search") == "search":
            query = _joined(action.get("queries") or action.get("query"))
            made[id] = ProviderSearch("web_search", query, objects_in(action.get("sources")))
        elif kind == "file_search_call":
            files = objects_in(one.get("results"))
            hits = [{**file, "id": file.get("file_id"), "title": file.get("filename")} for file in files]
            made[id] = ProviderSearch("file_search", _joined(one.get("queries")), hits)
        elif kind in ("server_tool_use", "tool_use"):
            last, asked[id] = id, as_json(one.get("input") or "")
        elif kind == "input_json_delta":
            asked[last] = asked.get(last, "").removeprefix('""') + words(one.get("partial_json"), _LONGEST)
        elif kind == "web_search_tool_result":
            call = words(one.get("tool_use_id"), 200)
            made[call] = ProviderSearch("web_search", asked.get(call, ""), objects_in(one.get("content")))
        elif "webSearchQueries" in one or "groundingChunks" in one:
            chunks = [
                object_in(chunk, "web") or object_in(chunk, "retrievedContext")
                for chunk in objects_in(one.get("groundingChunks"))
            ]
            hits = [{**chunk, "url": chunk.get("uri")} for chunk in chunks]
            made[id] = ProviderSearch("google_search", _joined(one.get("webSearchQueries")), hits)
    return [
        one if one.hits or one.tool != "web_search" else ProviderSearch(one.tool, one.query, list(cited.values()))
        for one in made.values()
    ]


def _objects(value: object) -> Iterator[dict[str, object]]:
    """All objects in a value, each before those in it."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


def _joined(queries: object) -> str:
    """Queries that were asked together: which of them found what is not said."""
    listed = queries if isinstance(queries, list) else [queries]
    return " · ".join(one for one in listed if isinstance(one, str))
