"""Text and figures as they are shown: hostile text made safe, figures in their units.

What is not known is written as a dash, never as 0. Safe text holds no escape codes and no bidirectional tricks.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

from ragrounds.text import safe as safe

UNKNOWN = "-"
"""What is written where a figure is not known."""
TOO_FEW = "too few"
"""What is written in place of an interval where the data do not allow one."""


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


def figure_text(value: float, form: str) -> str:
    """A number in a format of Python's, where what is rounded to 0 has no minus: ``0.00`` and never ``-0.00``."""
    text = format(value, form)
    return format(0.0, form) if text.startswith("-") and not any(digit in text for digit in "123456789") else text


def number_of(number: int, noun: str) -> str:
    """How many of something: ``1 call``, ``2,000 calls``; what ends in ``ch`` or ``s`` takes ``es``."""
    plural = f"{noun}es" if noun.endswith(("ch", "s")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def percent(value: float | None, digits: int = 2) -> str:
    """A share as a number of percent, without the sign."""
    return UNKNOWN if value is None else figure_text(100 * value, f".{digits}f")


def in_scale(value: float | None, unit: str) -> str:
    """A score as every table writes it: a share as a number of percent, another unit as it is."""
    return percent(value) if unit == "percent" or value is None else figure_text(value, ".4g")


def points(value: float | None, digits: int = 2) -> str:
    """A difference of shares in percentage points, with its sign."""
    return UNKNOWN if value is None else figure_text(100 * value, f"+.{digits}f")


def dollars(value: float | None) -> str:
    """Dollars with their sign; small sums keep two significant digits; ``None`` is *unknown*."""
    if value is None:
        return "unknown"
    if value == 0 or value >= 0.1:
        return f"${value:,.2f}"
    return f"${value:.2g}" if value >= 1e-4 else f"${value:.1e}"


def tokens(value: float | None) -> str:
    """A number of tokens, shortened to thousands, millions or thousand millions (k, M, G)."""
    if value is None:
        return UNKNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """Seconds as ``0.25 s``, ``12 s``, ``4:05`` or ``1:02:30``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def p_value(value: float | None) -> str:
    """A p value with four decimals, or that it is smaller."""
    if value is None:
        return UNKNOWN
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def in_unit(value: float, unit: Literal["number", "dollars", "seconds", "tokens"]) -> str:
    """A figure in its unit, as the ticks of an axis are written."""
    match unit:
        case "dollars":
            return dollars(value)
        case "seconds":
            return duration(value)
        case "tokens":
            return tokens(value)
        case "number":
            return figure_text(value, ",.4g")
