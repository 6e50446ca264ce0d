"""Uses of tools in recorded calls: results of the system's tools in requests, and results of a provider's search tool
in answers.

A result is tied to its call by an id, by the tool's name, or by its position. If the form has no turn for it, it
follows ``Observation:`` in a text.
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
    """Use of a tool."""

    call: ToolCall
    given: object
    """Output of the tool as it was recorded: a text, a list of parts, an object."""


class ProviderSearch(Struct, frozen=True):
    """Search that a provider's tool made inside a model call."""

    tool: str
    query: str
    """Query, or a call's arguments, as JSON."""
    hits: Sequence[Mapping[str, object]]


_LONGEST = 100_000
"""Characters of a query that are read."""
_OBSERVED = "Observation:"
_ACTION, _INPUT = "Action:", "Action Input:"
"""Markers with which a model without turns for tools writes that it uses one."""


def tool_uses(
    messages: Sequence[Message], body: Mapping[str, object], replied: Mapping[str, ToolCall]
) -> Iterator[ToolUse]:
    """Yield the uses of tools whose results are in a request, in order.

    Args:
        messages: messages of the request, as :func:`ragrounds.models.wire_requests.read_request` reads them.
        body: body of the request.
        replied: calls requested by replies of the same attempt, by their ids: a request may contain results alone.
    """
    results = (tool_result for entry in items_of(body) for tool_result in results_in(entry))
    waiting: list[ToolCall] = []
    open_calls: list[ToolCall] = []
    for message in messages:
        waiting += message.calls
        if message.role == "tool" and (tool_result := next(results, None)) is not None:
            yield ToolUse(_take_call(tool_result, waiting, replied), tool_result.given)
        elif message.role == "assistant" and not message.calls:
            open_calls = [call for id, call in replied.items() if f"'{id}'" in message.content]
            acted, begins, rest = message.content.rpartition(_ACTION)[2].partition(_INPUT)
            arguments, observed, output = rest.partition(_OBSERVED)
            if begins:
                open_calls = [ToolCall("", acted.strip(), arguments.strip())]
            if begins and observed:
                yield ToolUse(open_calls.pop(), output.strip())
        elif message.role == "user" and message.content.startswith(_OBSERVED):
            # With several calls in one turn it is unknown which gave what: each gets the whole output.
            yield from (ToolUse(call, message.content.removeprefix(_OBSERVED).strip()) for call in open_calls)
            open_calls = []


def _take_call(tool_result: ToolResult, waiting: list[ToolCall], replied: Mapping[str, ToolCall]) -> ToolCall:
    """Return the call that a result answers, and remove it from `waiting`."""
    for call in waiting:
        if call.id == tool_result.id if tool_result.id and call.id else tool_result.name in ("", call.name):
            waiting.remove(call)
            return call
    return replied.get(tool_result.id) or ToolCall(tool_result.id, tool_result.name, "")


_MARKS = ("web_search_call", "file_search_call", "web_search_tool_result", "groundingMetadata")


def provider_searches(body: str, content_type: str) -> list[ProviderSearch]:
    """Return the searches that a provider made by itself while it answered.

    Args:
        body: body of an answer of a known form, complete or streamed.
        content_type: content type of the body.
    """
    searches: dict[str, ProviderSearch] = {}  # a stream may repeat a search
    cited: dict[str, Mapping[str, object]] = {}
    arguments: dict[str, str] = {}
    last = ""
    events = answer_events(body.encode(), content_type) if any(mark in body for mark in _MARKS) else ()
    for node in (node for event in events for node in _objects(event)):
        kind, id, action = node.get("type"), words(node.get("id"), 200), object_in(node, "action")
        if kind == "url_citation":
            cited[words(node.get("url"), _LONGEST)] = node
        elif kind == "web_search_call" and action.get("type", "search") == "search":
            query = _join_queries(action.get("queries") or action.get("query"))
            searches[id] = ProviderSearch("web_search", query, objects_in(action.get("sources")))
        elif kind == "file_search_call":
            files = objects_in(node.get("results"))
            hits = [{**file, "id": file.get("file_id"), "title": file.get("filename")} for file in files]
            searches[id] = ProviderSearch("file_search", _join_queries(node.get("queries")), hits)
        elif kind in ("server_tool_use", "tool_use"):
            last, arguments[id] = id, as_json(node.get("input") or "")
        elif kind == "input_json_delta":
            arguments[last] = arguments.get(last, "").removeprefix('""') + words(node.get("partial_json"), _LONGEST)
        elif kind == "web_search_tool_result":
            call = words(node.get("tool_use_id"), 200)
            searches[call] = ProviderSearch("web_search", arguments.get(call, ""), objects_in(node.get("content")))
        elif "webSearchQueries" in node or "groundingChunks" in node:
            chunks = [
                object_in(chunk, "web") or object_in(chunk, "retrievedContext")
                for chunk in objects_in(node.get("groundingChunks"))
            ]
            hits = [{**chunk, "url": chunk.get("uri")} for chunk in chunks]
            searches[id] = ProviderSearch("google_search", _join_queries(node.get("webSearchQueries")), hits)
    return [
        search
        if search.hits or search.tool != "web_search"
        else ProviderSearch(search.tool, search.query, list(cited.values()))
        for search in searches.values()
    ]


def _objects(value: object) -> Iterator[dict[str, object]]:
    """Yield all objects in a value, each before those inside it."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


def _join_queries(queries: object) -> str:
    """Return queries that were sent together, as one text: their results are not separated."""
    listed = queries if isinstance(queries, list) else [queries]
    return " · ".join(query for query in listed if isinstance(query, str))
