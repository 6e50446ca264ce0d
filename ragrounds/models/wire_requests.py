"""Requests of the known forms on the wire: messages, tools, limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ragrounds.base.contracts import Request, Tool
from ragrounds.base.records import Message, Speaker, ToolCall
from ragrounds.base.text import wellformed
from ragrounds.models.reply_parts import as_json, read_arguments, read_calls, words
from ragrounds.models.wire_parts import first_number, gemini_calls, object_in, objects_in, shown_text

Body = Mapping[str, object]
MOST_SHOWN = 64
"""Texts of one embedding request that are kept to be shown."""


def _speaker(role: object) -> Speaker:
    if role in ("system", "developer"):
        return "system"
    if role in ("assistant", "model", "ai"):
        return "assistant"
    return "tool" if role in ("tool", "function") else "user"


def _tools(value: object) -> tuple[Tool, ...]:
    """Return tools in the forms of chat completions (`function`), responses (flat) and messages (`input_schema`)."""
    tools = []
    for declaration in objects_in(value):
        inner = declaration.get("function")
        function = inner if isinstance(inner, dict) else declaration
        schema = function.get("parameters") or function.get("input_schema") or {}
        name = words(function.get("name") or function.get("type"), 200)
        tools.append(Tool(name, words(function.get("description"), 10_000), schema if isinstance(schema, dict) else {}))
    return tuple(tools)


SHOWN = frozenset(
    "model messages contents input prompt documents query instructions system systemInstruction system_instruction "
    "tools stop stop_sequences max_tokens max_completion_tokens max_output_tokens".split()
)
"""Keys of a body that :func:`asked` reads."""
_OF_TOOLS = ("tool_use", "tool_result")


def read_request(body: Body) -> Request:
    """Return the request of a body of any form: its turns, its limits, its tools."""
    system = body.get("instructions") or body.get("system")
    system = system or object_in(body, "systemInstruction") or object_in(body, "system_instruction")
    system = system["parts"] if isinstance(system, dict) and "parts" in system else system
    turns = [Message("system", shown_text(system))] if system else []
    if "documents" in body:
        turns.append(Message("user", shown_text(body.get("query"))))
    name = next((name for name in ("messages", "contents", "input", "prompt", "documents") if name in body), "")
    conversation = body.get(name)
    plain = 0
    tokens = isinstance(conversation, list) and bool(conversation) and isinstance(conversation[0], int)
    for entry in conversation if isinstance(conversation, list) and not tokens else [conversation]:
        if isinstance(entry, dict) and name != "documents":
            turns += _turns(entry)
        elif entry is not None and (plain := plain + 1) <= MOST_SHOWN:
            text = (
                entry
                if isinstance(entry, str)
                else f"[{len(entry)} tokens]"
                if isinstance(entry, list)
                else as_json(entry)
            )
            turns.append(Message("user", wellformed(text)))
    groups = [
        tool_group["functionDeclarations"]
        for tool_group in objects_in(body.get("tools"))
        if "functionDeclarations" in tool_group
    ]
    limits = (body.get(name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"))
    stops = body.get("stop") or body.get("stop_sequences")
    stops = stops if isinstance(stops, list) else [stops]
    return Request(
        messages=tuple(turns),
        stop=tuple(stop for stop in stops if isinstance(stop, str)),
        max_tokens=first_number(*limits),
        tools=tuple(tool for group in groups for tool in _tools(group)) or _tools(body.get("tools")),
    )


def _turns(entry: Mapping[str, object]) -> Iterator[Message]:
    """Yield the turns of one entry of a conversation: the turn itself, and one for each result of a tool in it."""
    kind = entry.get("type")
    as_text = as_json if "parts" in entry else shown_text
    results = [Message("tool", as_text(result.given), answers=result.id or result.name) for result in results_in(entry)]
    if kind == "function_call":
        id, name = words(entry.get("call_id"), 200), words(entry.get("name"), 200)
        yield Message("assistant", "", (ToolCall(id, name, read_arguments(entry.get("arguments"))),))
    elif kind == "reasoning":
        yield Message("assistant", shown_text(entry.get("summary")))
    elif kind == "function_call_output" or _is_result(entry):
        yield from results
    else:
        calls, _ = read_calls(entry.get("tool_calls"))
        content = entry.get("content")
        for part in objects_in(content):
            if part.get("type") == "tool_use":
                id, name = words(part.get("id"), 200), words(part.get("name"), 200)
                calls += (ToolCall(id, name, as_json(part.get("input") or {})),)
        if isinstance(content, list):
            content = [part for part in content if not (isinstance(part, dict) and part.get("type") in _OF_TOOLS)]
        if parts := objects_in(entry.get("parts")):
            calls += gemini_calls(parts)
            content = [{"text": part["text"]} for part in parts if isinstance(part.get("text"), str)]
        yield from results
        if (text := shown_text(content)) or calls or not results:
            yield Message(_speaker(entry.get("role")), text, calls)


def _is_result(entry: Mapping[str, object]) -> bool:
    """Return True if a turn of a chat is a tool's."""
    return _speaker(entry.get("role")) == "tool" and "parts" not in entry


