"""Replies of models for readers: JSON by its names, prose as Markdown; and as they were written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ragrounds.ui.trace.layout import TextBlock

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)
_SHORT = 60
"""Characters of a value up to which it is shown on the line of its name."""


def json_in(text: str) -> object:
    """Return the object or list that a text encodes, with or without a code fence; ``None`` if the text is not JSON."""
    fenced = _FENCED.fullmatch(text)
    bare = (fenced[1] if fenced else text).strip()
    try:
        return json.loads(bare) if bare[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def value_text(value: object) -> str:
    """Return a value as text, over several lines if it has parts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def reply_blocks(text: str, indent: int = 0) -> Iterator[TextBlock]:
    """Yield a reply as it is read: a JSON object by its names, other text as Markdown; and as it was written."""
    value = json_in(text)
    if not isinstance(value, dict) or not value:
        yield TextBlock(text or "(no text)", indent=indent, markdown=True)
        return
    for name, part in value.items():
        part_text, label = value_text(part), name.replace("_", " ")
        if isinstance(part, str) and (len(part_text) > _SHORT or "\n" in part_text):
            yield TextBlock(label[:1].upper() + label[1:], "key", indent, only="read")
            yield TextBlock(part_text, indent=indent, markdown=True, only="read")
        else:
            yield TextBlock(f"{label}: {part_text}", indent=indent, spans=((0, len(label) + 1, "key"),), only="read")
    yield TextBlock(text, indent=indent, only="raw")
