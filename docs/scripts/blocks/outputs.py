"""What is shown against what was printed: text by text, but for what the table of volatile parts makes equal."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

REST = "…"
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


@dataclass(frozen=True)
class Volatile:
    """A part of outputs that differs from one run to the next."""

    pattern: re.Pattern[str]
    becomes: str
    why: str


def plain(text: str, volatile: Sequence[Volatile]) -> str:
    """The text without colours, with one blank for several, and each volatile part as the table names it."""
    text = _STYLE.sub("", text).replace("\r\n", "\n")
    for one in volatile:
        text = one.pattern.sub(one.becomes, text)
    return "".join(f"{' '.join(line.split())}\n" for line in text.strip("\n").rstrip().splitlines())


def agrees(expected: str, printed: str, volatile: Sequence[Volatile] = ()) -> bool:
    """Whether an output is what is shown.

    Args:
        expected: the page's text. A line ``…`` stands for any number of lines, ``…`` within a line for any text.
        printed: what came.
        volatile: what is made equal in both.
    """
    lines = plain(expected, volatile).splitlines()
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == REST else "[^\n]*?".join(map(re.escape, line.split(REST))) + "\n" for line in lines
    )
    return re.fullmatch(pattern, plain(printed, volatile)) is not None


def difference(expected: str, printed: str, volatile: Sequence[Volatile] = ()) -> str:
    """The lines that differ, as `diff` writes them."""
    shown, came = plain(expected, volatile).splitlines(), plain(printed, volatile).splitlines()
    return "\n".join(difflib.unified_diff(shown, came, "the page shows", "was printed", lineterm="", n=1))
