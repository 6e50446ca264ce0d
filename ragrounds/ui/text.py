"""Text and figures as they are shown: hostile text made safe, figures in their units.

What is not known is written as a dash, never as 0. Safe text holds no escape codes and no bidirectional tricks.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Literal

from ragrounds.base.text import safe as safe

UNKNOWN = "-"
"""Text that is written if a figure is not known."""
TOO_FEW = "too few"
"""Text that is written if there are too few data for an interval."""
UNKNOWN_COSTS = "unknown: give prices in prices.toml, then `ragrounds ledger --reprice`"
"""Text that says why costs are not known, and what to do."""
UNKNOWN_TOKENS = "tokens unknown: some replies have none; a system that streams must request them (stream_usage=True)"
"""Text that says why tokens are not known, and what to do."""


def one_line(text: str, longest: int = 80) -> str:
    """Return `text` as one safe line of at most `longest` columns."""
    flat = safe(" ".join(text.split()))
    width = end = 0
    for index, letter in enumerate(flat, 1):
        width += _columns(letter)
        if width > longest:
            return flat[:end] + "…"
        if width < longest:  # a column is left for the ellipsis
            end = index
    return flat


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def shorten_middle(text: str, width: float, measure: Callable[[str], float] = _columns) -> str:
    """Return `text` as one safe line of at most this width; if it is too long without its middle, as names differ at
    their ends.
    """
    flat = safe(" ".join(text.split()))
    length = len(flat)
    while length and measure(flat if length == len(flat) else flat[:length] + "…") > width:
        length -= 1
    if length == len(flat):
        return flat
    front = (length + 1) // 2
    return f"{flat[:front]}…{flat[len(flat) - length + front :]}"


def wrapped(text: str, width: int) -> str:
    """Return a text with lines of at most `width` columns, broken between words.

    Indented lines are continued under their indentation. A command in backticks is never broken, so that it can be
    pasted.
    """
    lines = []
    for line in text.split("\n"):
        whole = re.sub(r"`[^`]+`", lambda command: command[0].replace(" ", "\0"), line)
        indent = " " * (len(line) - len(line.lstrip(" ")))
        lines += wrap(whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(lines).replace("\0", " ")


def first_sentence(text: str) -> str:
    """Return the first sentence of a note, with its period."""
    return text.partition(". ")[0].removesuffix(".") + "."


def figure_text(value: float, form: str) -> str:
    """Format a number with a Python format spec. A value that rounds to 0 gets no minus: ``0.00``, never ``-0.00``."""
    text = format(value, form)
    return format(0.0, form) if text.startswith("-") and not any(digit in text for digit in "123456789") else text


def number_of(number: int, noun: str) -> str:
    """Return a count with its noun in singular or plural: ``1 call``, ``2,000 calls``, ``3 queries``."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a regular English noun: ``matches``, ``queries``, ``days``."""
    if noun.endswith(("ch", "sh", "s", "x")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


def joined_words(words: Sequence[str], last: str = "and") -> str:
    """Join words to an English list: ``a``, ``a and b``, ``a, b and c``.

    Args:
        words: any number of words.
        last: the conjunction before the last word.
    """
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1] if words else ""]))


def percent(value: float | None, digits: int = 2) -> str:
    """Return a share in percent, without the sign."""
    return UNKNOWN if value is None else figure_text(100 * value, f".{digits}f")


def in_scale(value: float | None, unit: str, digits: int = 2) -> str:
    """Return a score as every table writes it: a share in percent, any other unit unchanged."""
    return percent(value, digits) if unit == "percent" or value is None else figure_text(value, ".4g")


def points(value: float | None, digits: int = 2) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return UNKNOWN if value is None else figure_text(100 * value, f"+.{digits}f")


def difference_text(value: float | None, unit: str, digits: int = 2) -> str:
    """Return a difference of scores with its sign: shares in percentage points, any other unit unchanged."""
    return points(value, digits) if unit == "percent" or value is None else figure_text(value, "+.4g")


def ends(low: float | None, high: float | None, unit: str = "percent", digits: int = 1, *, signed: bool = False) -> str:
    """Return the ends of an interval as text: shares in percent, other units unchanged; "too few" without an interval.

    Args:
        low, high: ``None`` if there is no interval.
        unit: the scorer's unit.
        digits: decimals of percentages.
        signed: True for the interval of a difference.
    """
    if low is None or high is None:
        return TOO_FEW
    write, between = difference_text if signed else in_scale, "-" if unit == "percent" and not signed else " to "
    return f"{write(low, unit, digits)}{between}{write(high, unit, digits)}"


def dollars(value: float | None) -> str:
    """Return dollars with their sign; small sums keep two significant digits, as ``$0.0012``; ``None`` is *unknown*."""
    if value is None:
        return "unknown"
    if value < 0:
        return f"-{dollars(-value)}"
    if value == 0 or value >= 0.0995:
        return f"${value:,.2f}"
    if value < 1e-6:
        return "<$0.000001"
    return "$" + f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0")


def tokens(value: float | None) -> str:
    """Return a number of tokens, shortened to thousands, millions or billions: ``831``, ``12.3 k``, ``1.2 M``, ``4.0
    G``.
    """
    if value is None:
        return UNKNOWN
    return _with_unit_prefix(value, 1000, ("", "k", "M", "G"))


def size(count: float | None) -> str:
    """Return a number of bytes: ``831 B``, ``12.3 kB``, ``1.2 MB``, ``4.0 GB``."""
    return UNKNOWN if count is None else _with_unit_prefix(count, 1000, ("B", "kB", "MB", "GB"))


def _with_unit_prefix(value: float, step: int, units: Sequence[str]) -> str:
    power = 0
    # A value that would be rounded to 1000.0 of a unit is written as 1.0 of the next.
    while power < len(units) - 1 and value >= (step - 0.05 if power else step - 0.5):
        value, power = value / step, power + 1
    return f"{value:.{1 if power else 0}f} {units[power]}".rstrip()


def duration(seconds: float | None) -> str:
    """Return seconds in the usual units: ``5 ms``, ``1.2 s``, ``12 s``, ``2 min 05 s``, ``1 h 02 min``, ``3 d 04
    h``.
    """
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        thousandths = 1000 * seconds
        return "<1 ms" if 0 < thousandths < 0.5 else f"{thousandths:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days:,} d {hours:02d} h"


def age(seconds: float) -> str:
    """Return the time since a moment in its largest unit: ``now``, ``3 min``, ``5 h``, ``12 d``, ``4 mo``, ``2 y``."""
    for length, unit in ((31_557_600, "y"), (2_629_800, "mo"), (86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def p_value(value: float | None) -> str:
    """Return a p value with four decimals, or ``<0.0001``."""
    if value is None:
        return UNKNOWN
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def in_unit(value: float, unit: Literal["number", "dollars", "seconds", "tokens"]) -> str:
    """Return a figure in its unit, as the ticks of an axis are written."""
    match unit:
        case "dollars":
            return dollars(value)
        case "seconds":
            return duration(value)
        case "tokens":
            return tokens(value)
        case "number":
            return figure_text(value, ",.4g")
