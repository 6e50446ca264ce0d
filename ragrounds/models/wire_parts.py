"""Helpers for lenient reading of requests and answers on the wire."""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.base.records import ToolCall
from ragrounds.base.text import wellformed
from ragrounds.models.reply_parts import as_json, read_content, words


def shown_text(value: object) -> str:
    """Return a message's content as one text; parts that are not text are represented by their kind."""
    content = read_content(value)
    if content is None:
        return ""
    other_kinds = " ".join(f"[{kind}]" for kind in content.left_out)
    return wellformed("\n".join(filter(None, (content.reasoning, content.text, content.refusal, other_kinds))))


def objects_in(value: object) -> list[dict[str, object]]:
    """Return the objects of a list; empty for anything else."""
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def first_number(*values: object) -> int | None:
    """Return the first of some values that is a whole number."""
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def gemini_calls(parts: list[dict[str, object]]) -> tuple[ToolCall, ...]:
    """Return the function calls among the parts of one of Gemini's turns."""
    calls = [object_in(part, "functionCall") for part in parts if "functionCall" in part]
    return tuple(
        ToolCall(words(call.get("id"), 200), words(call.get("name"), 200), as_json(call.get("args") or {}))
        for call in calls
    )


def object_in(mapping: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the object under a name; empty if there is no such object."""
    value = mapping.get(name)
    return value if isinstance(value, dict) else {}