class ToolResult(NamedTuple):
    """Result of a tool in a conversation, with the id of its call and the tool's name, if these are known."""

    id: str
    name: str
    given: object


def results_in(item: Mapping[str, object]) -> list[ToolResult]:
    """Return the results of tools in one entry of a conversation, whatever its form."""
    if item.get("type") == "function_call_output":
        return [ToolResult(words(item.get("call_id"), 200), "", item.get("output"))]
    if _is_result(item):
        name = words(item.get("tool_name") or item.get("name"), 200)
        return [ToolResult(words(item.get("tool_call_id"), 200), name, item.get("content"))]
    blocks = [part for part in objects_in(item.get("content")) if part.get("type") == "tool_result"]
    results = [ToolResult(words(block.get("tool_use_id"), 200), "", block.get("content")) for block in blocks]
    responses = [
        object_in(part, "functionResponse") for part in objects_in(item.get("parts")) if "functionResponse" in part
    ]
    return results + [
        ToolResult(words(response.get("id"), 200), words(response.get("name"), 200), response.get("response"))
        for response in responses
    ]


def items_of(body: Body) -> list[dict[str, object]]:
    """Return the entries of the conversation in a body; empty if it is a single text or missing."""
    return objects_in(body.get(next((name for name in ("messages", "contents", "input") if name in body), "")))


def listed_asked(body: Body) -> Request:
    """Return the request of a call of unknown form, or the use of a tool, as one text."""
    query = body.get("query")
    sent = " ".join(map(str, query)) if isinstance(query, list) else ""
    payload = as_json(body["params"]) if "params" in body else body.get("body")
    return Request(messages=(Message("user", wellformed(f"{body.get('method')} {sent}\n{payload}".strip())),))


def response_format(body: Body) -> dict[str, object] | None:
    """Return the requested form of the reply, as chat completions name it; ``None`` if not set."""
    for requested in (object_in(body, "response_format"), object_in(object_in(body, "text"), "format")):
        if requested and requested.get("type") != "text":
            return requested
    schema = object_in(object_in(body, "generationConfig"), "responseSchema") or object_in(body, "format")
    if schema:
        return {"type": "json_schema", "json_schema": {"schema": schema}}
    return {"type": "json_object"} if body.get("format") == "json" else None


def tool_choice(body: Body) -> str | None:
    """Return which tool must be called: ``auto``, ``none``, ``required``, or its name; ``None`` if not set."""
    choice = body.get("tool_choice")
    if isinstance(choice, str):
        return choice
    if not isinstance(choice, dict):
        return None
    name = words(object_in(choice, "function").get("name") or choice.get("name"), 200)
    return name or {"any": "required"}.get(words(choice.get("type"), 60), words(choice.get("type"), 60)) or None
