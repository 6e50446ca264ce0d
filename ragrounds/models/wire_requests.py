"""What is asked in requests of the forms that are known at the wire: messages, tools, limits."""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.contracts import Request, Tool
from ragrounds.models.reply_parts import as_json, read_arguments, read_calls, words
from ragrounds.models.wire_parts import first_number, gemini_calls, object_in, objects_in, shown_text
from ragrounds.records import Message, Speaker, ToolCall
from ragrounds.text import wellformed

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


def chat_asked(body: Body) -> Request:
    """What a body of this form asks."""
    messages = []
    for given in objects_in(body.get("messages")):
        calls, _ = read_calls(given.get("tool_calls"))
        answers = words(given.get("tool_call_id"), 200)
        messages.append(Message(_speaker(given.get("role")), shown_text(given.get("content")), calls, answers))
    return Request(
        messages=tuple(messages),
        stop=_stop(body.get("stop")),
        max_tokens=first_number(body.get("max_completion_tokens"), body.get("max_tokens")),
        tools=_tools(body.get("tools")),
    )


def prompt_asked(body: Body) -> Request:
    """What a body of this form asks."""
    given = body.get("prompt")
    prompts = given if isinstance(given, list) else [given]
    return Request(
        messages=tuple(Message("user", shown_text(one)) for one in prompts[:MOST_SHOWN]),
        stop=_stop(body.get("stop")),
        max_tokens=first_number(body.get("max_tokens")),
    )


def responses_asked(body: Body) -> Request:
    """What a body of this form asks."""
    messages = [Message("system", shown_text(body["instructions"]))] if body.get("instructions") else []
    given = body.get("input")
    if isinstance(given, str):
        messages.append(Message("user", given))
    for item in objects_in(given):
        kind = item.get("type")
        if kind == "function_call":
            call = ToolCall(
                words(item.get("call_id"), 200), words(item.get("name"), 200), read_arguments(item.get("arguments"))
            )
            messages.append(Message("assistant", "", (call,)))
        elif kind == "function_call_output":
            messages.append(Message("tool", shown_text(item.get("output")), answers=words(item.get("call_id"), 200)))
        elif "role" in item:
            messages.append(Message(_speaker(item["role"]), shown_text(item.get("content"))))
        elif kind == "reasoning":
            messages.append(Message("assistant", shown_text(item.get("summary"))))
    return Request(
        messages=tuple(messages),
        max_tokens=first_number(body.get("max_output_tokens")),
        tools=_tools(body.get("tools")),
    )


def messages_asked(body: Body) -> Request:
    """What a body of this form asks."""
    messages = [Message("system", shown_text(body["system"]))] if body.get("system") else []
    for given in objects_in(body.get("messages")):
        content = given.get("content")
        blocks = objects_in(content)
        calls = tuple(
            ToolCall(words(block.get("id"), 200), words(block.get("name"), 200), as_json(block.get("input") or {}))
            for block in blocks
            if block.get("type") == "tool_use"
        )
        results = [block for block in blocks if block.get("type") == "tool_result"]
        said = [block for block in blocks if block.get("type") not in ("tool_use", "tool_result")]
        messages += [
            Message("tool", shown_text(block.get("content")), answers=words(block.get("tool_use_id"), 200))
            for block in results
        ]
        text = shown_text(said if blocks else content)
        if text or calls or not results:
            messages.append(Message(_speaker(given.get("role")), text, calls))
    return Request(
        messages=tuple(messages),
        stop=_stop(body.get("stop_sequences")),
        max_tokens=first_number(body.get("max_tokens")),
        tools=_tools(body.get("tools")),
    )


def input_asked(body: Body) -> Request:
    """What a body of this form asks."""
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    shown = [one if isinstance(one, str) else f"[{len(one)} tokens]" for one in texts if isinstance(one, str | list)]
    return Request(messages=tuple(Message("user", wellformed(one)) for one in shown[:MOST_SHOWN]))


def gemini_asked(body: Body) -> Request:
    """What a body of this form asks."""
    system = body.get("systemInstruction") or body.get("system_instruction")
    messages = [Message("system", shown_text(system.get("parts")))] if isinstance(system, dict) else []
    for given in objects_in(body.get("contents")):
        parts = objects_in(given.get("parts"))
        calls = gemini_calls(parts)
        told = [object_in(one, "functionResponse") for one in parts if "functionResponse" in one]
        messages += [Message("tool", as_json(one.get("response")), answers=words(one.get("name"), 200)) for one in told]
        text = shown_text([{"text": one["text"]} for one in parts if isinstance(one.get("text"), str)])
        if text or calls or not told:
            messages.append(Message(_speaker(given.get("role")), text, calls))
    tools = [tool for group in objects_in(body.get("tools")) for tool in objects_in(group.get("functionDeclarations"))]
    return Request(messages=tuple(messages), tools=_tools(tools))


def rerank_asked(body: Body) -> Request:
    """What a body of this form asks."""
    documents = body.get("documents")
    shown = [one if isinstance(one, str) else as_json(one) for one in documents] if isinstance(documents, list) else []
    texts = [shown_text(body.get("query")), *shown]
    return Request(messages=tuple(Message("user", wellformed(text)) for text in texts[:MOST_SHOWN]))


def listed_asked(body: Body) -> Request:
    """What a call of no known form asks, as one text."""
    query = body.get("query")
    asked = " ".join(map(str, query)) if isinstance(query, list) else ""
    return Request(messages=(Message("user", wellformed(f"{body.get('method')} {asked}\n{body.get('body')}".strip())),))


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
