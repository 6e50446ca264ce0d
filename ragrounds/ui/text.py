"""Hostile text made safe to show: no escape codes, no markup, no bidirectional tricks."""

from __future__ import annotations

import re
import unicodedata

_BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but line feed and tab
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # soft hyphen, joiners, invisible fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, line separators, bidirectional
    "\ufe00-\ufe0f\U000e0000-\U000e0fff"  # variation selectors and tags: text can be hidden in them
    "\ud800-\udfff]"
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
