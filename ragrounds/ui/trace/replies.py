"""What a model wrote, as a person reads it: JSON by its names, as it was written below."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ragrounds.ui.trace.layout import TextBlock

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


def json_in(text: str) -> object:
    """The object or list that a text is, in a fence or without one; ``None``: it is no JSON."""
    fenced = _FENCED.fullmatch(text)
    bare = (fenced[1] if fenced else text).strip()
    try:
        return json.loads(bare) if bare[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def value_text(value: object) -> str:
    """A value as text, set out line by line where it has parts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def reply_blocks(text: str, indent: int = 0, *, raw: bool = True) -> Iterator[TextBlock]:
    """A reply; of a JSON object each name with its value, and (`raw`) the text as it was written, at the end."""
    value = json_in(text)
    if not isinstance(value, dict) or not value:
        yield TextBlock(text or "(no text)", indent=indent)
        return
    for name, part in value.items():
        yield TextBlock(f"{name}: {value_text(part)}", indent=indent, spans=((0, len(name) + 1, "key"),))
    if raw:
        yield TextBlock("as it was written", "heading", indent, more=True)
        yield TextBlock(text, "dim", indent, more=True)
