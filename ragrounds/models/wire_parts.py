"""Small parts of requests and answers at the wire, read with goodwill."""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.base.records import ToolCall
from ragrounds.base.text import wellformed
from ragrounds.models.reply_parts import as_json, read_content, words


def shown_text(value: object) -> str:
    """A message's content as one text; parts that are no text stand in it by their kind."""
    content = read_content(value)
    if content is None:
        return ""
    shown = " ".join(f"[{kind}]" for kind in content.left_out)
    return wellformed("\n".join(filter(None, (content.reasoning, content.text, content.refusal, shown))))


def objects_in(value: object) -> list[dict[str, object]]:
    """The objects of a list; of anything else, none."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def first_number(*values: object) -> int | None:
    """The first of some values that is a whole number."""
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def gemini_calls(parts: list[dict[str, object]]) -> tuple[ToolCall, ...]:
    """The function calls among the parts of one of Gemini's turns."""
    found = [object_in(one, "functionCall") for one in parts if "functionCall" in one]
    return tuple(
        ToolCall(words(one.get("id"), 200), words(one.get("name"), 200), as_json(one.get("args") or {}))
        for one in found
    )


def object_in(given: Mapping[str, object], name: str) -> dict[str, object]:
    """The object under a name; empty where there is none."""
    value = given.get(name)
    return value if isinstance(value, dict) else {}
