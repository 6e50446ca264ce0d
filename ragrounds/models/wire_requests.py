"""What is asked in requests of the forms that are known at the wire: messages, tools, limits."""

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
    """Tools in the forms of chat completions (`function`), responses (flat) and messages (`input_schema`)."""
    made = []
    for given in objects_in(value):
        inner = given.get("function")
        one = inner if isinstance(inner, dict) else given
        schema = one.get("parameters") or one.get("input_schema") or {}
        name = words(one.get("name") or one.get("type"), 200)
        made.append(Tool(name, words(one.get("description"), 10_000), schema if isinstance(schema, dict) else {}))
    return tuple(made)


def _stop(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    return tuple(one for one in given if isinstance(one, str))


SHOWN = frozenset(
    "model messages contents input prompt documents query instructions system systemInstruction system_instruction "
    "tools stop stop_sequences max_tokens max_completion_tokens max_output_tokens".split()
)
"""Keys of a body that :func:`asked` reads."""
_OF_TOOLS = ("tool_use", "tool_result")


def asked(body: Body) -> Request:
    """What a body of any form asks: its turns, its limits, its tools."""
    system = body.get("instructions") or body.get("system")
    system = system or object_in(body, "systemInstruction") or object_in(body, "system_instruction")
    system = system["parts"] if isinstance(system, dict) and "parts" in system else system
    turns = [Message("system", shown_text(system))] if system else []
    if "documents" in body:
        turns.append(Message("user", shown_text(body.get("query"))))
    name = next((name for name in ("messages", "contents", "input", "prompt", "documents") if name in body), "")
    given = body.get(name)
    plain = 0
    tokens = isinstance(given, list) and bool(given) and isinstance(given[0], int)
    for item in given if isinstance(given, list) and not tokens else [given]:
        if isinstance(item, dict) and name != "documents":
            turns += _turns(item)
        elif item is not None and (plain := plain + 1) <= MOST_SHOWN:
            text = (
                item if isinstance(item, str) else f"[{len(item)} tokens]" if isinstance(item, list) else as_json(item)
            )
            turns.append(Message("user", wellformed(text)))
    groups = [one["functionDeclarations"] for one in objects_in(body.get("tools")) if "functionDeclarations" in one]
    limits = (body.get(name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"))
    return Request(
        messages=tuple(turns),
        stop=_stop(body.get("stop") or body.get("stop_sequences")),
        max_tokens=first_number(*limits),
        tools=tuple(tool for group in groups for tool in _tools(group)) or _tools(body.get("tools")),
    )


def _turns(item: Mapping[str, object]) -> Iterator[Message]:
    """The turns that one item of a conversation stands for: one, and one for each result of a tool in it."""
    kind = item.get("type")
    shown = as_json if "parts" in item else shown_text
    results = [Message("tool", shown(one.given), answers=one.id or one.name) for one in results_in(item)]
    if kind == "function_call":
        id, name = words(item.get("call_id"), 200), words(item.get("name"), 200)
        yield Message("assistant", "", (ToolCall(id, name, read_arguments(item.get("arguments"))),))
    elif kind == "reasoning":
        yield Message("assistant", shown_text(item.get("summary")))
    elif kind == "function_call_output" or _is_result(item):
        yield from results
    else:
        calls, _ = read_calls(item.get("tool_calls"))
        said = item.get("content")
        for part in objects_in(said):
            if part.get("type") == "tool_use":
                id, name = words(part.get("id"), 200), words(part.get("name"), 200)
                calls += (ToolCall(id, name, as_json(part.get("input") or {})),)
        if isinstance(said, list):
            said = [part for part in said if not (isinstance(part, dict) and part.get("type") in _OF_TOOLS)]
        if parts := objects_in(item.get("parts")):
            calls += gemini_calls(parts)
            said = [{"text": part["text"]} for part in parts if isinstance(part.get("text"), str)]
        yield from results
        if (text := shown_text(said)) or calls or not results:
            yield Message(_speaker(item.get("role")), text, calls)


def _is_result(item: Mapping[str, object]) -> bool:
    """Whether a turn of a chat is a tool's."""
    return _speaker(item.get("role")) == "tool" and "parts" not in item


class ToolResult(NamedTuple):
    """What a tool gave, as it stands in a conversation; the id of its call, and its name, where these stand there."""

    id: str
    name: str
    given: object


def results_in(item: Mapping[str, object]) -> list[ToolResult]:
    """The results of tools that one item of a conversation holds, whatever its form."""
    if item.get("type") == "function_call_output":
        return [ToolResult(words(item.get("call_id"), 200), "", item.get("output"))]
    if _is_result(item):
        name = words(item.get("tool_name") or item.get("name"), 200)
        return [ToolResult(words(item.get("tool_call_id"), 200), name, item.get("content"))]
    blocks = [part for part in objects_in(item.get("content")) if part.get("type") == "tool_result"]
    made = [ToolResult(words(one.get("tool_use_id"), 200), "", one.get("content")) for one in blocks]
    told = [object_in(part, "functionResponse") for part in objects_in(item.get("parts")) if "functionResponse" in part]
    return made + [
        ToolResult(words(one.get("id"), 200), words(one.get("name"), 200), one.get("response")) for one in told
    ]


def items_of(body: Body) -> list[dict[str, object]]:
    """The items of the conversation that a body holds; none where it is one text, or none."""
    return objects_in(body.get(next((name for name in ("messages", "contents", "input") if name in body), "")))


def listed_asked(body: Body) -> Request:
    """What a call of no known form asks, or the use of a tool, as one text."""
    query = body.get("query")
    sent = " ".join(map(str, query)) if isinstance(query, list) else ""
    told = as_json(body["params"]) if "params" in body else body.get("body")
    return Request(messages=(Message("user", wellformed(f"{body.get('method')} {sent}\n{told}".strip())),))


def response_format(body: Body) -> dict[str, object] | None:
    """The form that a reply is asked for in, as chat completions name it, whichever form asks; ``None``: none."""
    for given in (object_in(body, "response_format"), object_in(object_in(body, "text"), "format")):
        if given and given.get("type") != "text":
            return given
    schema = object_in(object_in(body, "generationConfig"), "responseSchema") or object_in(body, "format")
    if schema:
        return {"type": "json_schema", "json_schema": {"schema": schema}}
    return {"type": "json_object"} if body.get("format") == "json" else None


def tool_choice(body: Body) -> str | None:
    """Which tool is to be called: ``auto``, ``none``, ``required``, or its name; ``None``: nothing is said."""
    given = body.get("tool_choice")
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        return None
    named = words(object_in(given, "function").get("name") or given.get("name"), 200)
    return named or {"any": "required"}.get(words(given.get("type"), 60), words(given.get("type"), 60)) or None
