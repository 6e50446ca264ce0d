"""What a model wrote, as a person reads it: JSON by its names, prose as Markdown; and as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ragrounds.ui.trace.layout import TextBlock

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)
_SHORT = 60
"""Characters of a value up to which it stands beside its name."""


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


def reply_blocks(text: str, indent: int = 0, fold: int = 0) -> Iterator[TextBlock]:
    """A reply as it is read: of a JSON object each name with its value, else the whole as Markdown; and as written."""
    value = json_in(text)
    if not isinstance(value, dict) or not value:
        yield TextBlock(text or "(no text)", indent=indent, markdown=True, fold=fold)
        return
    for name, part in value.items():
        said = value_text(part)
        if isinstance(part, str) and (len(said) > _SHORT or "\n" in said):
            yield TextBlock(f"{name}:", "key", indent, only="read")
            yield TextBlock(said, indent=indent, markdown=True, only="read", fold=fold)
        else:
            yield TextBlock(f"{name}: {said}", indent=indent, spans=((0, len(name) + 1, "key"),), only="read")
    yield TextBlock(text, indent=indent, only="raw", fold=fold)
