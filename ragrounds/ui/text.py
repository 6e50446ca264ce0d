"""Hostile text made safe to show: no escape codes, no markup, no bidirectional tricks."""

from __future__ import annotations

import unicodedata

from ragrounds.texts import safe as safe


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
