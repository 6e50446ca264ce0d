"""Hostile text made safe to show: no escape codes, no markup, no bidirectional tricks."""

from __future__ import annotations

import re
import unicodedata

_BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def safe(text: str, longest: int | None = None) -> str:
    """`text` with every control, formatting and zero-width character written out as ``<U+XXXX>``.

    Line feeds and tabs stay. Longer than `longest` characters: cut, with what is missing said.
    """
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}… [{len(text) - longest:,} more characters]"
    return _BAD.sub(lambda match: f"<U+{ord(match.group()):04X}>", text.replace("\r\n", "\n"))


def one_line(text: str, longest: int = 80) -> str:
    """`text` as one safe line of at most `longest` columns."""
    flat = safe(" ".join(text.split()))
    width = 0
    kept: list[str] = []
    for letter in flat:
        width += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if width > longest - 1:
            return "".join(kept) + "…"
        kept.append(letter)
    return flat
